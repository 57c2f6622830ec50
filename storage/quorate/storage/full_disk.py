"""What people are told of a disk that has no room for a log.

An append that is refused for it harms nothing, so nothing else shows it: reads go on, the broker is healthy.
The first one is told, and from then on one in half a minute, however many clients try again; then, that the
log goes on. A large batch may be refused while small ones still fit: that too is told no more often.
"""

from __future__ import annotations

import math
from typing import Final

from quorate.core.clock import Clock
from quorate.core.logging import get_logger

__all__ = ["FullDisk"]

log = get_logger(__name__)

_TOLD_EVERY_S: Final = 30.0


class FullDisk:
    """As one log meets it."""

    __slots__ = ("_clock", "_directory", "_refused", "_told_at", "is_on_record")

    def __init__(self, clock: Clock, directory: str) -> None:
        self._clock = clock
        self._directory = directory
        #: people were told, and not yet that it is over. Looked at by every append
        self.is_on_record = False
        #: monotonic seconds
        self._told_at = -math.inf
        #: since people were last told
        self._refused = 0

    def refused(self, doing: str) -> None:
        self._refused += 1
        now = self._clock.monotonic()
        if now - self._told_at < _TOLD_EVERY_S:
            return
        log.warning("disk_full", doing=doing, path=self._directory, refused=self._refused)
        self.is_on_record = True
        self._told_at = now
        self._refused = 0

    def went_on(self) -> None:
        """Something was appended although the disk is on record as full."""
        log.warning("disk_has_room", path=self._directory, refused=self._refused)
        self.is_on_record = False
        self._refused = 0
