"""What is done to a file or directory by its path: replacing its content, syncing it, making it."""

from __future__ import annotations

from quorate.core.disk import Bytes, Disk

__all__ = ["make_durable_directory", "overwrite", "sync_file"]


def overwrite(disk: Disk, path: str, content: Bytes) -> None:
    """The file holds ``content`` and nothing else, in the page cache; it is made if it is missing."""
    file = disk.open(path, create=True)
    try:
        file.pwrite(content, 0)
        # What was there before may have been longer.
        file.truncate(len(content))
    finally:
        file.close()


async def sync_file(disk: Disk, path: str) -> None:
    """All that was written to the file is on the device when this returns (its name excluded)."""
    file = disk.open(path)
    try:
        await file.fdatasync()
    finally:
        file.close()


async def make_durable_directory(disk: Disk, path: str) -> None:
    """Also the names of parents that were missing: else a power loss takes all of it away at once."""
    missing = []
    while path and not disk.exists(path):
        missing.append(path)
        path = path.rpartition("/")[0]
    if missing and path:
        # A process that died here may have made this one and not have synced its name.
        await disk.fsync_directory(path.rpartition("/")[0] or "/")
    for each in reversed(missing):
        disk.make_directory(each)
        await disk.fsync_directory(each.rpartition("/")[0] or "/")
