"""What was acknowledged or read after the warm-up, and how long each answer took."""

from __future__ import annotations

import time
from typing import Any, Final

__all__ = ["Tally"]

#: answers whose time is kept; beyond it every other one is dropped, again and again
_SAMPLES_MAX: Final = 100_000


class Tally:
    def __init__(self, *, warm_up_s: float, seconds: float) -> None:
        self._warm_up_s, self._seconds = warm_up_s, seconds
        self._bytes = self._answers = 0
        self._samples_s: list[float] = []
        self._step = 1

    def begin(self) -> None:
        """Everything is connected."""
        self._begins_at = time.perf_counter() + self._warm_up_s
        self._ends_at = self._begins_at + self._seconds

    def add(self, size: int, asked_at: float) -> bool:
        """An answer came; whether to go on."""
        now = time.perf_counter()
        if now >= self._ends_at:
            return False
        if now >= self._begins_at:
            self._bytes += size
            self._answers += 1
            if self._answers % self._step == 0:
                self._samples_s.append(now - asked_at)
                if len(self._samples_s) > _SAMPLES_MAX:
                    del self._samples_s[::2]
                    self._step *= 2
        return True

    def document(self) -> dict[str, Any]:
        seconds = min(time.perf_counter(), self._ends_at) - self._begins_at
        ordered = sorted(self._samples_s) or [0.0]
        return {
            "mb_per_s": self._bytes / seconds / 1e6,
            "answers_per_s": self._answers / seconds,
            "p50_ms": ordered[len(ordered) // 2] * 1e3,
            "p99_ms": ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)] * 1e3,
        }
