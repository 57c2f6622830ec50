"""Reading a stream whose other end gives signs of life, so that silence means that it is gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import TypeVar

from quorate.core.clock import Clock
from quorate.errors import RequestTimedOut

__all__ = ["next_message"]

T = TypeVar("T")


async def next_message(
    stream: AsyncGenerator[T, None], *, silence_s_max: float, clock: Clock, address: str
) -> T:
    """The next message; ``RequestTimedOut`` after so long without one, ``StopAsyncIteration`` at the end."""
    reading = asyncio.ensure_future(anext(stream))
    is_silent = False

    def give_up() -> None:
        nonlocal is_silent
        is_silent = reading.cancel()

    timer = clock.call_later(silence_s_max, give_up)
    try:
        return await reading
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if not is_silent or (task is not None and task.cancelling()):
            raise
        raise RequestTimedOut(f"{address} said nothing for {silence_s_max} s", address=address) from None
    finally:
        timer.cancel()
