"""A topic: its name, its identity, its settings, and the partitions that this node leads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from quorate.broker.partition import Partition
from quorate.core.config import TopicConfig
from quorate.core.ids import PartitionId, TopicId, TopicName
from quorate.errors import QuorateError, UnknownTopicOrPartition, copy_of

__all__ = ["Topic"]


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
