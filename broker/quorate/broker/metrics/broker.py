"""A broker in numbers: its replicas, as the metadata has them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from quorate.broker.census import Census, ReplicaCensus
from quorate.broker.hosted import Hosted
from quorate.core.metrics import Metric, MetricKind, Reading, Sample
from quorate.errors import BrokerFenced

__all__ = ["METRICS", "BrokerMetrics"]

REPLICAS: Final = Metric(
    "quorate_broker_replicas",
    MetricKind.GAUGE,
    "Replicas that this broker is to hold, those it leads included.",
)
LEADERS: Final = Metric("quorate_broker_leaders", MetricKind.GAUGE, "Partitions that this broker leads.")
UNDER_REPLICATED: Final = Metric(
    "quorate_broker_under_replicated_partitions",
    MetricKind.GAUGE,
    "Partitions that this broker leads and of which a replica is not in sync.",
)
UNDER_MIN_ISR: Final = Metric(
    "quorate_broker_under_min_isr_partitions",
    MetricKind.GAUGE,
    "Partitions that this broker leads with fewer replicas in sync than min.insync.replicas: writes with "
    "acks=all are refused.",
)
LEADERLESS: Final = Metric(
    "quorate_broker_leaderless_partitions",
    MetricKind.GAUGE,
    "Partitions of which this broker has a replica and that nobody leads: they are neither read nor written.",
)
OUT_OF_SYNC: Final = Metric(
    "quorate_broker_out_of_sync_replicas",
    MetricKind.GAUGE,
    "Replicas of this broker that are not in the ISR, although the partition has a leader.",
)
LOGS_WITHOUT_ROOM: Final = Metric(
    "quorate_broker_logs_without_room",
    MetricKind.GAUGE,
    "Logs of this broker whose last append was refused because the disk is full. They are read as before, "
    "and no longer count once something was appended again, or half a minute later if the disk then has "
    "room.",
)

METRICS: Final = (
    REPLICAS, LEADERS, UNDER_REPLICATED, UNDER_MIN_ISR, LEADERLESS, OUT_OF_SYNC, LOGS_WITHOUT_ROOM,
)  # fmt: skip


class BrokerMetrics:
    def __init__(self, hosted: Hosted, census: ReplicaCensus) -> None:
        self._hosted = hosted
        self._census = census
        #: None: this broker does not know the metadata yet
        self._found: Census | None = None

    async def look(self) -> None:
        try:
            image = self._hosted.image
        except BrokerFenced:
            return
        self._found = await self._census.take(image)

    def read(self) -> Iterator[Reading]:
        found = self._found
        if found is None:
            return
        yield Reading(REPLICAS, [Sample((), found.replicas)])
        yield Reading(LEADERS, [Sample((), found.leaders)])
        yield Reading(UNDER_REPLICATED, [Sample((), found.under_replicated)])
        yield Reading(UNDER_MIN_ISR, [Sample((), found.under_min_isr)])
        yield Reading(LEADERLESS, [Sample((), found.leaderless)])
        yield Reading(OUT_OF_SYNC, [Sample((), found.out_of_sync)])
