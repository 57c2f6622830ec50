"""What people are told of a disk that has no room for a log.

An append that is refused for it harms nothing, so nothing else shows it: reads go on, the broker is healthy.
The first one is told, and from then on one in half a minute, however many clients try again; then, that the
log goes on. A large batch may be refused while small ones still fit: that too is told no more often.

A log that nobody writes to has nothing to show that it would go on. So whoever asks how it is has the disk
looked at: it is over when there is room for the largest batch, and half a minute has gone by since the last
refusal. Room alone is not believed, for a quota and a want of inodes refuse as well, and show in no number of
bytes. All of this only tells: whether an append succeeds, the disk decides each time.
"""

from __future__ import annotations

import math
from typing import Final

from quorate.core.clock import Clock
from quorate.core.disk import Disk
from quorate.core.logging import get_logger

__all__ = ["FullDisk"]

log = get_logger(__name__)

_TOLD_EVERY_S: Final = 30.0
#: for so long a refusal counts for more than the room that the disk claims to have
_BELIEVED_S: Final = 30.0


class FullDisk:
    """As one log meets it."""

    __slots__ = ("_clock", "_directory", "_disk", "_refused", "_refused_at", "_told_at", "is_on_record")

    def __init__(self, clock: Clock, disk: Disk, directory: str) -> None:
        self._clock = clock
        self._disk = disk
        self._directory = directory
        #: people were told, and not yet that it is over. Looked at by every append
        self.is_on_record = False
        #: monotonic seconds
        self._told_at = -math.inf
        self._refused_at = -math.inf
        #: since people were last told
        self._refused = 0

    def refused(self, doing: str) -> None:
        self._refused += 1
        now = self._refused_at = self._clock.monotonic()
        if now - self._told_at < _TOLD_EVERY_S:
            return
        log.warning("disk_full", doing=doing, path=self._directory, refused=self._refused)
        self.is_on_record = True
        self._told_at = now
        self._refused = 0

    def note_room(self) -> None:
        """Something was appended although the disk is on record as full, or could be by now."""
        log.warning("disk_has_room", path=self._directory, refused=self._refused)
        self.is_on_record = False
        self._refused = 0

    def look(self, *, bytes_needed: int) -> bool:
        """Whether it is still as people were told."""
        if self.is_on_record and self._has_room(bytes_needed):
            self.note_room()
        return self.is_on_record

    def _has_room(self, bytes_needed: int) -> bool:
        if self._clock.monotonic() - self._refused_at < _BELIEVED_S:
            return False
        try:
            return self._disk.free_bytes(self._directory) >= bytes_needed
        except OSError:
            # Of a disk that does not even tell that nothing good is known.
            return False
