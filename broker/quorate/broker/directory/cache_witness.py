"""The cache witness: a number that only the page cache holds, and somebody elsewhere knows.

Problem: after a process crash all that was appended is there, because the page cache outlives the process.
That it is still the same page cache cannot be seen from the disk. A boot id tells of a reboot; but a volume
that is detached and attached again, a file system that was shut down and mounted anew, lose every page that
was not written back, in the same boot and with the same ids. What is left is without a flaw, and a note of
the storage error would have gone to the same disk.

So a number is written to a file before each heartbeat, without a sync, and the heartbeat carries it to the
controller. A later process tells which number it has found. A lower one than the controller has heard proves
that this is not the cache which was written to (rule 30). Numbers never go back: a process goes on from what
it has found.

- A number is told only once it is written, or could not be: then it speaks against this disk, as it should.
- It is synced in two places only, each after all logs were: at the end of a start, and before the marker of a
  clean stop. Anywhere else a sync would let it survive what the logs do not.
- Two slots, used in turn and each with a checksum: whatever is torn, the number before it is still there, and
  nobody has been told of the torn one.
- The file has its full size from the beginning and is written in place, so a full disk does not stand in the
  way of a heartbeat. Where there is no room to make it, there is none, and nothing is told.

What it does not catch: the kernel may write this page back of its own accord, and not those of the logs, in
the time between the last number that somebody remembers and the loss. While heartbeats are answered that is
one heartbeat's interval in thirty seconds or so, or the second until the number is on record where the active
controller goes down with the broker (``quorate.controller.heard_witnesses``). Without a quorum nobody hears
of numbers, while brokers go on to acknowledge; there the time grows until there is one again. And a volume
that has no room for new blocks may take this page, which has its block, and lose those of the logs, which
have none: only a sync tells of that.

Rejected: the id of the mount. It is another one for each container, and a crash of all containers at once
would leave every partition offline.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import Final

from crc32c import crc32c

from quorate.core.disk import File
from quorate.core.logging import get_logger
from quorate.storage import LogContext
from quorate.storage.checkpoint import TEMPORARY_SUFFIX
from quorate.storage.data_directory_files import CACHE_WITNESS_NAME
from quorate.storage.log_context import is_disk_full

__all__ = ["CacheWitness"]

log = get_logger(__name__)

_MAGIC: Final = b"witness1"
_BODY: Final = struct.Struct(">8sQ")
_CHECKSUM: Final = struct.Struct(">I")
#: what a device writes as a whole or not at all
_SLOT_BYTES: Final = 512
_SLOTS: Final = 2
_FIRST_NUMBER: Final = 0


class CacheWitness:
    """``found``: the number that an earlier process left; None: there is none, or none that can be read."""

    def __init__(self, context: LogContext, directory: str) -> None:
        """Reads the file. ``OSError`` where the disk cannot tell."""
        self._context = context
        self._directory = directory
        self._path = f"{directory}/{CACHE_WITNESS_NAME}"
        #: None: there is no room for one, or it is not time yet
        self._file: File | None = None
        self.found = self._read()
        self._number = _FIRST_NUMBER if self.found is None else self.found

    def _read(self) -> int | None:
        try:
            content = self._context.disk.read_file(self._path)
        except FileNotFoundError:
            return None
        numbers = [number for number in map(_number_in, _slots_of(content)) if number is not None]
        if not numbers:
            log.error("cache_witness_damaged", path=self._path)
            return None
        return max(numbers)

    async def begin(self) -> None:
        """Every log is on the device: what was found may be so, too, and a missing file be made."""
        disk = self._context.disk
        if self.found is None or disk.size(self._path) != _SLOTS * _SLOT_BYTES:
            await self._make()
        file = disk.open(self._path)
        await file.fdatasync()
        self._file = file

    async def _make(self) -> None:
        """Not preallocated but written: only then writing it again needs no more room."""
        disk = self._context.disk
        temporary = self._path + TEMPORARY_SUFFIX
        try:
            await disk.write_file(temporary, _slot(self._number) + bytes((_SLOTS - 1) * _SLOT_BYTES))
        except OSError:
            with suppress(OSError):
                disk.unlink(temporary)
            raise
        disk.rename(temporary, self._path)
        await disk.fsync_directory(self._directory)

    def advance(self) -> int | None:
        """For the heartbeat that leaves now: the number that is in the page cache. None: there is no file."""
        if self._file is None:
            return None
        number = self._number + 1
        try:
            self._file.pwrite(_slot(number), number % _SLOTS * _SLOT_BYTES)
        except OSError as error:
            if is_disk_full(error):
                # On a file system that never writes in place. The number before still stands.
                return self._number
            # Told all the same: a disk that cannot show it again has lost it.
            self._context.note_storage_error("write", self._path, error)
        self._number = number
        return number

    async def seal(self) -> None:
        """Every log is on the device for good. The number is, too, when this returns, and stays as it is."""
        file, self._file = self._file, None
        if file is not None:
            try:
                await file.fdatasync()
            finally:
                file.close()

    def close(self) -> None:
        """As the end of the process would."""
        if self._file is not None:
            self._file.close()
            self._file = None


def _slot(number: int) -> bytes:
    body = _BODY.pack(_MAGIC, number)
    return (body + _CHECKSUM.pack(crc32c(body))).ljust(_SLOT_BYTES, b"\0")


def _slots_of(content: bytes) -> list[bytes]:
    return [content[start : start + _SLOT_BYTES] for start in range(0, _SLOTS * _SLOT_BYTES, _SLOT_BYTES)]


def _number_in(slot: bytes) -> int | None:
    body = slot[: _BODY.size]
    if slot[_BODY.size : _BODY.size + _CHECKSUM.size] != _CHECKSUM.pack(crc32c(body)):
        return None
    magic, number = _BODY.unpack(body)
    assert isinstance(number, int)
    return number if magic == _MAGIC else None
