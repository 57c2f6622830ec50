"""The event loop of a node in numbers: how late it is. All that a node does waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

from quorate.core.instruments import Histogram
from quorate.core.metrics import Metric, MetricKind, Reading

__all__ = ["METRICS", "LoopMeter"]

LAG_SECONDS: Final = Metric(
    "quorate_loop_lag_seconds",
    MetricKind.HISTOGRAM,
    "How late the event loop came to what was due; tried four times a second.",
)

METRICS: Final = (LAG_SECONDS,)

_INTERVAL_S: Final = 0.25


class LoopMeter:
    def __init__(self) -> None:
        self._lags = Histogram()
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._expect_at(loop, loop.time() + _INTERVAL_S)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _expect_at(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        self._timer = loop.call_at(due, self._came, loop, due)

    def _came(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        now = loop.time()
        self._lags.observe(max(0.0, now - due))
        # Not from when it was due: a loop that was held up for a minute is late once.
        self._expect_at(loop, now + _INTERVAL_S)

    async def look(self) -> None:
        """All is recorded already."""

    def read(self) -> Iterator[Reading]:
        yield Reading(LAG_SECONDS, self._lags.samples(()))
