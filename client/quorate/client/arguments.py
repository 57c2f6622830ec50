"""Arguments as applications give them, checked before anything else.

Types are checked because Python does not: a wrong one would show up later, far from its cause, as a TypeError
out of the client's inside, or of its loop. Each message names the argument and what was found there.
"""

from __future__ import annotations

import difflib
import math
import operator
import reprlib
from collections.abc import Collection, Iterable, Sequence
from typing import SupportsIndex

from quorate.core.ids import PartitionId, TopicName, TopicPartition
from quorate.errors import InvalidRequest, InvalidTopic

__all__ = [
    "check_arguments",
    "check_integer",
    "check_integer_or_none",
    "check_offset",
    "check_partition_argument",
    "check_record_argument",
    "check_seconds",
    "check_text",
    "check_topic_argument",
    "has_utf8",
    "shown",
]


def check_arguments(caller: str, given: Iterable[str], known: Collection[str]) -> None:
    """As Python does it, in the name of the class that the application called, and with the nearest name."""
    for name in given:
        if name not in known:
            nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
            hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
            raise TypeError(f"{caller}(...) got an unexpected keyword argument {name!r}{hint}")


def shown(found: object) -> str:
    """A value and its type, for a message."""
    return f"{reprlib.repr(found)} ({type(found).__name__})"


def check_topic_argument(name: object, argument: str = "topic") -> None:
    if not isinstance(name, str):
        raise InvalidTopic(f"{argument} is {shown(name)}: a topic is named by a str")
    if not has_utf8(name):
        raise InvalidTopic(f"{argument} is {shown(name)}: it has no UTF-8")


def check_text(argument: str, found: object) -> str:
    """Text that can be sent: Python keeps in a str what has no UTF-8, too."""
    if not isinstance(found, str):
        raise InvalidRequest(f"{argument} is {shown(found)}: a str is expected", argument=argument)
    if not has_utf8(found):
        raise InvalidRequest(f"{argument} is {shown(found)}: it has no UTF-8", argument=argument)
    return found


def has_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_partition_argument(partition: object) -> TopicPartition:
    """A topic and a number, in whatever sequence the application has them."""
    if isinstance(partition, str) or not isinstance(partition, Sequence) or len(partition) != 2:
        raise InvalidRequest(f"a partition is a topic and a number, not {shown(partition)}")
    topic, number = partition
    check_topic_argument(topic)
    return TopicPartition(TopicName(topic), PartitionId(check_integer("partition", number, bits=32)))


def check_record_argument(record: object) -> None:
    """One that a poll has brought; a ``RecordMetadata`` has no leader epoch, say."""
    if not all(hasattr(record, name) for name in ("topic", "partition", "offset", "leader_epoch")):
        raise InvalidRequest(f"record is {shown(record)}: one that was polled is expected", argument="record")


def check_integer(argument: str, found: object, *, bits: int = 64) -> int:
    """Whatever is a whole number by itself, as NumPy's are, and fits on the wire; a bool is not meant so."""
    if type(found) is int:
        number = found
    elif isinstance(found, SupportsIndex) and not isinstance(found, bool):
        number = operator.index(found)
    else:
        raise InvalidRequest(f"{argument} is {shown(found)}: an int is expected", argument=argument)
    if number.bit_length() >= bits:
        raise InvalidRequest(f"{argument} is {shown(found)}: it has {bits} bits at most", argument=argument)
    return number


def check_seconds(argument: str, found: object) -> float:
    """A time to wait; ``nan`` would be neither over nor to come."""
    if isinstance(found, bool) or not isinstance(found, int | float) or math.isnan(found):
        raise InvalidRequest(
            f"{argument} is {shown(found)}: a number of seconds is expected", argument=argument
        )
    return found


def check_integer_or_none(argument: str, found: object, *, bits: int = 64) -> int | None:
    return None if found is None else check_integer(argument, found, bits=bits)


def check_offset(argument: str, found: object) -> int:
    offset = check_integer(argument, found)
    if offset < 0:
        raise InvalidRequest(f"{argument} is {offset}: an offset is 0 or more", argument=argument)
    return offset
