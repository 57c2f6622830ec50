"""Every way in which the simulated disk fails on demand."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable

import pytest

from quorate.chaos.sim.disk import SimDisk
from quorate.chaos.sim.disk_faults import Operation, ProcessDied, ShortWrite, fail_nth, fail_path


def error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


@pytest.fixture
async def disk() -> SimDisk:
    disk = SimDisk()
    disk.make_directory("/data")
    await disk.write_file("/data/a", b"0123456789")
    await disk.fsync_directory("/")
    await disk.fsync_directory("/data")
    return disk


async def every_operation(disk: SimDisk) -> None:
    file = disk.open("/data/a", create=True)
    try:
        file.pwrite(b"x", 10)
        file.pwritev([b"y", b"z"], 11)
        file.pread(4, 2)
        file.truncate(12)
        file.size()
        await file.fdatasync()
    finally:
        file.close()
    disk.exists("/data/a")
    disk.size("/data/a")
    disk.list("/data")
    disk.make_directory("/data/d")
    disk.remove_directory("/data/d")
    disk.rename("/data/a", "/data/b")
    await disk.write_file("/data/c", b"content")
    disk.read_file("/data/c")
    disk.unlink("/data/c")
    disk.free_bytes("/data")
    await disk.fsync_directory("/data")


async def test_trace_tells_every_operation_in_order(disk: SimDisk) -> None:
    disk.operation_count = 0
    disk.trace = []
    await every_operation(disk)
    names = [operation.name for operation in disk.trace]
    assert names[:7] == ["open", "pwrite", "pwritev", "pread", "truncate", "size", "fdatasync"]
    assert names[7:12] == ["exists", "size", "list", "make_directory", "remove_directory"]
    assert names[12:17] == ["rename", "open", "truncate", "pwrite", "fdatasync"]
    assert names[17:] == ["read_file", "unlink", "free_bytes", "fsync_directory"]
    assert disk.trace[2] == Operation(number=3, name="pwritev", path="/data/a", position=11, length=2)
    assert disk.operation_count == len(names)


async def test_each_operation_in_turn_can_fail(disk: SimDisk) -> None:
    clean = disk.snapshot()
    disk.trace = []
    await every_operation(disk)
    operations, disk.trace = disk.trace, None
    for number, operation in enumerate(operations, start=1):
        disk.restore(clean)
        disk.fault_hook = fail_nth(number, error(errno.EIO))
        with pytest.raises(OSError) as caught:
            await every_operation(disk)
        assert caught.value.errno == errno.EIO, operation
        assert disk.open_paths == []


async def test_failed_operation_has_no_effect(disk: SimDisk) -> None:
    before = disk.snapshot()
    file = disk.open("/data/a")
    disk.fault_hook = fail_path("/data", lambda: error(errno.EIO))
    for call in (
        lambda: file.pwrite(b"x", 0),
        lambda: file.truncate(0),
        lambda: disk.unlink("/data/a"),
        lambda: disk.rename("/data/a", "/data/b"),
        lambda: disk.open("/data/new", create=True),
        lambda: disk.make_directory("/data/d"),
    ):
        with pytest.raises(OSError, match="Input/output error"):
            call()
    assert disk.snapshot() == before


def test_fail_nth_counts_only_the_named_operations(disk: SimDisk) -> None:
    file = disk.open("/data/a")
    disk.fault_hook = fail_nth(2, error(errno.ENOSPC), names={"pwrite"})
    file.pwrite(b"1", 0)
    file.pread(1, 0)
    with pytest.raises(OSError, match="No space"):
        file.pwrite(b"2", 0)
    file.pwrite(b"3", 0)
    assert disk.read_file("/data/a") == b"3123456789"


def test_fail_path_leaves_other_files_alone(disk: SimDisk) -> None:
    disk.fault_hook = fail_path("/a", lambda: error(errno.EIO), names={"open"})
    disk.open("/data/b", create=True)
    assert disk.size("/data/a") == 10
    with pytest.raises(OSError, match="Input/output error"):
        disk.open("/data/a")


@pytest.mark.parametrize("written", [0, 1, 3])
def test_short_write_leaves_a_prefix_and_raises(disk: SimDisk, written: int) -> None:
    file = disk.open("/data/a")
    disk.fault_hook = fail_nth(1, ShortWrite(errno.ENOSPC, written=written))
    with pytest.raises(OSError) as caught:
        file.pwritev([b"ab", b"cd"], 10)
    assert caught.value.errno == errno.ENOSPC
    assert disk.read_file("/data/a") == b"0123456789" + b"abcd"[:written]


def test_death_passes_every_handler_and_leaves_part_of_the_write(disk: SimDisk) -> None:
    file = disk.open("/data/a")
    disk.fault_hook = fail_nth(1, ProcessDied(written=2))
    with pytest.raises(ProcessDied):
        file.pwrite(b"abcd", 10)
    assert not issubclass(ProcessDied, Exception)
    disk.crash()
    assert disk.read_file("/data/a") == b"0123456789ab"


async def test_failed_sync_loses_its_data_although_reads_still_see_it(disk: SimDisk) -> None:
    file = disk.open("/data/a")
    file.pwrite(b"lost", 10)
    disk.fault_hook = fail_nth(1, error(errno.EIO), names={"fdatasync"})
    with pytest.raises(OSError, match="Input/output error"):
        await file.fdatasync()
    file.pwrite(b"X", 0)
    # Linux has marked the pages clean: the second sync succeeds without writing them.
    await file.fdatasync()
    assert file.pread(100, 0) == b"X123456789lost"
    disk.power_loss()
    assert disk.read_file("/data/a") == b"X123456789"


def test_full_disk_takes_what_fits_and_recovers_when_there_is_room(disk: SimDisk) -> None:
    disk.capacity_bytes = 14
    assert disk.used_bytes == 10
    file = disk.open("/data/a")
    with pytest.raises(OSError) as caught:
        file.pwrite(b"abcdefgh", 10)
    assert caught.value.errno == errno.ENOSPC
    assert disk.read_file("/data/a") == b"0123456789abcd"
    assert disk.used_bytes == 14
    file.pwrite(b"overwriting", 0)
    with pytest.raises(OSError, match="No space"):
        file.pwrite(b"far beyond", 1000)
    file.truncate(10)
    file.pwrite(b"abcd", 10)
    disk.capacity_bytes = 5
    with pytest.raises(OSError, match="No space"):
        file.pwrite(b"efgh", 14)
    disk.capacity_bytes = None
    file.pwrite(b"efgh", 14)


def test_space_of_a_removed_file_returns_with_its_last_handle(disk: SimDisk) -> None:
    file = disk.open("/data/a")
    disk.unlink("/data/a")
    assert disk.used_bytes == 10
    file.close()
    assert disk.used_bytes == 0


async def test_space_of_a_replaced_file_returns(disk: SimDisk) -> None:
    await disk.write_file("/data/b", b"1234")
    disk.rename("/data/b", "/data/a")
    assert disk.used_bytes == 4


async def test_space_is_recounted_after_power_loss(disk: SimDisk) -> None:
    disk.open("/data/b", create=True).pwrite(b"x" * 100, 0)
    assert disk.used_bytes == 110
    disk.power_loss()
    assert disk.used_bytes == 10
    disk.wipe()
    assert disk.used_bytes == 0


@pytest.mark.parametrize("bit", [0, 7, 42, 79])
async def test_flipped_bit_is_read_and_survives_power_loss(disk: SimDisk, bit: int) -> None:
    expected = int.from_bytes(b"0123456789", "little") ^ 1 << bit
    disk.flip_bit("/data/a", bit)
    assert int.from_bytes(disk.read_file("/data/a"), "little") == expected
    disk.power_loss()
    assert int.from_bytes(disk.read_file("/data/a"), "little") == expected


async def test_flipped_bit_of_unsynced_data_is_not_repaired_by_a_sync(disk: SimDisk) -> None:
    file = disk.open("/data/a")
    file.pwrite(b"\0\0", 10)
    disk.flip_bit("/data/a", 11 * 8)
    await file.fdatasync()
    disk.power_loss()
    assert disk.read_file("/data/a") == b"0123456789\0\1"


async def test_wipe_empties_a_directory_for_good(disk: SimDisk) -> None:
    disk.wipe("/data")
    assert disk.list("/data") == []
    disk.power_loss()
    assert disk.list("/data") == []
    assert disk.list("/") == ["data"]


async def test_restored_snapshot_is_the_old_content_and_durable(disk: SimDisk) -> None:
    disk.make_directory("/data/t-0/sub")
    await disk.write_file("/data/t-0/x", b"old")
    old = disk.snapshot("/data")
    disk.unlink("/data/a")
    await disk.write_file("/data/t-0/x", b"newer")
    disk.restore(old, "/data")
    disk.power_loss()
    assert disk.snapshot("/data") == old
    assert dict(old.files) == {"a": b"0123456789", "t-0/x": b"old"}
    assert disk.used_bytes == 13


def test_snapshot_can_be_restored_elsewhere(disk: SimDisk) -> None:
    other = SimDisk()
    other.restore(disk.snapshot())
    other.open("/data/a").pwrite(b"X", 0)
    assert disk.read_file("/data/a") == b"0123456789"
    assert other.read_file("/data/a") == b"X123456789"


def test_no_descriptor_to_send_from(disk: SimDisk) -> None:
    with pytest.raises(OSError) as caught:
        disk.open("/data/a").fileno()
    assert caught.value.errno == errno.ENOTSUP


async def test_sync_that_fails_fails_those_under_way_with_it() -> None:
    disk = SimDisk(sync_delay_s=0.01)
    file = disk.open("/a", create=True)
    await disk.fsync_directory("/")
    file.pwrite(b"first", 0)
    under_way = asyncio.create_task(file.fdatasync())
    await asyncio.sleep(0)
    file.pwrite(b"second", 5)
    disk.fault_hook = fail_nth(1, error(errno.EIO), names=["fdatasync"])
    with pytest.raises(OSError, match="Input/output"):
        await file.fdatasync()
    with pytest.raises(OSError, match="Input/output"):
        await under_way
    disk.power_loss()
    assert disk.read_file("/a") == b""


@pytest.mark.parametrize(
    "harm",
    [
        lambda disk: disk.power_loss(),
        lambda disk: disk.lose_page_cache(),
        lambda disk: disk.flip_bit("/data/a", 0),
        lambda disk: disk.wipe("/data"),
        lambda disk: disk.restore(disk.snapshot()),
    ],
    ids=["power loss", "page cache", "rot", "wiped", "old copy"],
)
async def test_whoever_looks_on_is_told_of_every_harm(disk: SimDisk, harm: Callable[[SimDisk], None]) -> None:
    def harms() -> tuple[int, int, int]:
        return disk.unsynced_losses, disk.damages, len(disk.rotten)

    told = []
    disk.on_harm = lambda: told.append(harms())
    before = harms()
    harm(disk)
    assert harms() != before
    assert told[-1] == harms(), "nothing changed after the last word"
