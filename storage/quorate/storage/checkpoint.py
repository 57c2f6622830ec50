"""Small state files that are either whole or known not to be.

A checkpoint is one line of header with the CRC-32C of the rest, then JSON. It is written under a
temporary name and renamed, so a crash leaves the old file or the new one; the checksum catches
what rename cannot promise (a power loss before the content reached the device, a flipped bit).

Two ways to write: ``write_durably`` syncs content and directory before it returns; ``write_cached``
only reaches the page cache, which outlives the process but not the machine. The second is for
state that the log itself can restore after a power loss.
"""

from __future__ import annotations

import errno
import json
from functools import partial
from typing import Any, Final

from crc32c import crc32c

from quorate.core.clock import Clock
from quorate.core.disk import Disk, NameNotSynced, SyncFailed, lacks_descriptors
from quorate.storage.descriptors import with_descriptors
from quorate.storage.file_writes import overwrite

__all__ = [
    "TEMPORARY_SUFFIX",
    "DamagedCheckpoint",
    "read_checkpoint",
    "write_body_cached",
    "write_body_synced",
    "write_cached",
    "write_durably",
]

TEMPORARY_SUFFIX: Final = ".tmp"

_HEADER: Final = b"quorate-checkpoint 1 crc32c "


class DamagedCheckpoint(Exception):
    """The file exists and is not what was written; callers rebuild the state or refuse to start."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


def _encode(state: dict[str, Any]) -> bytes:
    return _framed(json.dumps(state, sort_keys=True, separators=(",", ":")).encode())


def _framed(body: bytes) -> bytes:
    return b"%s%08x\n%s\n" % (_HEADER, crc32c(body), body)


def read_checkpoint(disk: Disk, path: str) -> dict[str, Any] | None:
    """The state, or None where there is no such file."""
    try:
        content = disk.read_file(path)
    except FileNotFoundError:
        return None
    header, _, rest = content.partition(b"\n")
    body, newline, trailing = rest.partition(b"\n")
    if header != b"%s%08x" % (_HEADER, crc32c(body)):
        raise DamagedCheckpoint(path, "checksum or header does not match its content")
    if newline != b"\n" or trailing:
        raise DamagedCheckpoint(path, "bytes missing or added at the end")
    state = json.loads(body)
    assert isinstance(state, dict)
    return state


async def write_durably(disk: Disk, path: str, state: dict[str, Any], *, clock: Clock | None = None) -> None:
    """``clock``: to wait for a descriptor to sync the directory with. Without one, the caller repeats it all.

    An error after the file was replaced never looks as if nothing had happened: the new state stands. It is
    ``NameNotSynced`` where the device was not even asked.
    """
    temporary = path + TEMPORARY_SUFFIX
    await disk.write_file(temporary, _encode(state))
    disk.rename(temporary, path)
    directory = path.rpartition("/")[0]
    try:
        if clock is None:
            await disk.fsync_directory(directory)
        else:
            sync = partial(disk.fsync_directory, directory)
            await with_descriptors(sync, clock, doing="sync", path=directory)
    except OSError as error:
        reason = f"cannot sync the directory: {error.strerror}"
        if lacks_descriptors(error):
            raise NameNotSynced(error.errno, reason, path) from error
        # Even for want of room.
        kind = SyncFailed if isinstance(error, SyncFailed) else OSError
        raise kind(errno.EIO, reason, path) from error


def write_cached(disk: Disk, path: str, state: dict[str, Any]) -> None:
    _replace(disk, path, _encode(state))


def write_body_cached(disk: Disk, path: str, body: bytes) -> None:
    """As ``write_cached``, of what was made JSON elsewhere: a large state, in steps. One line."""
    _replace(disk, path, _framed(body))


async def write_body_synced(disk: Disk, path: str, body: bytes) -> None:
    """Where the file that is replaced counts: whichever a power loss leaves under the name is whole."""
    temporary = path + TEMPORARY_SUFFIX
    await disk.write_file(temporary, _framed(body))
    disk.rename(temporary, path)


def _replace(disk: Disk, path: str, content: bytes) -> None:
    temporary = path + TEMPORARY_SUFFIX
    overwrite(disk, temporary, content)
    disk.rename(temporary, path)
