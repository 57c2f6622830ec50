"""Clocks over virtual time that may drift and jump, and how a program is run on them.

How time passes stands in ``quorate.chaos.sim.loop``.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from quorate.chaos.sim.loop import TIME_LIMIT_S, SimLoop
from quorate.core.clock import Timer
from quorate.core.ids import TimestampMs

__all__ = ["SimClock", "Simulation", "run_simulation"]

T = TypeVar("T")

#: 2026-01-01, so that timestamps in simulated logs look like timestamps
_WALL_START_MS: Final = 1_767_225_600_000
_ROUNDING_S: Final = 1e-9


class SimClock:
    """One node's clock over the loop's true time; nodes may disagree.

    ``rate`` is how many seconds it counts in a true second, for drift. Timers that are already set
    keep the moment they were set for.
    """

    def __init__(self, loop: SimLoop, *, wall_start_ms: int = _WALL_START_MS, rate: float = 1.0) -> None:
        self._loop = loop
        self._rate = rate
        # Local time was ``_anchor_local`` when true time was ``_anchor_true``.
        self._anchor_true = loop.time()
        self._anchor_local = loop.time()
        #: what the wall clock shows at local time 0; change it to make the wall clock jump
        self.wall_start_ms = wall_start_ms

    def monotonic(self) -> float:
        return self._anchor_local + (self._loop.now - self._anchor_true) * self._rate

    def wall_ms(self) -> TimestampMs:
        return TimestampMs(self.wall_start_ms + int(self.monotonic() * 1000))

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(self._true_seconds(seconds))

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        return self._loop.call_later(self._true_seconds(seconds), callback)

    def _true_seconds(self, seconds: float) -> float:
        """Never so few, by rounding, that somebody who waits for a moment finds that it has not come yet.

        The waiter would wait again, for a time that is too short to be added to the present, for ever.
        """
        shows_true_time = self._rate == 1.0 and self._anchor_local == self._anchor_true == 0.0
        return seconds if shows_true_time else seconds / self._rate + _ROUNDING_S

    def jump_wall(self, milliseconds: int) -> None:
        self.wall_start_ms += milliseconds

    @property
    def rate(self) -> float:
        return self._rate

    @rate.setter
    def rate(self, rate: float) -> None:
        assert rate > 0, "a clock may be slow, not stopped"
        self._anchor_local = self.monotonic()
        self._anchor_true = self._loop.now
        self._rate = rate


@dataclass(frozen=True, slots=True)
class Simulation:
    """What a simulated program gets: all its time and all its randomness."""

    seed: int
    rng: random.Random
    loop: SimLoop
    clock: SimClock


def run_simulation(
    main: Callable[[Simulation], Awaitable[T]], *, seed: int, time_limit_s: float = TIME_LIMIT_S
) -> T:
    """Run ``main`` on a loop of its own; tasks that it leaves behind are cancelled at the end."""

    def make_loop() -> SimLoop:
        return SimLoop(time_limit_s=time_limit_s)

    with asyncio.Runner(loop_factory=make_loop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, SimLoop)

        async def run() -> T:
            loop.watch_main()
            return await main(Simulation(seed, random.Random(seed), loop, SimClock(loop)))

        try:
            return runner.run(run())
        finally:
            # Before the tasks that are left are cancelled.
            loop.unwind_processes()
            if loop.failure is not None:
                # It came first, and the program was cancelled because of it.
                raise loop.failure
