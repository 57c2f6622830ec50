"""How the replicas of this broker stand, counted from the metadata: for readiness and for metrics.

Counting goes over every partition of the cluster, so it is done when somebody asks, a piece at a time, and
again only when partitions have changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from quorate.core.ids import BrokerId
from quorate.metadata.image import NO_LEADER, MetadataImage, PartitionImage
from quorate.metadata.topic_settings import min_insync_replicas_of

__all__ = ["Census", "ReplicaCensus"]

_PARTITIONS_PER_TURN: Final = 500
#: replicas that are named; the others are counted
_NAMED_MAX: Final = 10


@dataclass(slots=True)
class Census:
    """Of the partitions of which this broker has a replica."""

    replicas: int = 0
    leaders: int = 0
    #: it leads, with fewer replicas in sync than there are
    under_replicated: int = 0
    #: it leads, and nothing can be committed: fewer are in sync than min.insync.replicas
    under_min_isr: int = 0
    #: nobody leads
    leaderless: int = 0
    #: somebody leads, and this replica is not in the ISR
    out_of_sync: int = 0
    #: some of those
    out_of_sync_names: list[str] = field(default_factory=list)


class ReplicaCensus:
    def __init__(self, broker_id: BrokerId) -> None:
        self._broker_id = broker_id
        self._counted: MetadataImage | None = None
        self._latest = Census()

    async def take(self, image: MetadataImage) -> Census:
        """What is given stays as it is."""
        counted = self._counted
        # Images are new ones every second, and share what has not changed.
        if (
            counted is not None
            and counted.topics is image.topics
            and counted.cluster_configs is image.cluster_configs
        ):
            return self._latest
        census = Census()
        for count, partition in enumerate(_partitions(image), 1):
            if self._broker_id in partition.replicas:
                self._count(census, partition, image)
            if count % _PARTITIONS_PER_TURN == 0:
                await asyncio.sleep(0)
        self._counted, self._latest = image, census
        return census

    def _count(self, census: Census, partition: PartitionImage, image: MetadataImage) -> None:
        census.replicas += 1
        if partition.leader == NO_LEADER:
            census.leaderless += 1
        elif partition.leader == self._broker_id:
            census.leaders += 1
            census.under_replicated += len(partition.isr) < len(partition.replicas)
            census.under_min_isr += len(partition.isr) < min_insync_replicas_of(image, partition)
        elif self._broker_id not in partition.isr:
            census.out_of_sync += 1
            if len(census.out_of_sync_names) < _NAMED_MAX:
                name = image.topics[partition.topic_id].name
                census.out_of_sync_names.append(f"{name}-{partition.partition}")


def _partitions(image: MetadataImage) -> Iterator[PartitionImage]:
    for topic in image.topics.values():
        yield from topic.partitions
