"""What the simulated disk remembers of a dead process and of a dead machine."""

from __future__ import annotations

import asyncio
import random

import pytest

from quorate.chaos.sim.disk import SimDisk


@pytest.fixture
async def disk() -> SimDisk:
    """With /data, durable and empty."""
    disk = SimDisk()
    disk.make_directory("/data")
    await disk.fsync_directory("/")
    return disk


async def durable_file(disk: SimDisk, path: str, content: bytes) -> None:
    await disk.write_file(path, content)
    await disk.fsync_directory(path.rpartition("/")[0])


def test_process_crash_keeps_everything_written_and_closes_handles(disk: SimDisk) -> None:
    file = disk.open("/data/a", create=True)
    file.pwrite(b"abc", 0)
    assert disk.open_paths == ["/data/a"]
    disk.crash()
    assert disk.open_paths == []
    assert disk.read_file("/data/a") == b"abc"
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.pwrite(b"d", 3)


async def test_what_outlived_a_process_crash_can_still_be_synced(disk: SimDisk) -> None:
    file = disk.open("/data/a", create=True)
    file.pwrite(b"abc", 0)
    dying = asyncio.ensure_future(file.fdatasync())
    await asyncio.sleep(0)
    disk.crash()
    with pytest.raises(OSError, match="Bad file descriptor"):
        await dying
    again = disk.open("/data/a")
    await again.fdatasync()
    await disk.fsync_directory("/data")
    disk.power_loss()
    assert disk.read_file("/data/a") == b"abc"


async def test_power_loss_forgets_unsynced_content(disk: SimDisk) -> None:
    await durable_file(disk, "/data/a", b"durable")
    file = disk.open("/data/a")
    file.pwrite(b"D", 0)
    file.pwrite(b" and more", 7)
    assert disk.unsynced_bytes("/data/a") == 10
    disk.power_loss()
    assert disk.read_file("/data/a") == b"durable"
    assert disk.unsynced_bytes("/data/a") == 0


async def test_power_loss_undoes_an_unsynced_truncation(disk: SimDisk) -> None:
    await durable_file(disk, "/data/a", b"durable")
    disk.open("/data/a").truncate(3)
    disk.power_loss()
    assert disk.read_file("/data/a") == b"durable"


async def test_synced_file_without_a_synced_name_is_gone(disk: SimDisk) -> None:
    file = disk.open("/data/a", create=True)
    file.pwrite(b"abc", 0)
    await file.fdatasync()
    disk.power_loss()
    assert disk.list("/data") == []


async def test_synced_name_without_synced_content_is_an_empty_file(disk: SimDisk) -> None:
    disk.open("/data/a", create=True).pwrite(b"abc", 0)
    await disk.fsync_directory("/data")
    disk.power_loss()
    assert disk.read_file("/data/a") == b""


async def test_directory_needs_its_parent_synced(disk: SimDisk) -> None:
    disk.make_directory("/data/t-0/inner")
    await disk.fsync_directory("/data/t-0")
    disk.power_loss()
    assert disk.list("/data") == []


async def test_unsynced_unlink_and_rename_are_undone(disk: SimDisk) -> None:
    await durable_file(disk, "/data/a", b"a")
    await durable_file(disk, "/data/b", b"b")
    await durable_file(disk, "/data/b.tmp", b"new b")
    disk.unlink("/data/a")
    disk.rename("/data/b.tmp", "/data/b")
    disk.power_loss()
    assert disk.list("/data") == ["a", "b", "b.tmp"]
    assert disk.read_file("/data/b") == b"b"


async def test_synced_rename_survives_whole(disk: SimDisk) -> None:
    await durable_file(disk, "/data/state", b"old")
    await disk.write_file("/data/state.tmp", b"new")
    disk.rename("/data/state.tmp", "/data/state")
    await disk.fsync_directory("/data")
    disk.power_loss()
    assert disk.list("/data") == ["state"]
    assert disk.read_file("/data/state") == b"new"


async def test_sync_covers_only_what_was_written_before_it(disk: SimDisk) -> None:
    await durable_file(disk, "/data/a", b"")
    file = disk.open("/data/a")
    file.pwrite(b"before", 0)
    sync = asyncio.ensure_future(file.fdatasync())
    await asyncio.sleep(0)
    file.pwrite(b" during", 6)
    await sync
    disk.power_loss()
    assert disk.read_file("/data/a") == b"before"


async def test_overlapping_syncs_cover_their_own_writes(disk: SimDisk) -> None:
    await durable_file(disk, "/data/a", b"")
    file = disk.open("/data/a")
    file.pwrite(b"1", 0)
    first = asyncio.ensure_future(file.fdatasync())
    await asyncio.sleep(0)
    file.pwrite(b"2", 1)
    second = asyncio.ensure_future(file.fdatasync())
    await asyncio.sleep(0)
    file.pwrite(b"3", 2)
    await asyncio.gather(first, second)
    disk.power_loss()
    assert disk.read_file("/data/a") == b"12"


async def test_power_loss_during_a_sync_makes_nothing_durable(disk: SimDisk) -> None:
    await durable_file(disk, "/data/a", b"")
    file = disk.open("/data/a")
    file.pwrite(b"abc", 0)
    sync = asyncio.ensure_future(file.fdatasync())
    await asyncio.sleep(0)
    disk.power_loss()
    with pytest.raises(OSError, match="Bad file descriptor"):
        await sync
    assert disk.read_file("/data/a") == b""


async def after_power_loss(seed: int) -> tuple[bytes, list[str]]:
    disk = SimDisk()
    disk.make_directory("/data")
    await disk.fsync_directory("/")
    await durable_file(disk, "/data/a", b"D" * 100)
    file = disk.open("/data/a")
    file.pwrite(b"1" * 1000, 100)
    file.pwrite(b"2" * 1000, 1100)
    disk.open("/data/b", create=True)
    disk.unlink("/data/a")
    disk.rename("/data/b", "/data/c")
    disk.open("/data/a", create=True)
    disk.power_loss(random.Random(seed))
    names = disk.list("/data")
    return (disk.read_file("/data/a") if "a" in names else b"", names)


async def test_random_power_loss_keeps_drops_and_tears_but_never_touches_the_durable() -> None:
    outcomes = [await after_power_loss(seed) for seed in range(300)]
    contents = {content for content, _ in outcomes if content}
    assert all(content.startswith(b"D" * 100) for content in contents)
    assert b"D" * 100 in contents
    assert b"D" * 100 + b"1" * 1000 + b"2" * 1000 in contents
    assert b"D" * 100 + bytes(1000) + b"2" * 1000 in contents, "a lost write before a kept one"
    tails = {content[100:] for content in contents}
    assert any(tail == b"1" * len(tail) and 0 < len(tail) < 1000 for tail in tails), "a write cut short"
    assert any(tail[:1000].strip(b"1").strip(b"\0") == b"" and b"1\0" in tail for tail in tails), "sectors"


async def test_random_power_loss_keeps_names_in_the_order_of_their_changes() -> None:
    outcomes = {tuple(names) for _, names in [await after_power_loss(seed) for seed in range(100)]}
    assert outcomes == {("a",), ("a", "b"), ("b",), ("c",), ("a", "c")}


async def test_same_seed_loses_the_same() -> None:
    for seed in range(20):
        assert await after_power_loss(seed) == await after_power_loss(seed)


async def test_random_power_loss_keeps_all_that_was_synced() -> None:
    for seed in range(50):
        disk = SimDisk()
        disk.make_directory("/data")
        await disk.fsync_directory("/")
        await durable_file(disk, "/data/a", b"D" * 5000)
        disk.power_loss(random.Random(seed))
        assert disk.snapshot("/data").files == {"a": b"D" * 5000}


def test_locks_die_with_their_process(disk: SimDisk) -> None:
    holder = disk.lock("/data/.lock")
    disk.crash()
    disk.lock("/data/.lock")
    assert holder.path == "/data/.lock"


def test_boot_id_changes_with_power_loss_and_not_with_a_crash(disk: SimDisk) -> None:
    before = disk.boot_id()
    disk.crash()
    assert disk.boot_id() == before
    disk.power_loss()
    assert disk.boot_id() != before
