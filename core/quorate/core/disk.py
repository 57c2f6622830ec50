"""The Disk seam: the only way to a file in storage, metadata, broker and controller.

Reads and writes go to the page cache and are synchronous; whatever waits for the device
(``fdatasync``, ``fsync_directory``, ``write_file``) is awaitable. Errors are ``OSError`` with an
errno; callers translate them. A sync that failed is a ``SyncFailed``; what lacked a descriptor has not
failed, the disk was not asked (``lacks_descriptors``). Implementations:
``os_disk.OsDisk`` on a real file system, ``quorate.chaos.sim.disk.SimDisk`` in memory, which
forgets what was not synced.

Paths are absolute strings with ``/``.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Final, Protocol, TypeAlias

__all__ = ["Bytes", "Disk", "File", "NameNotSynced", "SyncFailed", "lacks_descriptors"]

_NO_DESCRIPTORS: Final = frozenset({errno.EMFILE, errno.ENFILE})

#: What can be written. A memoryview has items of one byte, so that ``len`` is its size; asking a
#: buffer of any other shape for its size costs as much as a quarter of the write itself.
Bytes: TypeAlias = bytes | bytearray | memoryview


class SyncFailed(OSError):
    """The device was asked and did not do it.

    What should be on it by now is in the cache, looks well, and will not be written by another attempt.
    """


class NameNotSynced(OSError):
    """A file has replaced another one, and no descriptor was left to sync their directory with.

    Whoever reads the file finds the new content; after a power loss it may be the old one again. So it is not
    as if nothing had happened. Its number is that of a descriptor that was lacking.
    """


def lacks_descriptors(error: OSError) -> bool:
    """The process or the machine has too many files open; the disk was not even asked.

    A sync that says so has asked it: some file system's own number, for pages that are lost (rule 45).
    """
    return error.errno in _NO_DESCRIPTORS and not isinstance(error, SyncFailed)


class File(Protocol):
    """One open file. Positions are absolute: there is no shared cursor.

    After ``close`` every operation raises ``OSError`` (EBADF); closing again does nothing. A sync
    that was under way when the file was closed still completes.
    """

    @property
    def path(self) -> str:
        """As it was opened; a rename does not change it."""
        ...

    def pread(self, length: int, position: int) -> bytes:
        """Up to ``length`` bytes; fewer only where the file ends."""
        ...

    def pread_into(self, buffer: bytearray | memoryview, position: int) -> int:
        """As ``pread`` into memory of the caller's; returns how many bytes it was."""
        ...

    def pwrite(self, data: Bytes, position: int) -> None:
        """Write everything or raise ``OSError``; then any part of it may have been written."""
        ...

    def pwritev(self, buffers: Sequence[Bytes], position: int) -> None:
        """As ``pwrite`` with the concatenation of ``buffers``, without joining them first."""
        ...

    def truncate(self, length: int) -> None:
        """Set the size: cut what lies beyond, or extend with zeros."""
        ...

    def size(self) -> int: ...

    async def fdatasync(self) -> None:
        """Returns once all that was written before the call is on the device."""
        ...

    def fileno(self) -> int:
        """The descriptor, for sendfile; ``OSError`` where there is none (simulation)."""
        ...

    def close(self) -> None:
        """Also happens when the last reference to the file is gone."""
        ...


class Disk(Protocol):
    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and writing. With ``create`` the file is made if it is missing."""
        ...

    def exists(self, path: str) -> bool:
        """Whether a file or directory has that name; ``OSError`` if the disk cannot tell."""
        ...

    def size(self, path: str) -> int: ...

    def list(self, directory: str) -> list[str]:
        """Names (not paths) in the directory, sorted."""
        ...

    def make_directory(self, path: str) -> None:
        """Also makes missing parents; nothing happens if it exists."""
        ...

    def remove_directory(self, path: str) -> None:
        """The directory must be empty."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Atomic; replaces ``target``."""
        ...

    def unlink(self, path: str) -> None: ...

    def free_bytes(self, path: str) -> int: ...

    def read_file(self, path: str) -> bytes:
        """A small file, whole."""
        ...

    async def write_file(self, path: str, content: bytes) -> None:
        """Create or overwrite a small file and sync its content (not its directory entry)."""
        ...

    def lock(self, path: str) -> File:
        """Make the file if need be and hold it alone until closed; ``BlockingIOError`` if it is taken."""
        ...

    def boot_id(self) -> str:
        """Changes whenever the page cache was lost: an id of the machine's current uptime."""
        ...

    def file_system_id(self, path: str) -> str:
        """Of the file system that holds the path: another one after the disk below it was replaced."""
        ...

    async def fsync_directory(self, path: str) -> None:
        """Returns once names made, renamed or removed in the directory are on the device."""
        ...
