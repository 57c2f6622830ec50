"""The batches that were appended last, kept in memory for whoever reads at the end of a log.

Nearly every read is one of a follower or a consumer that asks for the batch that came a moment ago. From the
file it takes a search in the index, three system calls and a checksum, for each of them; from here it takes a
look into a dictionary. What is served from here was checked when it came in, and is what was written.

One bound holds for all logs of a broker, and the oldest batches go first, whosever they are: a log that is
written rarely keeps nothing for long, and thousands of logs keep no more than one.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from quorate.core.ids import Offset

__all__ = ["ENTRY_BYTES", "RecentBatches", "RecentTail"]

#: What it takes to keep a batch, beside its bytes.
ENTRY_BYTES: Final = 350
#: A batch that takes more than this part of the bound would push out too many others.
_BATCHES_MIN: Final = 8


class RecentBatches:
    """What the logs of one data directory share."""

    __slots__ = ("_bytes", "_bytes_max", "_order", "batch_bytes_max")

    def __init__(self, bytes_max: int) -> None:
        """0: nothing is kept."""
        self._bytes_max = bytes_max
        #: larger ones are not kept
        self.batch_bytes_max = bytes_max // _BATCHES_MIN
        self._bytes = 0
        #: the oldest first; also of those that are forgotten by now
        self._order: deque[tuple[RecentTail, Offset, int]] = deque()

    @property
    def held_bytes(self) -> int:
        """Not less than what is held: forgotten ones count until their turn comes."""
        return self._bytes

    def added(self, tail: RecentTail, base_offset: Offset, batch_bytes: int) -> None:
        order = self._order
        size = batch_bytes + ENTRY_BYTES
        order.append((tail, base_offset, size))
        self._bytes += size
        while self._bytes > self._bytes_max:
            oldest, offset, size = order.popleft()
            oldest.drop(offset)
            self._bytes -= size


class RecentTail:
    """Of one log."""

    __slots__ = ("_batches", "_shared")

    def __init__(self, shared: RecentBatches) -> None:
        self._shared = shared
        #: by base offset: the next offset, and the batch as it is in the file
        self._batches: dict[Offset, tuple[Offset, bytes]] = {}

    def add(
        self, base_offset: Offset, next_offset: Offset, prefix: bytes, rest: memoryview, size: int
    ) -> None:
        """A batch of ``size`` bytes in two parts, as it was written."""
        if size <= self._shared.batch_bytes_max:
            self._batches[base_offset] = (next_offset, b"".join((prefix, rest)))
            self._shared.added(self, base_offset, size)

    def read(self, offset: Offset, *, bytes_max: int, end_offset: Offset) -> tuple[bytes, Offset] | None:
        """Whole batches from the one that begins at ``offset``, at least one, and where they end.

        None: look into the file.
        """
        found = self._batches.get(offset)
        if found is None or found[0] > end_offset:
            return None
        next_offset, batch = found
        if next_offset == end_offset:
            return batch, next_offset
        room, batches = bytes_max - len(batch), [batch]
        while (following := self._batches.get(next_offset)) is not None:
            room -= len(following[1])
            if room < 0 or following[0] > end_offset:
                break
            next_offset = following[0]
            batches.append(following[1])
        return b"".join(batches), next_offset

    def drop(self, base_offset: Offset) -> None:
        self._batches.pop(base_offset, None)

    def forget(self) -> None:
        """The log is closed, or about to be cut; or its files no longer have what was written."""
        self._batches.clear()
