"""When to try again: pauses that grow, with jitter, inside a deadline.

Jitter is what keeps a thousand clients of a broker that died from coming back in the same millisecond.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from quorate.core.backoff import Backoff
from quorate.core.clock import Clock
from quorate.errors import QuorateError

__all__ = ["retrying"]

T = TypeVar("T")


async def retrying(
    attempt: Callable[[float], Awaitable[T]],
    *,
    clock: Clock,
    rng: random.Random,
    timeout_s: float,
    on_error: Callable[[QuorateError], None] | None = None,
) -> T:
    """``attempt(seconds that are left)`` until it succeeds; an error that is not retriable ends it at once.

    When the time is up, the last attempt's own error is raised: it says more than "too late".
    """
    deadline = clock.monotonic() + timeout_s
    backoff = Backoff(rng)
    while True:
        try:
            return await attempt(max(deadline - clock.monotonic(), 0.001))
        except QuorateError as error:
            pause_s = backoff.next_s()
            if not error.retriable or clock.monotonic() + pause_s >= deadline:
                raise
            if on_error is not None:
                on_error(error)
        await clock.sleep(pause_s)
