"""A clock that stands still until a test moves it."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable

from quorate.core.clock import SystemClock, Timer

__all__ = ["SteppedClock"]


class _Timer:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class SteppedClock(SystemClock):
    def __init__(self) -> None:
        self.now = 1_000.0
        self._serial = itertools.count()
        self._timers: list[tuple[float, int, _Timer]] = []

    def monotonic(self) -> float:
        return self.now

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        timer = _Timer(callback)
        heapq.heappush(self._timers, (self.now + seconds, next(self._serial), timer))
        return timer

    def advance(self, seconds: float) -> None:
        """Timers that fall due are run at their time."""
        end = self.now + seconds
        while self._timers and self._timers[0][0] <= end:
            self.now, _, timer = heapq.heappop(self._timers)
            if timer.callback is not None:
                timer.callback()
        self.now = end

    @property
    def timer_count(self) -> int:
        return sum(timer.callback is not None for _, _, timer in self._timers)
