"""What only a real descriptor has: short system calls, threads, descriptors to leak."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from quorate.core import os_disk
from quorate.core.disk import Bytes, SyncFailed
from quorate.core.os_disk import OsDisk, OsFile


@pytest.fixture
def disk() -> Iterator[OsDisk]:
    disk = OsDisk(sync_threads=1)
    yield disk
    disk.close()


@pytest.fixture
def file(disk: OsDisk, tmp_path: Path) -> Iterator[OsFile]:
    file = disk.open(str(tmp_path / "a"), create=True)
    yield file
    file.close()


@contextmanager
def no_more_descriptors() -> Iterator[None]:
    """What is open stays so."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_short_writes_are_completed(file: OsFile, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, vectored = os.pwrite, os.pwritev

    def at_most_three(descriptor: int, data: Bytes, position: int) -> int:
        return whole(descriptor, data[:3], position)

    def at_most_one_buffer(descriptor: int, buffers: Sequence[Bytes], position: int) -> int:
        return vectored(descriptor, buffers[:1], position)

    monkeypatch.setattr(os, "pwrite", at_most_three)
    monkeypatch.setattr(os, "pwritev", at_most_one_buffer)
    file.pwrite(b"0123456789", 0)
    file.pwritev([b"abcd", b"efghi", memoryview(b"jk")], 10)
    assert file.pread(100, 0) == b"0123456789abcdefghijk"


def test_short_write_followed_by_an_error_raises_it(file: OsFile, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = os.pwrite

    def filling_up(descriptor: int, data: Bytes, position: int) -> int:
        if position:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return whole(descriptor, data[:4], position)

    monkeypatch.setattr(os, "pwrite", filling_up)
    with pytest.raises(OSError) as caught:
        file.pwrite(b"0123456789", 0)
    assert caught.value.errno == errno.ENOSPC
    assert file.size() == 4


def test_device_that_takes_nothing_ends_in_an_error(file: OsFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "pwrite", lambda *_: 0)
    with pytest.raises(OSError) as caught:
        file.pwrite(b"x", 0)
    assert caught.value.errno == errno.EIO


def test_short_reads_are_completed(file: OsFile, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = os.pread
    file.pwrite(b"0123456789", 0)
    monkeypatch.setattr(
        os, "pread", lambda descriptor, length, position: whole(descriptor, min(length, 3), position)
    )
    assert file.pread(8, 1) == b"12345678"
    assert file.pread(100, 1) == b"123456789"


def test_write_to_a_full_device_is_an_error(disk: OsDisk) -> None:
    full = disk.open("/dev/full")
    with pytest.raises(OSError, match="No space left"):
        full.pwrite(b"x", 0)
    with pytest.raises(OSError, match="No space left"):
        full.pwritev([b"x", b"y"], 0)
    full.close()


def test_name_that_cannot_be_looked_up_is_not_taken_for_missing(disk: OsDisk, tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(OSError) as caught:
        disk.exists(str(loop))
    assert caught.value.errno == errno.ELOOP


async def test_sync_runs_outside_the_event_loop(file: OsFile, monkeypatch: pytest.MonkeyPatch) -> None:
    ran_in: list[str] = []
    monkeypatch.setattr(os_disk, "_sync_content", lambda _: ran_in.append(threading.current_thread().name))
    await file.fdatasync()
    assert ran_in[0].startswith("quorate-disk")


async def test_sync_error_reaches_every_waiter_as_it_is(
    disk: OsDisk, file: OsFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os_disk, "_sync_content", broken)
    for sync in (file.fdatasync(), disk.write_file(str(tmp_path / "b"), b"content")):
        with pytest.raises(OSError) as caught:
            await sync
        assert caught.value.errno == errno.EIO


async def test_closing_during_a_sync_leaves_the_synced_file_its_descriptor(
    disk: OsDisk, file: OsFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number of a closed descriptor goes to the next file; the sync must not follow it there."""
    may_sync = threading.Event()
    synced: list[int] = []

    def slow_sync(descriptor: int) -> None:
        may_sync.wait()
        synced.append(os.fstat(descriptor).st_ino)

    monkeypatch.setattr(os_disk, "_sync_content", slow_sync)
    inode = os.fstat(file.fileno()).st_ino
    sync = asyncio.ensure_future(file.fdatasync())
    await asyncio.sleep(0)
    file.close()
    others = [disk.open(str(tmp_path / f"other-{n}"), create=True) for n in range(3)]
    may_sync.set()
    await sync
    assert synced == [inode]
    for other in others:
        other.close()


async def test_file_that_is_open_is_synced_without_another_descriptor(disk: OsDisk, file: OsFile) -> None:
    with no_more_descriptors():
        with pytest.raises(OSError, match="Too many open files"):
            disk.open(file.path)
        await file.fdatasync()


async def test_closed_file_keeps_its_descriptor_until_the_last_sync_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = OsDisk(sync_threads=2)
    file = disk.open(str(tmp_path / "a"), create=True)
    before = open_descriptors()
    may_sync = [threading.Event(), threading.Event()]
    waiting = iter(may_sync)
    monkeypatch.setattr(os_disk, "_sync_content", lambda _: next(waiting).wait())
    syncs = [asyncio.ensure_future(file.fdatasync()) for _ in may_sync]
    await asyncio.sleep(0)
    file.close()
    file.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        await file.fdatasync()
    meanwhile = open_descriptors()
    for event in may_sync:
        event.set()
    await asyncio.gather(*syncs)
    assert meanwhile == before
    disk.close()
    assert open_descriptors() == before - 1


async def test_cancelled_syncs_leak_no_descriptor(
    disk: OsDisk, file: OsFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_sync = threading.Event()
    monkeypatch.setattr(os_disk, "_sync_content", lambda _: may_sync.wait())
    before = open_descriptors()
    # One thread: the first is running when it is cancelled, the others still wait for the thread.
    syncs = [asyncio.ensure_future(file.fdatasync()) for _ in range(3)]
    await asyncio.sleep(0)
    for sync in syncs:
        sync.cancel()
    await asyncio.gather(*syncs, return_exceptions=True)
    may_sync.set()
    disk.close()
    assert open_descriptors() == before


async def test_files_and_directories_leak_no_descriptor(disk: OsDisk, tmp_path: Path) -> None:
    await disk.fsync_directory(str(tmp_path))
    before = open_descriptors()
    for n in range(5):
        await disk.write_file(str(tmp_path / f"{n}"), b"content")
        await disk.fsync_directory(str(tmp_path))
        with pytest.raises(FileNotFoundError):
            await disk.fsync_directory(str(tmp_path / "none"))
    assert open_descriptors() == before


def test_file_that_nobody_refers_to_gives_its_descriptor_back(disk: OsDisk, tmp_path: Path) -> None:
    before = open_descriptors()
    file = disk.open(str(tmp_path / "b"), create=True)
    assert open_descriptors() == before + 1
    del file
    assert open_descriptors() == before


def test_refused_lock_leaks_no_descriptor(disk: OsDisk, tmp_path: Path) -> None:
    holder = disk.lock(str(tmp_path / "lock"))
    before = open_descriptors()
    with pytest.raises(BlockingIOError):
        disk.lock(str(tmp_path / "lock"))
    assert open_descriptors() == before
    holder.close()


async def test_every_sync_is_told_how_long_it_took_also_one_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[float] = []
    disk = OsDisk(sync_threads=1, on_sync=told.append)
    file = disk.open(str(tmp_path / "b"), create=True)
    await file.fdatasync()
    await disk.write_file(str(tmp_path / "c"), b"content")
    assert len(told) == 2

    def fail(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os_disk, "_sync_content", fail)
    with pytest.raises(SyncFailed):
        await file.fdatasync()
    assert len(told) == 3
    assert min(told) >= 0
    file.close()
    disk.close()
