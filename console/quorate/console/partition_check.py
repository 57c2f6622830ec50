"""Whether a topic has the partition that somebody has named."""

from __future__ import annotations

from quorate.client.admin.types import TopicDescription
from quorate.errors import UnknownTopicOrPartition

__all__ = ["check_partition_exists"]


def check_partition_exists(topic: TopicDescription, partition: int | None) -> None:
    """None: none was named."""
    count = len(topic.partitions)
    if partition is not None and partition >= count:
        raise UnknownTopicOrPartition(
            f"{topic.name} has no partition {partition}: it has {count}",
            topic=topic.name,
            partition=partition,
        )
