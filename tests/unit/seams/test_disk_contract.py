"""What storage may rely on, on a real file system and on the simulated one alike."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from quorate.chaos.sim.disk import SimDisk
from quorate.core.disk import Bytes, Disk
from quorate.core.os_disk import OsDisk


class Place(NamedTuple):
    disk: Disk
    #: an empty directory
    base: str


@pytest.fixture(params=["os", "sim"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "os":
        os_disk = OsDisk(sync_threads=2)
        yield Place(os_disk, str(tmp_path))
        os_disk.close()
    else:
        sim_disk = SimDisk()
        sim_disk.make_directory("/var/base")
        yield Place(sim_disk, "/var/base")


def errno_of(caught: pytest.ExceptionInfo[OSError]) -> str:
    assert caught.value.errno is not None
    return errno.errorcode[caught.value.errno]


def test_written_bytes_are_read_back_by_every_handle(place: Place) -> None:
    disk, base = place
    writer = disk.open(f"{base}/a.log", create=True)
    reader = disk.open(f"{base}/a.log")
    writer.pwrite(b"hello world", 0)
    writer.pwrite(b"W", 6)
    assert reader.pread(11, 0) == b"hello World"
    assert reader.pread(5, 6) == b"World"
    assert writer.path == f"{base}/a.log"
    writer.close()
    reader.close()


def test_read_past_the_end_is_short_and_never_an_error(place: Place) -> None:
    file = place.disk.open(f"{place.base}/a", create=True)
    file.pwrite(b"abc", 0)
    assert file.pread(100, 1) == b"bc"
    assert file.pread(100, 3) == b""
    assert file.pread(100, 1000) == b""
    assert file.pread(0, 0) == b""
    file.close()


@pytest.mark.parametrize("data", [b"abcd", bytearray(b"abcd"), memoryview(b"xabcdx")[1:5]])
def test_every_kind_of_bytes_is_written(place: Place, data: Bytes) -> None:
    file = place.disk.open(f"{place.base}/a", create=True)
    file.pwrite(data, 0)
    file.pwritev([data, data], 4)
    assert file.pread(100, 0) == b"abcd" * 3
    file.close()


def test_written_buffer_may_be_reused_at_once(place: Place) -> None:
    file = place.disk.open(f"{place.base}/a", create=True)
    buffer = bytearray(b"first")
    file.pwrite(buffer, 0)
    buffer[:] = b"other"
    assert file.pread(5, 0) == b"first"
    file.close()


def test_vectored_write_is_the_concatenation_whatever_the_number_of_buffers(place: Place) -> None:
    file = place.disk.open(f"{place.base}/a", create=True)
    count = os.sysconf("SC_IOV_MAX") * 2 + 1
    buffers = [bytes([n % 251]) * (n % 3) for n in range(count)]
    file.pwritev(buffers, 10)
    assert file.pread(10, 0) == bytes(10)
    assert file.pread(4 * count, 10) == b"".join(buffers)
    file.pwritev([], 0)
    file.pwrite(b"", 0)
    assert file.size() == 10 + sum(map(len, buffers))
    file.close()


def test_gap_before_a_write_reads_as_zeros(place: Place) -> None:
    file = place.disk.open(f"{place.base}/a", create=True)
    file.pwrite(b"x", 5)
    assert file.pread(10, 0) == b"\0\0\0\0\0x"
    file.close()


def test_empty_write_does_not_extend(place: Place) -> None:
    file = place.disk.open(f"{place.base}/a", create=True)
    file.pwrite(b"", 5)
    assert file.size() == 0
    file.close()


def test_truncate_cuts_and_extends_with_zeros(place: Place) -> None:
    file = place.disk.open(f"{place.base}/a", create=True)
    file.pwrite(b"abcdef", 0)
    file.truncate(2)
    assert (file.size(), place.disk.size(file.path)) == (2, 2)
    file.truncate(4)
    assert file.pread(10, 0) == b"ab\0\0"
    file.close()


@pytest.mark.parametrize("operation", ["pread", "pwrite", "pwritev", "truncate"])
def test_negative_numbers_are_refused(place: Place, operation: str) -> None:
    file = place.disk.open(f"{place.base}/a", create=True)
    calls: dict[str, Callable[[], object]] = {
        "pread": lambda: file.pread(1, -1),
        "pwrite": lambda: file.pwrite(b"x", -1),
        "pwritev": lambda: file.pwritev([b"x"], -1),
        "truncate": lambda: file.truncate(-1),
    }
    with pytest.raises(OSError) as caught:
        calls[operation]()
    assert errno_of(caught) == "EINVAL"
    file.close()


async def test_closed_file_refuses_everything_and_closes_again_quietly(place: Place) -> None:
    file = place.disk.open(f"{place.base}/a", create=True)
    file.close()
    file.close()
    calls: list[Callable[[], object]] = [
        lambda: file.pread(1, 0),
        lambda: file.pwrite(b"x", 0),
        lambda: file.pwritev([b"x"], 0),
        lambda: file.truncate(0),
        file.size,
        file.fileno,
    ]
    for call in calls:
        with pytest.raises(OSError) as caught:
            call()
        assert errno_of(caught) == "EBADF"
    with pytest.raises(OSError) as caught:
        await file.fdatasync()
    assert errno_of(caught) == "EBADF"


async def test_sync_under_way_completes_although_the_file_is_closed(place: Place) -> None:
    file = place.disk.open(f"{place.base}/a", create=True)
    file.pwrite(b"x", 0)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(file.fdatasync())
        await asyncio.sleep(0)
        file.close()


async def test_syncs_may_run_side_by_side(place: Place) -> None:
    file = place.disk.open(f"{place.base}/a", create=True)
    file.pwrite(b"x", 0)
    await asyncio.gather(*(file.fdatasync() for _ in range(10)))
    file.close()


def test_open_without_create_needs_the_file(place: Place) -> None:
    with pytest.raises(OSError) as caught:
        place.disk.open(f"{place.base}/missing")
    assert errno_of(caught) == "ENOENT"
    assert not place.disk.exists(f"{place.base}/missing")


def test_create_keeps_what_is_there(place: Place) -> None:
    disk, base = place
    first = disk.open(f"{base}/a", create=True)
    first.pwrite(b"kept", 0)
    first.close()
    second = disk.open(f"{base}/a", create=True)
    assert second.pread(10, 0) == b"kept"
    second.close()


def test_directories_are_made_with_parents_listed_in_order_and_removed_empty(place: Place) -> None:
    disk, base = place
    disk.make_directory(f"{base}/x/y/z")
    disk.make_directory(f"{base}/x/y/z")
    for name in ("b", "c", "a"):
        disk.open(f"{base}/x/y/{name}", create=True).close()
    assert disk.list(f"{base}/x/y") == ["a", "b", "c", "z"]
    with pytest.raises(OSError) as caught:
        disk.remove_directory(f"{base}/x/y")
    assert errno_of(caught) == "ENOTEMPTY"
    disk.remove_directory(f"{base}/x/y/z")
    assert disk.list(f"{base}/x/y") == ["a", "b", "c"]


def test_rename_replaces_the_target_and_open_handles_follow_their_file(place: Place) -> None:
    disk, base = place
    old = disk.open(f"{base}/state", create=True)
    old.pwrite(b"old", 0)
    new = disk.open(f"{base}/state.tmp", create=True)
    new.pwrite(b"new", 0)
    disk.rename(f"{base}/state.tmp", f"{base}/state")
    assert disk.list(base) == ["state"]
    assert disk.read_file(f"{base}/state") == b"new"
    assert old.pread(3, 0) == b"old"
    assert new.path == f"{base}/state.tmp"
    old.close()
    new.close()


def test_rename_moves_a_directory_with_all_it_holds(place: Place) -> None:
    disk, base = place
    disk.make_directory(f"{base}/t-0.id/sub")
    disk.open(f"{base}/t-0.id/a", create=True).close()
    disk.rename(f"{base}/t-0.id", f"{base}/t-0.id.deleted")
    assert disk.list(base) == ["t-0.id.deleted"]
    assert disk.list(f"{base}/t-0.id.deleted") == ["a", "sub"]


def test_rename_between_directories(place: Place) -> None:
    disk, base = place
    disk.make_directory(f"{base}/one")
    disk.make_directory(f"{base}/two")
    disk.open(f"{base}/one/a", create=True).close()
    disk.rename(f"{base}/one/a", f"{base}/two/b")
    assert (disk.list(f"{base}/one"), disk.list(f"{base}/two")) == ([], ["b"])


def test_unlinked_file_lives_on_for_its_handles(place: Place) -> None:
    disk, base = place
    file = disk.open(f"{base}/a", create=True)
    file.pwrite(b"still", 0)
    disk.unlink(f"{base}/a")
    assert not disk.exists(f"{base}/a")
    assert file.pread(5, 0) == b"still"
    file.close()


async def test_small_file_is_written_whole_and_replaces_a_longer_one(place: Place) -> None:
    disk, base = place
    await disk.write_file(f"{base}/meta", b"a longer content")
    await disk.write_file(f"{base}/meta", b"short")
    assert disk.read_file(f"{base}/meta") == b"short"
    assert disk.size(f"{base}/meta") == 5
    await disk.fsync_directory(base)


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ("open file/x", "ENOTDIR"),
        ("open dir", "EISDIR"),
        ("open none/x", "ENOENT"),
        ("list file", "ENOTDIR"),
        ("list none", "ENOENT"),
        ("size none", "ENOENT"),
        ("read dir", "EISDIR"),
        ("read none", "ENOENT"),
        ("unlink none", "ENOENT"),
        ("unlink dir", "EISDIR"),
        ("rmdir file", "ENOTDIR"),
        ("rmdir none", "ENOENT"),
        ("mkdir file", "EEXIST"),
        ("mkdir file/x", "ENOTDIR"),
        ("mkdir file/file", "ENOTDIR"),
        ("rename none file", "ENOENT"),
        ("rename file dir", "EISDIR"),
        ("rename dir file", "ENOTDIR"),
        ("rename empty dir", "ENOTEMPTY"),
        ("rename file none/x", "ENOENT"),
    ],
)
def test_errors_carry_the_errno_of_linux(place: Place, operation: str, expected: str) -> None:
    disk, base = place
    disk.open(f"{base}/file", create=True).close()
    disk.make_directory(f"{base}/dir/inner")
    disk.make_directory(f"{base}/empty")
    name, *arguments = operation.split()
    calls: dict[str, Callable[..., object]] = {
        "open": lambda path: disk.open(path, create=True),
        "list": disk.list,
        "size": disk.size,
        "read": disk.read_file,
        "unlink": disk.unlink,
        "rmdir": disk.remove_directory,
        "mkdir": disk.make_directory,
        "rename": disk.rename,
    }
    with pytest.raises(OSError) as caught:
        calls[name](*(f"{base}/{argument}" for argument in arguments))
    assert errno_of(caught) == expected
    assert disk.list(base) == ["dir", "empty", "file"]


async def test_sync_of_a_missing_directory_is_an_error(place: Place) -> None:
    with pytest.raises(OSError) as caught:
        await place.disk.fsync_directory(f"{place.base}/none")
    assert errno_of(caught) == "ENOENT"


def test_exists_answers_no_below_a_file(place: Place) -> None:
    disk, base = place
    disk.open(f"{base}/file", create=True).close()
    assert disk.exists(f"{base}/file")
    assert disk.exists(base)
    assert not disk.exists(f"{base}/file/below")
    assert not disk.exists(f"{base}/none/below")


def test_locked_file_is_refused_until_its_holder_closes_it(place: Place) -> None:
    disk, base = place
    first = disk.lock(f"{base}/.lock")
    with pytest.raises(BlockingIOError):
        disk.lock(f"{base}/.lock")
    other = disk.lock(f"{base}/other.lock")
    first.close()
    second = disk.lock(f"{base}/.lock")
    with pytest.raises(BlockingIOError):
        disk.lock(f"{base}/.lock")
    second.close()
    other.close()


def test_everything_in_one_directory_is_on_one_file_system(place: Place) -> None:
    place.disk.make_directory(f"{place.base}/below")
    of_root = place.disk.file_system_id(place.base)
    assert of_root == place.disk.file_system_id(f"{place.base}/below") != ""


def test_boot_id_stays_the_same_while_the_machine_runs(place: Place) -> None:
    assert place.disk.boot_id() == place.disk.boot_id() != ""


def test_lock_of_a_holder_that_was_let_go_is_free(place: Place) -> None:
    disk, base = place
    holder = disk.lock(f"{base}/.lock")
    del holder
    disk.lock(f"{base}/.lock").close()
