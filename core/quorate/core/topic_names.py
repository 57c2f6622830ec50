"""What a topic may be called, and the id that tells it from another of the same name (rule 43)."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Final

from quorate.core.ids import TopicId, TopicName
from quorate.core.limits import PARTITIONS_PER_TOPIC_MAX, TOPIC_NAME_CHARACTERS_MAX
from quorate.errors import InvalidRequest, InvalidTopic

__all__ = [
    "INTERNAL_TOPICS",
    "OFFSETS_TOPIC",
    "check_not_internal",
    "check_not_reserved",
    "check_partition_count",
    "check_topic_id",
    "check_topic_name",
    "topic_id_from",
]

#: where consumer groups keep their state
OFFSETS_TOPIC: Final = TopicName("__consumer_offsets")
#: topics that the system writes itself, and whose records nobody else may add to or take away
INTERNAL_TOPICS: Final = frozenset({OFFSETS_TOPIC})
#: names that begin like this are the system's, also those that it may need one day
_RESERVED_PREFIX: Final = "__"

_LEGAL_NAME: Final = re.compile(r"[A-Za-z0-9._-]+", re.ASCII)
_TOPIC_ID_BYTES: Final = 16


def check_topic_name(name: str) -> TopicName:
    """The name, if it can be one of a topic, of a directory, and of a metric."""
    if not 1 <= len(name) <= TOPIC_NAME_CHARACTERS_MAX:
        raise InvalidTopic(
            f"a topic name has 1 to {TOPIC_NAME_CHARACTERS_MAX} characters, this one has {len(name)}",
            characters_max=TOPIC_NAME_CHARACTERS_MAX,
        )
    if name in (".", "..") or not _LEGAL_NAME.fullmatch(name):
        raise InvalidTopic(f"topic name {name!r}: only A-Z a-z 0-9 . _ - are allowed, and not . or .. alone")
    return TopicName(name)


def check_not_reserved(name: str) -> None:
    """For topics that people create."""
    if name.startswith(_RESERVED_PREFIX):
        raise InvalidTopic(
            f"topic name {name!r}: names that begin with {_RESERVED_PREFIX} are reserved for the system",
            topic=name,
        )


def check_not_internal(name: str, what: str) -> None:
    """For what people ask about a topic. ``what``: "deleted", say."""
    if name in INTERNAL_TOPICS:
        raise InvalidTopic(f"topic {name} is the system's own, and cannot be {what}", topic=name)


def check_partition_count(name: str, partition_count: int) -> None:
    if not 1 <= partition_count <= PARTITIONS_PER_TOPIC_MAX:
        raise InvalidTopic(
            f"topic {name}: {partition_count} partitions, 1 to {PARTITIONS_PER_TOPIC_MAX} are possible",
            partitions_max=PARTITIONS_PER_TOPIC_MAX,
        )


def topic_id_from(random_bytes: bytes) -> TopicId:
    """22 characters of URL-safe base64 for 16 random bytes."""
    assert len(random_bytes) == _TOPIC_ID_BYTES
    return TopicId(base64.urlsafe_b64encode(random_bytes).rstrip(b"=").decode())


def check_topic_id(text: str) -> TopicId:
    """The id, if ``topic_id_from`` could have made it. It becomes part of directory names."""
    try:
        decoded = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        decoded = b""
    # Several texts decode to the same bytes; only one of them is the id.
    if len(decoded) != _TOPIC_ID_BYTES or topic_id_from(decoded) != text:
        raise InvalidRequest(f"topic id {text!r}: 22 characters of URL-safe base64 for 16 bytes are expected")
    return TopicId(text)
