"""Disk on a real file system.

Reads and writes are bare system calls on the descriptor: they move bytes to and from the page
cache, so they stay on the event loop. Whatever waits for the device runs in a small pool of
threads, and threads exist nowhere else.

A descriptor stays open until its file is closed and no sync of it is under way. Otherwise ``close``
during a sync would free the number, the next ``open`` would get it, and the thread would sync a stranger's
file and report success for data that never reached the device. A lock around both was rejected: it would
make ``close`` wait for the device on the event loop. So was a duplicate for each sync: a process with too
many files open could make nothing durable any more, whatever it holds open.

Errors pass through as ``OSError``. Nothing is retried, least of all a sync: Linux marks the pages
clean when it fails, so a second attempt would succeed without having written them.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import aiofiles

from quorate.core.disk import Bytes, SyncFailed

__all__ = ["OsDisk", "OsFile"]

_OPEN_FLAGS: Final = os.O_RDWR | os.O_CLOEXEC
_FILE_MODE: Final = 0o644
_BOOT_ID_PATH: Final = "/proc/sys/kernel/random/boot_id"
_BUFFERS_PER_CALL_MAX: Final = os.sysconf("SC_IOV_MAX")


def _choose_sync() -> Callable[[int], None]:
    """The call that returns once the content is on the device."""
    full_sync: int | None = getattr(fcntl, "F_FULLFSYNC", None)
    if full_sync is None:
        return os.fdatasync

    # macOS: fsync stops at the drive's volatile cache.
    def sync_through_drive_cache(descriptor: int) -> None:
        fcntl.fcntl(descriptor, full_sync)

    return sync_through_drive_cache


_sync_content: Final = _choose_sync()


class _Descriptor:
    """Open as long as somebody uses it: its file, and each of its syncs, which end in other threads."""

    __slots__ = ("_lock", "_users", "number")

    def __init__(self, number: int) -> None:
        """The caller is its first user."""
        self.number = number
        self._users = 1
        # Again by the same thread: the collector may close a file that nobody refers to, at any moment.
        self._lock = threading.RLock()

    def use(self) -> None:
        """By somebody beside one who uses it already."""
        with self._lock:
            assert self._users > 0
            self._users += 1

    def let_go(self) -> None:
        with self._lock:
            users = self._users = self._users - 1
        if users == 0:
            os.close(self.number)


class OsFile:
    """``_descriptor`` is the number of the one below it, and -1 once closed: later calls fail with EBADF."""

    __slots__ = ("_descriptor", "_on_sync", "_pool", "_shared", "path")

    def __init__(
        self,
        path: str,
        descriptor: int,
        pool: ThreadPoolExecutor,
        on_sync: Callable[[float], None] | None = None,
    ) -> None:
        self.path = path
        self._descriptor = descriptor
        self._shared = _Descriptor(descriptor)
        self._pool = pool
        self._on_sync = on_sync

    def pread(self, length: int, position: int) -> bytes:
        content = os.pread(self._descriptor, length, position)
        if len(content) == length:
            return content
        return self._read_on(content, length, position)

    def pread_into(self, buffer: bytearray | memoryview, position: int) -> int:
        view = memoryview(buffer).cast("B")
        done = os.preadv(self._descriptor, [view], position)
        while 0 < done < len(view):
            step = os.preadv(self._descriptor, [view[done:]], position + done)
            if step == 0:
                break
            done += step
        return done

    def pwrite(self, data: Bytes, position: int) -> None:
        written = os.pwrite(self._descriptor, data, position)
        if written != len(data):
            self._write_on(memoryview(data).cast("B"), written, position)

    def pwritev(self, buffers: Sequence[Bytes], position: int) -> None:
        if position < 0:
            # Python calls pwritev2, to which -1 means the cursor: it would overwrite the file's start.
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), self.path)
        if len(buffers) > _BUFFERS_PER_CALL_MAX:
            for first in range(0, len(buffers), _BUFFERS_PER_CALL_MAX):
                group = buffers[first : first + _BUFFERS_PER_CALL_MAX]
                self.pwritev(group, position)
                position += sum(map(len, group))
            return
        written = os.pwritev(self._descriptor, buffers, position)
        if written != sum(map(len, buffers)):
            # Rare enough (a nearly full disk, 2 GiB in one call) that a copy does not matter.
            self._write_on(memoryview(b"".join(buffers)), written, position)

    def truncate(self, length: int) -> None:
        os.ftruncate(self._descriptor, length)

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    async def fdatasync(self) -> None:
        descriptor, shared, began = self.fileno(), self._shared, time.monotonic()
        future = self._pool.submit(_sync, _sync_content, descriptor)
        shared.use()
        # The callback runs also when the caller is cancelled before a thread was free.
        future.add_done_callback(lambda _: shared.let_go())
        try:
            await asyncio.wrap_future(future)
        finally:
            if self._on_sync is not None:
                self._on_sync(time.monotonic() - began)

    def fileno(self) -> int:
        if self._descriptor < 0:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self.path)
        return self._descriptor

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            self._shared.let_go()

    def __del__(self) -> None:
        self.close()

    def _read_on(self, content: bytes, length: int, position: int) -> bytes:
        """A read came back short: that is the end of the file, or a limit of the kernel."""
        parts = [content]
        done = len(content)
        while done < length and parts[-1]:
            parts.append(os.pread(self._descriptor, length - done, position + done))
            done += len(parts[-1])
        return b"".join(parts)

    def _write_on(self, content: memoryview, written: int, position: int) -> None:
        """A write came back short: go on until it is complete or an error says why it is not."""
        while written < len(content):
            step = os.pwrite(self._descriptor, content[written:], position + written)
            if step == 0:
                raise OSError(errno.EIO, "the device accepts no more bytes and gives no reason", self.path)
            written += step


class OsDisk:
    """``sync_threads`` bounds how many syncs wait for the device at once; others queue for a thread.

    ``read_only`` opens files so that nothing can be changed, for tools that only look. ``on_sync`` is told
    how many seconds each sync of a file's content took, the wait for a thread included; also one that failed.
    """

    def __init__(
        self,
        *,
        sync_threads: int = 4,
        read_only: bool = False,
        on_sync: Callable[[float], None] | None = None,
    ) -> None:
        self._open_flags = os.O_RDONLY | os.O_CLOEXEC if read_only else _OPEN_FLAGS
        self._pool = ThreadPoolExecutor(sync_threads, thread_name_prefix="quorate-disk")
        self._on_sync = on_sync

    def close(self) -> None:
        """Wait for syncs under way and end the threads; files stay open until they are closed."""
        self._pool.shutdown(wait=True)

    def open(self, path: str, *, create: bool = False) -> OsFile:
        flags = self._open_flags | os.O_CREAT if create else self._open_flags
        return OsFile(path, os.open(path, flags, _FILE_MODE), self._pool, self._on_sync)

    def exists(self, path: str) -> bool:
        # os.path.exists would also answer "no" to EIO and EACCES, and a log that cannot be seen
        # must not pass for a log that is not there.
        try:
            os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def list(self, directory: str) -> list[str]:
        return sorted(os.listdir(directory))

    def make_directory(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def remove_directory(self, path: str) -> None:
        os.rmdir(path)

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def free_bytes(self, path: str) -> int:
        status = os.statvfs(path)
        return status.f_bavail * status.f_frsize

    def lock(self, path: str) -> OsFile:
        file = self.open(path, create=True)
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise
        return file

    def boot_id(self) -> str:
        return self.read_file(_BOOT_ID_PATH).decode().strip()

    def file_system_id(self, path: str) -> str:
        return format(os.statvfs(path).f_fsid, "x")

    def read_file(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    async def write_file(self, path: str, content: bytes) -> None:
        async with aiofiles.open(path, "wb", executor=self._pool) as file:
            await file.write(content)
            await file.flush()
            # Whoever gives up closes the file, which knows nothing of a sync that goes on.
            synced = OsFile(path, os.dup(file.fileno()), self._pool, self._on_sync)
            try:
                await synced.fdatasync()
            finally:
                synced.close()

    async def fsync_directory(self, path: str) -> None:
        await asyncio.wrap_future(self._pool.submit(_sync_directory, path))


def _sync_directory(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _sync(os.fsync, descriptor)
    finally:
        os.close(descriptor)


def _sync(sync: Callable[[int], None], descriptor: int) -> None:
    try:
        sync(descriptor)
    except OSError as error:
        raise SyncFailed(error.errno, error.strerror) from error
