"""What time it is, for whatever goes by age: a clock that jumps must not make it go too early.

Retention deletes what is acknowledged, for good, because of a clock. A wall clock that jumps ahead by a
month, on one broker, would empty every log there, and the partition with it as soon as that broker leads. So
the wall clock is believed as far as the monotonic clock, which does not jump, agrees with it. Where it does
not, the earlier of the two counts, and it is said: records stay for as much longer as the clock has jumped.
What is stamped here, to go by its stamp later, gets the later of the two: put right, a clock that was behind
would make it look old.

A clock that is put right after a wrong one has jumped as well. It is believed from the next start on, and a
clock that is wrong when the process starts is believed too: nothing here could tell.
"""

from __future__ import annotations

from typing import Final

from quorate.core.clock import Clock
from quorate.core.ids import TimestampMs
from quorate.core.logging import get_logger

__all__ = ["RetentionTime"]

log = get_logger(__name__)

#: between two looks; a clock that is slewed, or corrected by a leap second, stays far below
_JUMP_MS: Final = 300_000


class RetentionTime:
    __slots__ = ("_clock", "_has_jumped", "_monotonic_s", "_wall_ms")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        #: the last moment at which both clocks agreed
        self._wall_ms: int = clock.wall_ms()
        self._monotonic_s = clock.monotonic()
        self._has_jumped = False

    def now_ms(self) -> TimestampMs:
        """By which something may be too old: the earlier one, where the clocks disagree."""
        return TimestampMs(min(self._look()))

    def stamp_ms(self) -> TimestampMs:
        """By which something that is new will be judged: the later one, where the clocks disagree."""
        return TimestampMs(max(self._look()))

    def _look(self) -> tuple[int, int]:
        """What the wall clock says, and what the monotonic clock makes of it."""
        wall_ms, monotonic_s = self._clock.wall_ms(), self._clock.monotonic()
        expected_ms = self._wall_ms + int((monotonic_s - self._monotonic_s) * 1000)
        if abs(wall_ms - expected_ms) <= _JUMP_MS:
            self._wall_ms, self._monotonic_s = wall_ms, monotonic_s
            self._has_jumped = False
            return wall_ms, wall_ms
        if not self._has_jumped:
            self._has_jumped = True
            log.error("wall_clock_jumped", by_s=(wall_ms - expected_ms) // 1000)
        return wall_ms, expected_ms
