"""Partitions of the committed metadata, for a history: what the simulator and drills see alike."""

from __future__ import annotations

from quorate.chaos.history.history import History
from quorate.core.ids import TopicPartition
from quorate.metadata.image import NO_LEADER, PartitionImage

__all__ = ["saw_partition_image"]


def saw_partition_image(
    history: History, source: str, name: TopicPartition, partition: PartitionImage
) -> None:
    """``source`` has applied it, and tells all that it applies, in order."""
    history.saw_partition(
        source,
        name,
        topic_id=partition.topic_id,
        leader=None if partition.leader == NO_LEADER else partition.leader,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        isr=partition.isr,
        elr=partition.elr,
    )
