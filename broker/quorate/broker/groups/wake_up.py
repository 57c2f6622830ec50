"""Waiting for something that may happen, but not for long."""

from __future__ import annotations

import asyncio

from quorate.core.clock import Clock

__all__ = ["WakeUp"]


class WakeUp:
    """Wakes those who wait, in the order in which they came; unlike an event, nobody who comes later."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        #: an ordered set
        self._waiting: dict[asyncio.Future[bool], None] = {}

    def wake(self) -> None:
        for future in self._waiting:
            _set(future, is_woken=True)

    async def wait(self, clock: Clock, timeout_s: float) -> bool:
        """Whether it was woken, and not by the time."""
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        timer = clock.call_later(timeout_s, lambda: _set(future, is_woken=False))
        self._waiting[future] = None
        try:
            return await future
        finally:
            timer.cancel()
            del self._waiting[future]


def _set(future: asyncio.Future[bool], *, is_woken: bool) -> None:
    if not future.done():
        future.set_result(is_woken)
