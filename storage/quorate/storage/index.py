"""Sparse indexes of one segment: offset -> position, and timestamp -> offset.

The index of the segment being written lives in memory only; it goes to a file once, when the
segment is sealed, and never changes after that. So a file is either whole (its footer carries a
checksum) or it is rebuilt from the segment; nothing depends on it for correctness. Kafka maps its
index files and updates them in place; that costs a preallocated mapping per partition, a sanity
check at start and a class of bugs with half-written entries. Entries of the offset index are
Kafka's: 4 bytes relative offset, 4 bytes position, big-endian.

An index never invents a position: a lookup returns the start of a batch at or before the one
wanted, and the reader walks on from there.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final, Self

from crc32c import crc32c

__all__ = ["IndexFileDamaged", "OffsetIndex", "TimeIndex"]

_FOOTER: Final = struct.Struct(">4sII")  # magic, number of entries, CRC-32C of entries and count
_MAGIC: Final = b"qidx"
_BEFORE_ALL_TIMES: Final = -(1 << 63)

#: of a batch that gets an entry: position, last offset, largest timestamp up to and including it
Mark = tuple[int, int, int]


class IndexFileDamaged(Exception):
    """The index file is not what was written: rebuild it from the segment."""


def _seal(entries: bytes, count: int) -> bytes:
    return entries + _FOOTER.pack(_MAGIC, count, crc32c(count.to_bytes(4, "big"), crc32c(entries)))


def _unseal(content: bytes, entry_bytes: int) -> memoryview:
    if len(content) < _FOOTER.size:
        raise IndexFileDamaged(f"{len(content)} bytes are too few for a footer")
    magic, count, checksum = _FOOTER.unpack_from(content, len(content) - _FOOTER.size)
    entries = memoryview(content)[: -_FOOTER.size]
    if magic != _MAGIC or len(entries) != count * entry_bytes:
        raise IndexFileDamaged("footer and length disagree")
    if checksum != crc32c(count.to_bytes(4, "big"), crc32c(entries)):
        raise IndexFileDamaged("checksum does not match")
    return entries


def _big_endian(column: array[int]) -> array[int]:
    if sys.byteorder == "little":
        column = column[:]
        column.byteswap()
    return column


class OffsetIndex:
    """Relative last offset of a batch -> position of that batch. Both strictly increase."""

    __slots__ = ("_offsets", "_positions")

    def __init__(self) -> None:
        self._offsets = array("I")
        self._positions = array("I")

    def __len__(self) -> int:
        return len(self._offsets)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, OffsetIndex):
            return NotImplemented
        return self._offsets == other._offsets and self._positions == other._positions

    __hash__ = None  # type: ignore[assignment]  # mutable: equality is for tests and verification

    @property
    def last_position(self) -> int:
        return self._positions[-1] if self._positions else 0

    def append(self, *, relative_offset: int, position: int) -> None:
        self._offsets.append(relative_offset)
        self._positions.append(position)

    def extend(self, marks: list[Mark], *, base_offset: int, shift: int) -> None:
        self._offsets.extend([last_offset - base_offset for _, last_offset, _ in marks])
        self._positions.extend([position + shift for position, _, _ in marks])

    def entries(self) -> Iterator[tuple[int, int]]:
        """(relative last offset, position) of each indexed batch."""
        return zip(self._offsets, self._positions, strict=True)

    def entry_before(self, relative_offset: int) -> tuple[int, int] | None:
        """(relative last offset, position) of a batch at or before the one holding the offset.

        None where the walk has to begin at the front.
        """
        # An entry names its batch's last offset: where that equals the wanted offset the batch is
        # itself the answer, where it is smaller the batch is the place to walk on from.
        index = bisect_right(self._offsets, relative_offset) - 1
        return (self._offsets[index], self._positions[index]) if index >= 0 else None

    def last_boundary_within(self, position: int, limit: int) -> int | None:
        """The largest known batch start in (position, limit], if there is one."""
        index = bisect_right(self._positions, limit) - 1
        if index < 0 or self._positions[index] <= position:
            return None
        return self._positions[index]

    def truncate(self, size: int) -> None:
        """Forget batches that start at or after ``size``."""
        keep = bisect_left(self._positions, size)
        del self._offsets[keep:]
        del self._positions[keep:]

    def to_bytes(self) -> bytes:
        interleaved = array("I", bytes(8 * len(self)))
        interleaved[0::2] = self._offsets
        interleaved[1::2] = self._positions
        return _seal(_big_endian(interleaved).tobytes(), len(self))

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        interleaved = array("I", bytes(_unseal(content, 8)))
        interleaved = _big_endian(interleaved)
        index = cls()
        index._offsets = interleaved[0::2]
        index._positions = interleaved[1::2]
        return index


class TimeIndex:
    """(timestamp, relative offset): no record at or before the offset is newer than the timestamp.

    Timestamps strictly increase, offsets increase. The last entry of a sealed segment carries the
    segment's largest timestamp.
    """

    __slots__ = ("_offsets", "_timestamps")

    def __init__(self) -> None:
        self._timestamps = array("q")
        self._offsets = array("I")

    def __len__(self) -> int:
        return len(self._timestamps)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TimeIndex):
            return NotImplemented
        return self._timestamps == other._timestamps and self._offsets == other._offsets

    __hash__ = None  # type: ignore[assignment]  # mutable: equality is for tests and verification

    @property
    def max_timestamp(self) -> int | None:
        return self._timestamps[-1] if self._timestamps else None

    def maybe_append(self, *, timestamp: int, relative_offset: int) -> None:
        """``timestamp`` is the largest up to and including the offset."""
        if not self._timestamps or timestamp > self._timestamps[-1]:
            self._timestamps.append(timestamp)
            self._offsets.append(relative_offset)

    def extend(self, marks: list[Mark], *, base_offset: int) -> None:
        newest = self._timestamps[-1] if self._timestamps else _BEFORE_ALL_TIMES
        for _, last_offset, timestamp in marks:
            if timestamp > newest:
                newest = timestamp
                self._timestamps.append(timestamp)
                self._offsets.append(last_offset - base_offset)

    def entries(self) -> Iterator[tuple[int, int]]:
        """(timestamp, relative offset), oldest first."""
        return zip(self._timestamps, self._offsets, strict=True)

    def timestamp_at(self, relative_offset: int) -> int | None:
        """The timestamp of the last entry at or before the offset."""
        index = bisect_right(self._offsets, relative_offset) - 1
        return self._timestamps[index] if index >= 0 else None

    def offset_before(self, timestamp: int) -> int | None:
        """The largest relative offset known to have nothing at or after ``timestamp`` up to it."""
        index = bisect_left(self._timestamps, timestamp) - 1
        return self._offsets[index] if index >= 0 else None

    def truncate(self, relative_offset: int) -> None:
        """Forget entries at or after the offset."""
        keep = bisect_left(self._offsets, relative_offset)
        del self._timestamps[keep:]
        del self._offsets[keep:]

    def to_bytes(self) -> bytes:
        return _seal(
            _big_endian(self._timestamps).tobytes() + _big_endian(self._offsets).tobytes(), len(self)
        )

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        entries = _unseal(content, 12)
        split = len(entries) // 12 * 8
        index = cls()
        index._timestamps = _big_endian(array("q", bytes(entries[:split])))
        index._offsets = _big_endian(array("I", bytes(entries[split:])))
        return index
