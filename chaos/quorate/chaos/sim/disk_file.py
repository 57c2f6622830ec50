"""An open file of a simulated disk: what is written is in the page cache until a sync takes it to the device.

The disk counts, records and fails its operations, and knows what room there is.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from quorate.chaos.sim.disk_faults import ProcessDied, ShortWrite, fail
from quorate.chaos.sim.disk_nodes import SimInode
from quorate.core.disk import Bytes, SyncFailed

if TYPE_CHECKING:
    from quorate.chaos.sim.disk import SimDisk

__all__ = ["SimFile"]


class SimFile:
    __slots__ = ("__weakref__", "_disk", "_inode", "path")

    def __init__(self, path: str, disk: SimDisk, inode: SimInode) -> None:
        self.path = path
        self._disk = disk
        self._inode: SimInode | None = inode

    def pread(self, length: int, position: int) -> bytes:
        inode = self._open_inode()
        if length < 0 or position < 0:
            fail(errno.EINVAL, self.path)
        self._disk.begin("pread", self.path, position, length)
        return bytes(memoryview(inode.cached)[position : position + length])

    def pread_into(self, buffer: bytearray | memoryview, position: int) -> int:
        view = memoryview(buffer).cast("B")
        content = self.pread(len(view), position)
        view[: len(content)] = content
        return len(content)

    def pwrite(self, data: Bytes, position: int) -> None:
        self._write("pwrite", bytes(data), position)

    def pwritev(self, buffers: Sequence[Bytes], position: int) -> None:
        self._write("pwritev", b"".join(buffers), position)

    def truncate(self, length: int) -> None:
        inode = self._open_inode()
        if length < 0:
            fail(errno.EINVAL, self.path)
        self._disk.begin("truncate", self.path, 0, length)
        self._disk.used_bytes += length - len(inode.cached)
        inode.truncate(length)

    def size(self) -> int:
        inode = self._open_inode()
        self._disk.begin("size", self.path)
        return len(inode.cached)

    async def fdatasync(self) -> None:
        inode = self._open_inode()
        # What is written while the device works is not covered.
        changes, failed_syncs = inode.changes_made, inode.failed_syncs
        try:
            self._disk.begin_sync("fdatasync", self.path)
        except OSError:
            self._disk.sync_failed()
            inode.forget_unsynced(up_to=changes)
            raise
        await self._disk.device_round(self.path)
        if inode.failed_syncs != failed_syncs:
            # Another one failed meanwhile, and took pages of this one with it: the kernel tells both.
            raise SyncFailed(errno.EIO, os.strerror(errno.EIO), self.path)
        inode.sync(up_to=changes)

    def fileno(self) -> int:
        self._open_inode()
        fail(errno.ENOTSUP, self.path)

    def close(self) -> None:
        if self._inode is not None:
            inode, self._inode = self._inode, None
            self._disk.release(self, inode)

    def __del__(self) -> None:
        self.close()

    def _open_inode(self) -> SimInode:
        if self._inode is None:
            fail(errno.EBADF, self.path)
        return self._inode

    def _write(self, name: str, content: bytes, position: int) -> None:
        inode = self._open_inode()
        if position < 0:
            fail(errno.EINVAL, self.path)
        try:
            self._disk.begin(name, self.path, position, len(content))
        except (ShortWrite, ProcessDied) as fault:
            self._put(inode, content[: fault.written], position)
            raise
        self._put(inode, content, position)

    def _put(self, inode: SimInode, content: bytes, position: int) -> None:
        if not content:
            return
        growth = max(0, position + len(content) - len(inode.cached))
        room = self._disk.room()
        if growth > room:
            # As a real disk: what fits is written, then there is no space left.
            fitting = max(0, len(inode.cached) + room - position)
            self._put(inode, content[:fitting], position)
            fail(errno.ENOSPC, self.path)
        self._disk.used_bytes += growth
        inode.write(position, content)
