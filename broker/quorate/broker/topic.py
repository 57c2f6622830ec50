"""A topic: its name, its identity, its settings, and the partitions that this node leads."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from quorate.broker.partition import Partition
from quorate.core.config import TopicConfig
from quorate.core.ids import PartitionId, TopicId, TopicName
from quorate.core.limits import TOPIC_NAME_CHARACTERS_MAX
from quorate.errors import InvalidTopic, QuorateError, UnknownTopicOrPartition, copy_of

__all__ = ["Topic", "check_topic_name", "topic_id_from"]

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


def topic_id_from(random_bytes: bytes) -> TopicId:
    """22 characters of URL-safe base64 for 16 random bytes."""
    assert len(random_bytes) == _TOPIC_ID_BYTES
    return TopicId(base64.urlsafe_b64encode(random_bytes).rstrip(b"=").decode())


@dataclass(frozen=True, slots=True)
class Topic:
    name: TopicName
    topic_id: TopicId
    #: what was set for this topic; everything else follows the node
    overrides: Mapping[str, str]
    #: every setting in force
    config: TopicConfig
    #: by number from 0; one that cannot be served is represented by the reason
    partitions: tuple[Partition | QuorateError, ...]

    def partition(self, number: int) -> Partition:
        if not 0 <= number < len(self.partitions):
            raise UnknownTopicOrPartition(
                f"topic {self.name} has partitions 0 to {len(self.partitions) - 1}, not {number}",
                topic=self.name,
                partition=number,
            )
        partition = self.partitions[PartitionId(number)]
        if isinstance(partition, QuorateError):
            raise copy_of(partition)
        return partition
