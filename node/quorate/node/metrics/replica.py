"""Replicas of a broker in numbers, by topic: how large logs are, and how far followers are behind.

Looked at when somebody reads, a piece at a time. Of too many topics those with the largest logs are told.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from quorate.broker.metrics import broker
from quorate.broker.replica.partition import Partition
from quorate.broker.replicas import Replicas
from quorate.core.clock import Clock
from quorate.core.metrics import Metric, MetricKind, Reading, Sample
from quorate.node.metrics.insides import followers_of

__all__ = ["METRICS", "ReplicaMetrics"]

LOG_BYTES: Final = Metric(
    "quorate_replica_log_bytes",
    MetricKind.GAUGE,
    "How large the logs of a topic's replicas on this broker are together.",
    ("topic",),
)
LAG_RECORDS: Final = Metric(
    "quorate_replica_lag_records",
    MetricKind.GAUGE,
    "Of the partitions of a topic that this broker leads: how many records the last of its followers lacks. "
    "One that has not fetched since this broker leads does not count here.",
    ("topic",),
)
LAG_SECONDS: Final = Metric(
    "quorate_replica_lag_seconds",
    MetricKind.GAUGE,
    "Of the partitions of a topic that this broker leads: for how long a follower has not been caught up, at "
    "most. One that has not been since this broker leads does not count here.",
    ("topic",),
)
FAILED: Final = Metric(
    "quorate_replica_failed",
    MetricKind.GAUGE,
    "Replicas on this broker that are of no use: damaged, or their disk has failed.",
)

METRICS: Final = (LOG_BYTES, LAG_RECORDS, LAG_SECONDS, FAILED)

_REPLICAS_PER_TURN: Final = 200


@dataclass(slots=True)
class _Topic:
    log_bytes: int = 0
    #: None: none of its partitions is led here
    lag_records: int | None = None
    lag_s: float = 0.0


class ReplicaMetrics:
    def __init__(self, replicas: Replicas, clock: Clock, *, topics_max: int) -> None:
        self._replicas = replicas
        self._clock = clock
        self._topics_max = topics_max
        self._told: Sequence[tuple[str, _Topic]] = ()
        self._failed = 0
        self._without_room = 0

    async def look(self) -> None:
        topics: dict[str, _Topic] = {}
        failed = without_room = 0
        for count, replica in enumerate(list(self._replicas), 1):
            failed += replica.failure is not None
            without_room += replica.log.lacks_room()
            self._add(replica, topics.setdefault(replica.topic_partition.topic, _Topic()))
            if count % _REPLICAS_PER_TURN == 0:
                await asyncio.sleep(0)
        by_size = sorted(topics.items(), key=lambda each: (-each[1].log_bytes, each[0]))
        self._told = sorted(by_size[: self._topics_max], key=lambda each: each[0])
        self._failed = failed
        self._without_room = without_room

    def _add(self, replica: Partition, topic: _Topic) -> None:
        topic.log_bytes += replica.log.size_in_bytes
        leadership = replica.leadership
        if leadership is None:
            return
        end, start = replica.log.log_end_offset, replica.log.log_start_offset
        topic.lag_records = topic.lag_records or 0
        for follower in followers_of(leadership):
            if follower.has_fetched:
                topic.lag_records = max(topic.lag_records, end - max(follower.log_end_offset, start))
            if not follower.is_at_end and math.isfinite(follower.caught_up_at):
                topic.lag_s = max(topic.lag_s, self._clock.monotonic() - follower.caught_up_at)

    def read(self) -> Iterator[Reading]:
        told = self._told
        led = [(name, topic) for name, topic in told if topic.lag_records is not None]
        yield Reading(LOG_BYTES, [Sample((name,), topic.log_bytes) for name, topic in told])
        yield Reading(LAG_RECORDS, [Sample((name,), topic.lag_records or 0) for name, topic in led])
        yield Reading(LAG_SECONDS, [Sample((name,), topic.lag_s) for name, topic in led])
        yield Reading(FAILED, [Sample((), self._failed)])
        # Of the broker, and counted here: this is where all of its replicas are looked at.
        yield Reading(broker.LOGS_WITHOUT_ROOM, [Sample((), self._without_room)])
