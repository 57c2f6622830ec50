"""From the names in a request to partitions, under the bounds that hold for every request.

A request names many partitions, and each has a result of its own: the first half finds them, the
second half fills the results in, or tells in them what went wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol, TypeVar

from google.protobuf.descriptor import EnumDescriptor

from quorate.broker.partition import Partition
from quorate.broker.topic_registry import TopicRegistry
from quorate.core.ids import TopicPartition
from quorate.errors import InvalidRequest, QuorateError
from quorate.rpc.error_detail import detail_from_error
from quorate.v1 import errors_pb2

__all__ = ["NamedPartition", "PartitionResult", "answer", "check_enum", "find_partitions"]

T = TypeVar("T")


class NamedPartition(Protocol):
    """What ProducePartition, FetchPartition and ListOffsetsPartition have in common."""

    topic: str
    topic_id: str
    partition: int
    current_leader_epoch: int

    def HasField(self, name: Literal["current_leader_epoch"], /) -> bool: ...  # noqa: N802 - protobuf's name


class PartitionResult(Protocol):
    """What ProducePartitionResult, FetchPartitionResult and ListOffsetsPartitionResult have in common."""

    topic: str
    topic_id: str
    partition: int

    @property
    def error(self) -> errors_pb2.ErrorDetail: ...


def check_enum(enum: EnumDescriptor, value: int, field: str) -> None:
    """A value of a newer client must not be taken for the default."""
    if value not in enum.values_by_number:
        known = ", ".join(enum.values_by_name)
        raise InvalidRequest(f"{field} has the unknown value {value}; known are {known}")


def find_partitions(
    topics: TopicRegistry, named: Sequence[NamedPartition], *, partitions_max: int
) -> list[Partition | QuorateError]:
    """Each partition that is named, or why the request cannot have it, in the same order.

    Fails as a whole for too many, and for one that is named twice, by whichever names: its share of
    the answer would be ambiguous.
    """
    if len(named) > partitions_max:
        raise InvalidRequest(
            f"the request names {len(named)} partitions, request.partitions.max is {partitions_max}",
            request_partitions_max=partitions_max,
        )
    found: list[Partition | QuorateError] = []
    seen: set[TopicPartition] = set()
    for each in named:
        try:
            partition = topics.find(each.topic, each.topic_id).partition(each.partition)
            if each.HasField("current_leader_epoch"):
                partition.check_leader_epoch(each.current_leader_epoch)
        except QuorateError as error:
            found.append(error)
            continue
        if partition.topic_partition in seen:
            topic, number = partition.topic_partition
            raise InvalidRequest(f"{partition.topic_partition} is named twice", topic=topic, partition=number)
        seen.add(partition.topic_partition)
        found.append(partition)
    return found


def answer(
    result: PartitionResult,
    named: NamedPartition,
    target: Partition | QuorateError,
    fill: Callable[[Partition], T],
) -> T | None:
    """Let ``fill`` do the work on one partition, and say in its result which one it is.

    None: there is no such partition, or ``fill`` has failed; the result tells.
    """
    result.topic, result.topic_id, result.partition = named.topic, named.topic_id, named.partition
    if isinstance(target, QuorateError):
        result.error.CopyFrom(detail_from_error(target))
        return None
    # A request may name a topic by one of the two; the answer has both.
    result.topic, result.topic_id = target.topic_partition.topic, target.topic_id
    try:
        return fill(target)
    except QuorateError as error:
        result.error.CopyFrom(detail_from_error(error))
        return None
