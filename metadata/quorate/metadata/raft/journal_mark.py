"""How far the journal was once synced, as far as this machine remembers: evidence that its end is gone.

The number of the last group that was synced, in a file of its own, overwritten in place after each sync. It
is in the page cache and never synced itself, so it costs no second wait for the device, and it survives what
the process does not. It is never ahead of the journal: the group was on the device before the number was
written. So a journal that ends before its mark has lost groups that this voter may have answered for: its
file was cut, or is gone. A mark that is missing, old or unreadable accuses nobody.
"""

from __future__ import annotations

import struct
from typing import Final

from crc32c import crc32c

from quorate.core.disk import Disk, File

__all__ = ["MARK_NAME", "NOTHING_SYNCED", "SyncedMark", "read_synced_mark"]

MARK_NAME: Final = "journal-synced"
#: of a journal without a mark
NOTHING_SYNCED: Final = 0

_NUMBER: Final = struct.Struct(">Q")
_CHECKSUM: Final = struct.Struct(">I")


def read_synced_mark(disk: Disk, directory: str) -> int:
    """The number of the last group that was synced, or of an earlier one."""
    try:
        content = disk.read_file(f"{directory}/{MARK_NAME}")
    except FileNotFoundError:
        return NOTHING_SYNCED
    number, checksum = content[: _NUMBER.size], content[_NUMBER.size :]
    if len(number) < _NUMBER.size or checksum != _CHECKSUM.pack(crc32c(number)):
        return NOTHING_SYNCED
    return int(_NUMBER.unpack(number)[0])


class SyncedMark:
    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._path = f"{directory}/{MARK_NAME}"
        self._file: File | None = None

    def set(self, number: int) -> None:
        """The group of that number is on the device."""
        if self._file is None:
            self._file = self._disk.open(self._path, create=True)
        content = _NUMBER.pack(number)
        self._file.pwrite(content + _CHECKSUM.pack(crc32c(content)), 0)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
