"""From the names in a request to partitions, under the bounds that hold for every request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper

from quorate.broker.partition import Partition
from quorate.broker.topic_registry import TopicRegistry
from quorate.core.ids import TopicPartition
from quorate.errors import InvalidRequest, QuorateError

__all__ = ["NamedPartition", "check_enum", "find_partitions"]


class NamedPartition(Protocol):
    """What ProducePartition, FetchPartition and ListOffsetsPartition have in common."""

    topic: str
    topic_id: str
    partition: int
    current_leader_epoch: int

    def HasField(self, name: Literal["current_leader_epoch"], /) -> bool: ...  # noqa: N802 - protobuf's name


def check_enum(enum: EnumTypeWrapper, value: int, field: str) -> None:
    """A value of a newer client must not be taken for the default."""
    if value not in enum.values():
        raise InvalidRequest(f"{field} has the unknown value {value}; known are {', '.join(enum.keys())}")


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
            raise InvalidRequest(
                f"{partition.topic_partition} is named twice", partition=str(partition.topic_partition)
            )
        seen.add(partition.topic_partition)
        found.append(partition)
    return found
