"""Copies that are slowed down on purpose, in numbers: the limit on reassignments, and how much of it is used.

There are no quotas, so no client is throttled by one: this is the only rate that a broker keeps to. What it
pushes back because it has no room is told with its requests (``quorate.node.metrics.request``).

Who waits for the limit, and for how long, nobody tells: the place where a copy waits is among those that
simulated seeds vouch for. What can be seen from outside is whether there is a debt, that is, whether all that
the limit allows up to now has been taken. Bytes are paid off at the rate, so the time in debt is what copies
took, in seconds' worth of the limit. It is looked up at each tick, a few times a second; what is so at one
counts for the time since the one before.
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
USED: Final = Metric(
    "quorate_throttle_used_seconds_total",
    MetricKind.COUNTER,
    "How much of the limit such replicas have used: bytes that were fetched for them, in seconds' worth of "
    "the limit. Its rate is the share that is in use, and not how long anybody waited.",
)

METRICS: Final = (LIMIT, REPLICAS, USED)

_REPLICAS_PER_TURN: Final = 200


class ThrottleMeter:
    def __init__(
        self,
        broker_id: BrokerId,
        replicas: Replicas,
        clock: Clock,
        *,
        image: Callable[[], MetadataImage | None],
        debt_s: Callable[[], float],
    ) -> None:
        """``image``: the newest, None while none is known. ``debt_s``: until what was taken is paid off."""
        self._broker_id = broker_id
        self._replicas = replicas
        self._clock = clock
        self._image = image
        self._debt_s = debt_s
        self._ticked_at = clock.monotonic()
        self._used_s = 0.0
        self._limit = UNLIMITED
        self._limited = 0

    def tick(self) -> None:
        """A few times a second."""
        now = self._clock.monotonic()
        # What is owed for the last answer may outlive the copy; a low limit would seem in use for hours.
        if self._debt_s() > 0 and any(map(self._is_added, self._replicas)):
            self._used_s += now - self._ticked_at
        self._ticked_at = now

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
        yield Reading(USED, [Sample((), self._used_s)])
