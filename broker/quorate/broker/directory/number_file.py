"""A file that holds one number, which only grows, and survives every write that is torn.

Two slots, used in turn and each with a checksum: the number before the one that is being written is still
there. The file has its full size from the beginning and is written in place, so that a full disk does not
stand in the way of a later number. Where there is no room to make it, there is none.

When a number is synced, and what follows from one, is for those who use it: ``cache_witness`` and
``device_witness``.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from crc32c import crc32c

from quorate.core.disk import Disk, File
from quorate.core.logging import get_logger
from quorate.storage.checkpoint import TEMPORARY_SUFFIX
from quorate.storage.log_context import tolerate_full_disk

__all__ = ["NumberFile", "NumberLayout"]

log = get_logger(__name__)

_BODY: Final = struct.Struct(">8sQ")
_CHECKSUM: Final = struct.Struct(">I")
_SLOTS: Final = 2
_LOWEST: Final = 0


@dataclass(frozen=True, slots=True)
class NumberLayout:
    magic: bytes
    #: what a device writes as a whole or not at all
    slot_bytes: int

    @property
    def file_bytes(self) -> int:
        return _SLOTS * self.slot_bytes

    def position_of(self, number: int) -> int:
        return number % _SLOTS * self.slot_bytes

    def slot(self, number: int) -> bytes:
        body = _BODY.pack(self.magic, number)
        return (body + _CHECKSUM.pack(crc32c(body))).ljust(self.slot_bytes, b"\0")

    def number_in(self, content: bytes) -> int | None:
        """The highest of those that a file's content holds; None: there is none that can be read."""
        starts = range(0, self.file_bytes, self.slot_bytes)
        numbers = (self._number_in_slot(content[start : start + self.slot_bytes]) for start in starts)
        return max((number for number in numbers if number is not None), default=None)

    def _number_in_slot(self, slot: bytes) -> int | None:
        body = slot[: _BODY.size]
        if slot[_BODY.size : _BODY.size + _CHECKSUM.size] != _CHECKSUM.pack(crc32c(body)):
            return None
        magic, number = _BODY.unpack(body)
        assert isinstance(number, int)
        return number if magic == self.magic else None


class NumberFile:
    """``found``: the number that an earlier process left; None: there is none, or none that can be read."""

    def __init__(self, disk: Disk, directory: str, name: str, layout: NumberLayout) -> None:
        """Reads the file. ``OSError`` where the disk cannot tell."""
        self._disk = disk
        self._directory = directory
        self._layout = layout
        self._file: File | None = None
        self.path = f"{directory}/{name}"
        self.found = self._read()

    @property
    def is_open(self) -> bool:
        return self._file is not None

    def _read(self) -> int | None:
        try:
            content = self._disk.read_file(self.path)
        except FileNotFoundError:
            return None
        found = self._layout.number_in(content)
        if found is None:
            log.error("number_file_damaged", path=self.path)
        return found

    async def open(self) -> None:
        """What was found is on the device when this returns. A missing file is made, with no number yet."""
        if self.found is None or self._disk.size(self.path) != self._layout.file_bytes:
            await self._make(_LOWEST if self.found is None else self.found)
        file = self._disk.open(self.path)
        if self.found is not None:
            # The process before may have failed to sync it: the page counts as clean then, and another sync
            # alone would do nothing (rule 45). These are the same bytes; a full disk may refuse them all the
            # same, where nothing is written in place.
            with tolerate_full_disk("write a number again", self.path):
                file.pwrite(self._layout.slot(self.found), self._layout.position_of(self.found))
        await file.fdatasync()
        self._file = file

    async def _make(self, number: int) -> None:
        """Not preallocated but written: only then writing it again needs no more room."""
        temporary = self.path + TEMPORARY_SUFFIX
        content = bytearray(self._layout.file_bytes)
        position, slot = self._layout.position_of(number), self._layout.slot(number)
        content[position : position + len(slot)] = slot
        try:
            await self._disk.write_file(temporary, bytes(content))
        except OSError:
            with suppress(OSError):
                self._disk.unlink(temporary)
            raise
        self._disk.rename(temporary, self.path)
        await self._disk.fsync_directory(self._directory)

    def write(self, number: int) -> None:
        """Over the one before the last. The last one must have been written for good by then."""
        assert self._file is not None
        self._file.pwrite(self._layout.slot(number), self._layout.position_of(number))

    async def sync(self) -> None:
        assert self._file is not None
        await self._file.fdatasync()

    def close(self) -> None:
        """As the end of the process would."""
        file, self._file = self._file, None
        if file is not None:
            file.close()
