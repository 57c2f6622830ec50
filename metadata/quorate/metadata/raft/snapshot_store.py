"""Snapshots on disk: one file each, whole or not there.

    <index>-<term>.snapshot     header, voters, data, checksum of the data

Written under a temporary name, synced, renamed, and the directory synced: a file that has its name was
durable in whole before it got it. The header has a checksum of its own, with the voters in it.

Large ones are written and checked in pieces, with a turn of the event loop between two of them, straight
from and to the one copy in memory.
"""

from __future__ import annotations

import asyncio
import re
import struct
from collections.abc import Sequence
from typing import Final

from crc32c import crc32c

from quorate.core.disk import Disk, File
from quorate.metadata.raft.entries import Index, Snapshot, SnapshotId, Term
from quorate.metadata.raft.voters_codec import decode_voters, encode_voters
from quorate.storage.checkpoint import TEMPORARY_SUFFIX

__all__ = ["DamagedSnapshot", "SnapshotStore"]

_MAGIC: Final = b"quorsnap"
_VERSION: Final = 1
#: magic, version, index, term, length of the voters, length of the data
_HEADER: Final = struct.Struct(">8sIQQIQ")
_CHECKSUM: Final = struct.Struct(">I")
_PIECE_BYTES: Final = 1 << 20
_NAME: Final = re.compile(r"(\d{20})-(\d{20})\.snapshot", re.ASCII)


class DamagedSnapshot(Exception):
    """The file is not what was written; callers fall back to an older one, or refuse to start."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class SnapshotStore:
    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self.directory = directory

    def path_of(self, snapshot: SnapshotId) -> str:
        return f"{self.directory}/{snapshot.index:020d}-{snapshot.term:020d}.snapshot"

    def stored(self) -> list[SnapshotId]:
        """By their names, newest first; whether they are sound shows when they are read."""
        matches = map(_NAME.fullmatch, self._disk.list(self.directory))
        ids = [SnapshotId(Index(int(match[1])), Term(int(match[2]))) for match in matches if match]
        return sorted(ids, key=lambda each: (each.index, each.term), reverse=True)

    async def write(self, snapshot: Snapshot) -> None:
        """Returns once it is durable, under its name."""
        path = self.path_of(snapshot.id)
        temporary = path + TEMPORARY_SUFFIX
        file = self._disk.open(temporary, create=True)
        try:
            file.truncate(0)
            await _write_pieces(file, snapshot)
            await file.fdatasync()
        finally:
            file.close()
        self._disk.rename(temporary, path)
        await self._disk.fsync_directory(self.directory)

    async def read(self, snapshot: SnapshotId) -> Snapshot:
        """Raises DamagedSnapshot."""
        path = self.path_of(snapshot)
        file = self._disk.open(path)
        try:
            return await _read_pieces(file, snapshot)
        except ValueError as error:
            raise DamagedSnapshot(path, str(error)) from error
        finally:
            file.close()

    async def remove(self, snapshots: Sequence[SnapshotId]) -> None:
        for each in snapshots:
            self._disk.unlink(self.path_of(each))
        if snapshots:
            # Else a voter that loses power after each snapshot would get all of them back.
            await self._disk.fsync_directory(self.directory)

    def remove_unfinished(self) -> None:
        """What a process left behind that died while it wrote: nobody was told of it."""
        for name in self._disk.list(self.directory):
            if name.endswith(TEMPORARY_SUFFIX) and _NAME.fullmatch(name.removesuffix(TEMPORARY_SUFFIX)):
                self._disk.unlink(f"{self.directory}/{name}")


async def _write_pieces(file: File, snapshot: Snapshot) -> None:
    voters = encode_voters(snapshot.voters)
    header = _HEADER.pack(
        _MAGIC, _VERSION, snapshot.id.index, snapshot.id.term, len(voters), len(snapshot.data)
    )
    head = header + voters
    head += _CHECKSUM.pack(crc32c(head))
    file.pwrite(head, 0)
    position, checksum, data = len(head), 0, memoryview(snapshot.data)
    for start in range(0, len(data), _PIECE_BYTES):
        piece = data[start : start + _PIECE_BYTES]
        checksum = crc32c(piece, checksum)
        file.pwrite(piece, position + start)
        await asyncio.sleep(0)
    file.pwrite(_CHECKSUM.pack(checksum), position + len(data))


async def _read_pieces(file: File, expected: SnapshotId) -> Snapshot:
    """Raises ValueError where the content is not sound."""
    size = file.size()
    header = file.pread(_HEADER.size, 0)
    if len(header) < _HEADER.size:
        raise ValueError("the file ends within its header")
    magic, version, index, term, voters_bytes, data_bytes = _HEADER.unpack(header)
    data_start = _HEADER.size + voters_bytes + _CHECKSUM.size
    # Before lengths are believed: a damaged one may ask for any amount of memory.
    if data_start + data_bytes + _CHECKSUM.size != size:
        raise ValueError(f"the file has {size} bytes, its header asks for another number")
    rest = file.pread(voters_bytes + _CHECKSUM.size, _HEADER.size)
    head = header + rest[:voters_bytes]
    if _CHECKSUM.pack(crc32c(head)) != rest[voters_bytes:]:
        raise ValueError("the header fails its checksum")
    if magic != _MAGIC or version != _VERSION:
        raise ValueError(f"version {version} of the format is not known here")
    if (index, term) != (expected.index, expected.term):
        raise ValueError(f"the file holds the snapshot of entry {index} in term {term}")
    data = file.pread(data_bytes, data_start)
    checksum = 0
    for start in range(0, len(data), _PIECE_BYTES):
        checksum = crc32c(memoryview(data)[start : start + _PIECE_BYTES], checksum)
        await asyncio.sleep(0)
    if _CHECKSUM.pack(checksum) != file.pread(_CHECKSUM.size, data_start + data_bytes):
        raise ValueError("the data fail their checksum")
    return Snapshot(expected, decode_voters(head[_HEADER.size :]), data)
