"""Two things that are done to a file by its path: replacing its content, and syncing it."""

from __future__ import annotations

from quorate.core.disk import Bytes, Disk

__all__ = ["overwrite", "sync_file"]


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
