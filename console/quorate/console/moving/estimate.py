"""When it will be done, from how it went so far. Pure: what was seen in, seconds out."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

__all__ = ["Estimate", "Progress"]

#: What was longer ago says little about how fast it is now.
_WINDOW_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Progress:
    moves_left: int
    #: by the replicas that are being added
    copied_bytes: int
    #: that they will hold, as far as is known: leaders are still written to
    total_bytes: int

    @property
    def left_bytes(self) -> int:
        return max(self.total_bytes - self.copied_bytes, 0)


class Estimate:
    def __init__(self) -> None:
        self._seen: deque[tuple[float, Progress]] = deque()

    def saw(self, progress: Progress, *, now_s: float) -> None:
        self._seen.append((now_s, progress))
        while now_s - self._seen[0][0] > _WINDOW_S:
            self._seen.popleft()

    @property
    def bytes_per_s(self) -> float | None:
        """None: not known yet, or it stands still."""
        if not self._seen:
            return None
        (began_s, first), (now_s, last) = self._seen[0], self._seen[-1]
        # What is still to be copied, not what was: a move that is over takes its bytes with it.
        done = first.left_bytes - last.left_bytes
        if now_s <= began_s or done <= 0:
            return None
        return done / (now_s - began_s)

    @property
    def seconds_left(self) -> float | None:
        rate = self.bytes_per_s
        if not self._seen or rate is None:
            return None
        return self._seen[-1][1].left_bytes / rate
