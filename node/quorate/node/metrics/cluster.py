"""The cluster in numbers, as the active controller has it on record; no other node tells of it.

So a sum over all nodes is right, and a cluster without an active controller tells nothing, which is an alarm
of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from quorate.core.metrics import Metric, MetricKind, Reading, Sample
from quorate.metadata.image import NO_LEADER, MetadataImage, PartitionImage
from quorate.metadata.topic_settings import min_insync_replicas_of
from quorate.node.node import Node

__all__ = ["METRICS", "ClusterMetrics"]

BROKERS: Final = Metric(
    "quorate_cluster_brokers", MetricKind.GAUGE, "Brokers that are registered, fenced ones included."
)
FENCED: Final = Metric(
    "quorate_cluster_fenced_brokers",
    MetricKind.GAUGE,
    "Brokers that are registered and fenced: stopped, or not heard of any more.",
)
TOPICS: Final = Metric("quorate_cluster_topics", MetricKind.GAUGE, "Topics that there are.")
PARTITIONS: Final = Metric("quorate_cluster_partitions", MetricKind.GAUGE, "Partitions of all topics.")
OFFLINE: Final = Metric(
    "quorate_cluster_offline_partitions",
    MetricKind.GAUGE,
    "Partitions that nobody leads: they are neither read nor written.",
)
UNDER_REPLICATED: Final = Metric(
    "quorate_cluster_under_replicated_partitions",
    MetricKind.GAUGE,
    "Partitions of which a replica is not in sync.",
)
UNDER_MIN_ISR: Final = Metric(
    "quorate_cluster_under_min_isr_partitions",
    MetricKind.GAUGE,
    "Partitions with fewer replicas in sync than min.insync.replicas: writes with acks=all are refused.",
)
UNCLEAN: Final = Metric(
    "quorate_cluster_unclean_partitions",
    MetricKind.GAUGE,
    "Partitions whose leader was elected although it may lack acknowledged records, and leads still.",
)

METRICS: Final = (BROKERS, FENCED, TOPICS, PARTITIONS, OFFLINE, UNDER_REPLICATED, UNDER_MIN_ISR, UNCLEAN)

_PARTITIONS_PER_TURN: Final = 500


@dataclass(slots=True)
class _Partitions:
    all: int = 0
    offline: int = 0
    under_replicated: int = 0
    under_min_isr: int = 0
    unclean: int = 0

    def count(self, image: MetadataImage, partition: PartitionImage) -> None:
        self.all += 1
        self.offline += partition.leader == NO_LEADER
        self.under_replicated += len(partition.isr) < len(partition.replicas)
        self.under_min_isr += len(partition.isr) < min_insync_replicas_of(image, partition)
        self.unclean += partition.leader_epoch in partition.unclean_leader_epochs


class ClusterMetrics:
    def __init__(self, node: Node) -> None:
        self._node = node
        #: what was counted; None: this is not the active controller
        self._image: MetadataImage | None = None
        self._partitions = _Partitions()

    async def look(self) -> None:
        controller = self._node.controller
        if controller is None or not controller.is_active:
            self._image = None
            return
        image, before = controller.image, self._image
        # Images share what has not changed, which is most of it most of the time.
        if (
            before is None
            or before.topics is not image.topics
            or before.cluster_configs is not image.cluster_configs
        ):
            self._partitions = await _counted(image)
        self._image = image

    def read(self) -> Iterator[Reading]:
        image, partitions = self._image, self._partitions
        if image is None:
            return
        fenced = sum(broker.is_fenced for broker in image.brokers.values())
        for metric, value in (
            (BROKERS, len(image.brokers)),
            (FENCED, fenced),
            (TOPICS, len(image.topics)),
            (PARTITIONS, partitions.all),
            (OFFLINE, partitions.offline),
            (UNDER_REPLICATED, partitions.under_replicated),
            (UNDER_MIN_ISR, partitions.under_min_isr),
            (UNCLEAN, partitions.unclean),
        ):
            yield Reading(metric, [Sample((), value)])


async def _counted(image: MetadataImage) -> _Partitions:
    found = _Partitions()
    for topic in image.topics.values():
        for partition in topic.partitions:
            found.count(image, partition)
            if found.all % _PARTITIONS_PER_TURN == 0:
                await asyncio.sleep(0)
    return found
