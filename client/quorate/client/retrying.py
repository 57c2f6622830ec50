"""When to try again: pauses that grow, with jitter, inside a deadline.

Jitter is what keeps a thousand clients of a broker that died from coming back in the same millisecond.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from quorate.core.clock import Clock
from quorate.errors import QuorateError

__all__ = ["Backoff", "retrying"]

T = TypeVar("T")

#: An election takes a few hundred milliseconds: the first pauses are short, to notice its end soon.
_FIRST_PAUSE_S: Final = 0.02
_PAUSE_S_MAX: Final = 1.0


class Backoff:
    """The pauses of one series of attempts. Each is drawn from the upper half of a doubling interval."""

    __slots__ = ("_first_s", "_pause_s_max", "_rng", "_upper_s")

    def __init__(
        self, rng: random.Random, *, first_s: float = _FIRST_PAUSE_S, pause_s_max: float = _PAUSE_S_MAX
    ) -> None:
        assert 0 < first_s <= pause_s_max
        self._rng = rng
        self._first_s = first_s
        self._pause_s_max = pause_s_max
        self._upper_s = first_s

    def next_s(self) -> float:
        upper = self._upper_s
        self._upper_s = min(2 * upper, self._pause_s_max)
        return self._rng.uniform(upper / 2, upper)

    def reset(self) -> None:
        """Something went well: the next trouble is a new one."""
        self._upper_s = self._first_s


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
