"""A number of bytes that may be held at once, and who waits for some of them."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["BoundedMemory"]


class BoundedMemory:
    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._held_bytes = 0
        #: for another piece, of any size
        self.has_room = bytes_max > 0
        #: an ordered set of who wants to know when there is room again
        self._waiting: dict[Callable[[], None], None] = {}

    @property
    def bytes_left(self) -> int:
        """Not below zero, though whoever found room may have taken more than there was."""
        return max(0, self._bytes_max - self._held_bytes)

    def hold(self, size: int) -> None:
        """For whoever stops when there is no room: over the bound by one piece at most."""
        self._held_bytes += size
        self.has_room = self._held_bytes < self._bytes_max

    def release(self, size: int) -> None:
        self._held_bytes -= size
        assert self._held_bytes >= 0
        self.has_room = self._held_bytes < self._bytes_max
        if self._waiting and self.has_room:
            waiting, self._waiting = self._waiting, {}
            for wake in waiting:
                wake()

    def call_when_room(self, wake: Callable[[], None]) -> None:
        """Once, when there is room again."""
        self._waiting[wake] = None

    def forget(self, wake: Callable[[], None]) -> None:
        self._waiting.pop(wake, None)
