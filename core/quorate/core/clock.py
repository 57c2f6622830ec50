"""The Clock seam: the only source of time.

``monotonic`` is for intervals and leases, ``wall_ms`` for timestamps that people read. They are
never compared with each other. The simulator supplies a virtual implementation of both.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

from quorate.core.ids import TimestampMs

__all__ = ["Clock", "SystemClock", "Timer"]

# CLOCK_BOOTTIME goes on while the machine is suspended: a lease that did not would outlive
# its session on a laptop or a paused virtual machine (rule 37).
_MONOTONIC = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Timer(Protocol):
    """A callback that was scheduled and can be called off."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    def monotonic(self) -> float:
        """Seconds since some fixed point; never goes back, counts suspension."""
        ...

    def wall_ms(self) -> TimestampMs:
        """Milliseconds since 1970; may jump either way."""
        ...

    async def sleep(self, seconds: float) -> None: ...

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer: ...


class SystemClock:
    """The machine's clocks, and the running asyncio loop's timers."""

    def monotonic(self) -> float:
        return time.clock_gettime(_MONOTONIC)

    def wall_ms(self) -> TimestampMs:
        # Calling a NewType takes longer than reading the clock, and a producer asks for every record.
        return time.time_ns() // 1_000_000  # type: ignore[return-value]

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        return asyncio.get_running_loop().call_later(seconds, callback)
