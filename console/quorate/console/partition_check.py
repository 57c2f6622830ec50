"""Which partitions a topic has, and whether it has the one that somebody has named."""

from __future__ import annotations

from quorate.client import TopicPartition
from quorate.client.admin.types import TopicDescription
from quorate.core.ids import PartitionId, TopicName
from quorate.errors import UnknownTopicOrPartition

__all__ = ["check_partition_exists", "partitions_of"]


def check_partition_exists(topic: TopicDescription, partition: int | None) -> None:
    """None: none was named."""
    count = len(topic.partitions)
    if partition is not None and partition >= count:
        raise UnknownTopicOrPartition(
            f"{topic.name} has no partition {partition}: it has {count}",
            topic=topic.name,
            partition=partition,
        )


def partitions_of(topic: TopicDescription) -> list[TopicPartition]:
    """By their numbers."""
    name = TopicName(topic.name)
    return [TopicPartition(name, PartitionId(number)) for number in range(len(topic.partitions))]
