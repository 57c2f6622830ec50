"""Descriptors of sealed segments: bounded, shared, and never closed under a reader's hands."""

from __future__ import annotations

from quorate.chaos.models.log.log_harness import (
    EVERYTHING,
    LogHarness,
    batch,
    read_all,
    record_operations,
    small_config,
)
from quorate.chaos.sim.disk import DiskSnapshot, SimDisk
from quorate.storage.open_files import OpenFiles


def disk_with(*names: str) -> SimDisk:
    disk = SimDisk()
    disk.restore(DiskSnapshot([], {name: name.encode() for name in names}))
    return disk


def test_a_file_is_opened_once_while_it_is_remembered() -> None:
    disk = disk_with("a")
    files = OpenFiles(disk, files_max=2)
    assert files.get("/a") is files.get("/a")
    assert disk.open_paths == ["/a"]


def test_the_file_used_least_recently_goes_first() -> None:
    disk = disk_with("a", "b", "c")
    files = OpenFiles(disk, files_max=2)
    for path in ("/a", "/b", "/a", "/c"):
        files.get(path)
    assert len(files) == 2
    assert disk.open_paths == ["/a", "/c"]


def test_an_evicted_file_stays_open_for_whoever_holds_it() -> None:
    disk = disk_with("a", "b")
    files = OpenFiles(disk, files_max=1)
    held = files.get("/a")
    files.get("/b")
    assert held.pread(1, 0) == b"a"
    del held
    assert disk.open_paths == ["/b"]


def test_a_forgotten_file_is_opened_anew() -> None:
    disk = disk_with("a")
    files = OpenFiles(disk, files_max=1)
    before = files.get("/a")
    files.forget("/a")
    files.forget("/never-opened")
    assert files.get("/a") is not before


async def test_a_log_of_many_segments_keeps_no_more_files_open_than_allowed() -> None:
    harness = LogHarness(small_config(segment_bytes=100))
    log = await harness.lead()
    harness.append(*(batch(b"x" * 60) for _ in range(40)))
    assert log.segment_count == 40
    read_all(log)
    kept_for_their_sync = 8
    assert len(set(harness.disk.open_paths)) <= harness.context.open_files.files_max + 1 + kept_for_their_sync
    await log.flush()
    assert len(harness.disk.open_paths) == harness.context.open_files.files_max + 1  # and the active one


async def test_a_sealed_segment_is_synced_by_the_descriptor_that_wrote_it() -> None:
    """The kernel may tell of a write that failed to nobody who opens the file later (rule 45)."""
    harness = LogHarness(small_config(segment_bytes=100))
    log = await harness.lead()
    harness.append(batch(b"x" * 60), batch(b"y" * 60))
    sealed = harness.path(min(harness.files(".log")))
    opened = [path for path in harness.disk.open_paths if path == sealed]
    assert opened == [sealed]
    operations = record_operations(harness.disk)
    await log.flush()
    assert not [each for each in operations if each.name == "open" and each.path == sealed]
    assert [each.name for each in operations if each.path == sealed] == ["fdatasync"]
    assert sealed not in harness.disk.open_paths


async def test_a_region_outlives_eviction_roll_retention_and_close() -> None:
    harness = LogHarness(small_config(segment_bytes=200))
    log = await harness.lead()
    harness.append(batch(b"x" * 60))
    content = read_all(log)
    region = log._state.active.region(0, bytes_max=EVERYTHING, end=len(content))
    harness.append(batch(b"y" * 60), batch(b"z" * 60))
    assert log.segment_count > 1
    assert region.read() == content
    await log.advance_log_start(log.log_end_offset)
    assert region.read() == content
    await log.close()
    assert region.read() == content


async def test_a_closed_log_keeps_no_file_open() -> None:
    harness = LogHarness(small_config(segment_bytes=200))
    log = await harness.lead()
    harness.append(*(batch(b"x" * 60) for _ in range(5)))
    read_all(log)
    assert await log.close()
    assert harness.disk.open_paths == []
