"""Streams that are not read for the moment, because what they wait for has reached a bound: for how long.

How a node slows a client down without refusing anything: it stops to read, and the transport's flow control
holds the client. Time is added up as it passes, and not when a stream goes on: one that is stuck shows, too,
and the sum never falls. A stream that is not read because the node stops is not held up.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["HeldUp"]


class HeldUp:
    """Of all streams of one method. Beginning and end of each are told once."""

    __slots__ = ("_counted_to", "_now", "_seconds", "streams")

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        #: at the moment
        self.streams = 0
        #: of all of them together, as it was at ``_counted_to``
        self._seconds = 0.0
        self._counted_to = now()

    @property
    def seconds(self) -> float:
        self._settle()
        return self._seconds

    def begin(self) -> None:
        self._settle()
        self.streams += 1

    def end(self) -> None:
        assert self.streams > 0
        self._settle()
        self.streams -= 1

    def _settle(self) -> None:
        now = self._now()
        self._seconds += self.streams * (now - self._counted_to)
        self._counted_to = now
