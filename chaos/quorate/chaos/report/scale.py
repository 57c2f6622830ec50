"""From values to places on a page, and the round values at which an axis is labelled."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

__all__ = ["LinearScale", "LogScale", "time_label"]

_ROUND: Final = (1.0, 2.0, 5.0, 10.0)
#: people count time in other steps than everything else
_TIME_STEPS_S: Final = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200)
_MINUTE_S: Final = 60
_MINUTES_FROM_S: Final = 180


@dataclass(frozen=True, slots=True)
class LinearScale:
    low: float
    high: float
    #: where ``low`` and ``high`` are on the page
    begin: float
    end: float

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return self.begin + share * (self.end - self.begin)

    @classmethod
    def up_to(cls, highest: float, *, begin: float, end: float) -> LinearScale:
        """From zero to a round value above ``highest``."""
        step = _round_step(max(highest, 1e-9) / 4)
        return cls(0.0, step * math.ceil(max(highest, 1e-9) / step), begin, end)

    def ticks(self) -> Iterator[float]:
        step = _round_step((self.high - self.low) / 4)
        count = int((self.high - self.low) / step + 1e-9)
        return (self.low + number * step for number in range(count + 1))

    def time_ticks(self, count_max: int) -> Iterator[float]:
        span = self.high - self.low
        step = next((each for each in _TIME_STEPS_S if span / each <= count_max), _TIME_STEPS_S[-1])
        return (number * step for number in range(int(span / step) + 1))


@dataclass(frozen=True, slots=True)
class LogScale:
    low: float
    high: float
    begin: float
    end: float

    def __call__(self, value: float) -> float:
        share = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        return self.begin + share * (self.end - self.begin)

    @classmethod
    def around(cls, lowest: float, highest: float, *, begin: float, end: float) -> LogScale:
        """Whole decades, at least two of them."""
        low = 10.0 ** math.floor(math.log10(max(lowest, 1e-3)))
        high = 10.0 ** math.ceil(math.log10(max(highest, low * 100)))
        return cls(low, high, begin, end)

    def ticks(self) -> Iterator[float]:
        value = self.low
        while value <= self.high * 1.001:
            yield value
            value *= 10


def time_label(seconds: float, span_s: float) -> str:
    """``90``, or ``1:30`` on an axis that is long enough."""
    if span_s < _MINUTES_FROM_S:
        return f"{seconds:g}"
    minutes, rest = divmod(round(seconds), _MINUTE_S)
    return f"{minutes}:{rest:02}"


def _round_step(least: float) -> float:
    power: float = 10.0 ** math.floor(math.log10(least))
    return next(power * each for each in _ROUND if power * each >= least * 0.999)
