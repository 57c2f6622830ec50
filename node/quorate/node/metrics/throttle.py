"""Copies that are slowed down on purpose, in numbers: the limit on reassignments, and what it costs.

There are no quotas, so no client is throttled by one: this is the only rate that a broker keeps to. What it
pushes back because it has no room is told with its requests (``quorate.node.metrics.request``).

Nobody tells when the limit holds a copy back, so it is looked at a few times a second; what was so at a look
counts for the time since the look before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

from quorate.broker.replica.partition import Partition
from quorate.broker.replicas import Replicas
from quorate.broker.replication.following import is_throttled
from quorate.broker.replication.throttle import UNLIMITED
from quorate.core.clock import Clock
from quorate.core.ids import BrokerId
from quorate.core.metrics import Metric, MetricKind, Reading, Sample
from quorate.metadata.image import MetadataImage
from quorate.metadata.topic_settings import throttled_rate

__all__ = ["METRICS", "ThrottleMeter"]

LIMIT: Final = Metric(
    "quorate_throttle_limit_bytes_per_second",
    MetricKind.GAUGE,
    "How fast this broker may fetch for replicas that reassignments add to it. Not there without a limit.",
)
REPLICAS: Final = Metric(
    "quorate_throttle_limited_replicas",
    MetricKind.GAUGE,
    "Replicas on this broker that such a limit applies to: reassignments add them, and they are not in sync "
    "yet.",
)
HELD_BACK: Final = Metric(
    "quorate_throttle_held_back_seconds_total",
    MetricKind.COUNTER,
    "For how long a limit kept this broker from fetching more for such replicas.",
)

METRICS: Final = (LIMIT, REPLICAS, HELD_BACK)

_REPLICAS_PER_TURN: Final = 200


class ThrottleMeter:
    def __init__(
        self,
        broker_id: BrokerId,
        replicas: Replicas,
        clock: Clock,
        *,
        image: Callable[[], MetadataImage | None],
        wait_s: Callable[[], float],
    ) -> None:
        """``image``: the newest, None while none is known. ``wait_s``: until the limit lets more through."""
        self._broker_id = broker_id
        self._replicas = replicas
        self._clock = clock
        self._image = image
        self._wait_s = wait_s
        self._sampled_at = clock.monotonic()
        self._held_back_s = 0.0
        self._limit = UNLIMITED
        self._limited = 0

    def sample(self) -> None:
        now = self._clock.monotonic()
        # What is owed for the last answer may outlive the copy, and then holds nobody back.
        if self._wait_s() > 0 and any(map(self._is_added, self._replicas)):
            self._held_back_s += now - self._sampled_at
        self._sampled_at = now

    async def look(self) -> None:
        image = self._image()
        self._limit = UNLIMITED if image is None else throttled_rate(image)
        limited = 0
        if self._limit != UNLIMITED:
            for count, replica in enumerate(list(self._replicas), 1):
                limited += self._is_added(replica)
                if count % _REPLICAS_PER_TURN == 0:
                    await asyncio.sleep(0)
        self._limited = limited

    def _is_added(self, replica: Partition) -> bool:
        return replica.state is not None and is_throttled(replica, self._broker_id)

    def read(self) -> Iterator[Reading]:
        if self._limit != UNLIMITED:
            yield Reading(LIMIT, [Sample((), self._limit)])
        yield Reading(REPLICAS, [Sample((), self._limited)])
        yield Reading(HELD_BACK, [Sample((), self._held_back_s)])
