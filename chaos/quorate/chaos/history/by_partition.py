"""What a consumer was handed, by the partition that it is of: order is promised within one."""

from __future__ import annotations

from collections.abc import Iterable

from quorate.core.ids import PartitionId, TopicName, TopicPartition
from quorate.core.records import ConsumerRecord

__all__ = ["by_partition"]


def by_partition(records: Iterable[ConsumerRecord]) -> dict[TopicPartition, list[ConsumerRecord]]:
    """In the order in which they were handed out; partitions in that of their first records."""
    found: dict[TopicPartition, list[ConsumerRecord]] = {}
    for record in records:
        partition = TopicPartition(TopicName(record.topic), PartitionId(record.partition))
        found.setdefault(partition, []).append(record)
    return found
