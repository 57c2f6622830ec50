"""A queue of what is going to happen, and the clock that jumps from one to the next.

Plain callbacks, no tasks: a seed runs thousands of events, and a thousand seeds have to fit a coffee break.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

__all__ = ["VirtualTime"]


class VirtualTime:
    def __init__(self) -> None:
        self.now = 0.0
        self._due: list[tuple[float, int, Callable[[Any], object], Any]] = []
        # Events of the same moment happen in the order in which they were planned.
        self._planned = 0

    def at(self, when: float, action: Callable[[Any], object], argument: Any = None) -> None:
        self._planned += 1
        heapq.heappush(self._due, (when, self._planned, action, argument))

    def after(self, delay_s: float, action: Callable[[Any], object], argument: Any = None) -> None:
        self._planned += 1
        heapq.heappush(self._due, (self.now + delay_s, self._planned, action, argument))

    def run_until(self, end: float, *, is_over: Callable[[], bool] | None = None) -> bool:
        """Returns whether ``is_over`` said so before the time was up."""
        due = self._due
        while due and due[0][0] <= end:
            self.now, _, action, argument = heapq.heappop(due)
            action(argument)
            if is_over is not None and is_over():
                return True
        self.now = max(self.now, end)
        return False
