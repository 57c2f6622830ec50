"""A disk that fills up: appends are refused whole, reads go on, and it recovers by itself."""

from __future__ import annotations

import random

import pytest

from quorate.chaos.models.log.log_harness import (
    LogHarness,
    batch,
    image_of,
    maintain,
    make_context,
    read_all,
    replay,
    small_config,
)
from quorate.chaos.sim.disk import SimDisk
from quorate.core.ids import LeaderEpoch, Offset, PartitionId, TopicId, TopicName
from quorate.errors import DiskFull
from quorate.storage import LogDirectory, PartitionKey, PartitionLog, StartKind
from quorate.storage.leader_epochs import EpochEnd

BATCH = batch(b"x" * 60)
KEY = PartitionKey(TopicName("orders"), PartitionId(0), TopicId("AAAAAAAAAAAAAAAAAAAAAA"))


async def full_log(*, segment_bytes: int = 4 * len(BATCH), retention_bytes: int = -1) -> LogHarness:
    """Appended to until there is no room for another batch."""
    harness = LogHarness(small_config(segment_bytes=segment_bytes, retention_bytes=retention_bytes))
    await harness.lead(1)
    harness.disk.capacity_bytes = 6000
    fill(harness)
    return harness


def fill(harness: LogHarness) -> int:
    """How many batches went in before the disk was full."""
    before = harness.log.log_end_offset
    return append_until_full(harness.log) - before


async def test_refused_append_leaves_no_byte_behind() -> None:
    harness = await full_log()
    image = image_of(harness.log)
    assert image == replay(image.batches)
    for _ in range(3):
        with pytest.raises(DiskFull):
            harness.append(BATCH)
        assert image_of(harness.log) == image
        assert sum(len(content) for content in harness.files(".log").values()) == len(image.batches)
    assert harness.context.storage_error is None


async def test_append_succeeds_as_soon_as_there_is_room() -> None:
    harness = await full_log(segment_bytes=100_000)
    end = harness.log.log_end_offset
    for room in range(len(BATCH)):
        harness.disk.capacity_bytes = harness.disk.used_bytes + room
        with pytest.raises(DiskFull):
            harness.append(BATCH)
    harness.disk.capacity_bytes = harness.disk.used_bytes + len(BATCH)
    harness.append(BATCH)
    assert harness.log.log_end_offset == end + 1
    expected = image_of(harness.log)
    assert expected == replay(expected.batches)
    await harness.crash()
    assert image_of(harness.log) == expected


async def test_small_batch_may_fit_where_a_large_one_does_not() -> None:
    harness = await full_log(segment_bytes=100_000)
    end = harness.log.log_end_offset
    with pytest.raises(DiskFull):
        harness.append(BATCH)
    harness.disk.capacity_bytes = harness.disk.used_bytes + len(batch()) + 5
    harness.append(batch())
    assert harness.log.log_end_offset == end + 1


@pytest.mark.parametrize("room", [0, 1, 50, 200])
async def test_retention_frees_a_full_disk_and_appends_go_on(room: int) -> None:
    """Not even the checkpoint that has to come first finds room of its own."""
    harness = await full_log(retention_bytes=8 * len(BATCH))
    harness.disk.capacity_bytes = harness.disk.used_bytes + room
    log = harness.log
    deleted = await log.apply_retention(below=log.log_end_offset)
    assert deleted > 0
    assert fill(harness) > 0
    expected = image_of(log)
    await harness.crash()
    assert image_of(harness.log) == expected


async def test_a_full_disk_is_filled_and_freed_any_number_of_times() -> None:
    harness = await full_log(retention_bytes=8 * len(BATCH))
    for _ in range(5):
        log = harness.log
        await log.apply_retention(below=log.log_end_offset)
        assert fill(harness) > 0
        await harness.crash()
        assert harness.context.storage_error is None
    image = image_of(harness.log)
    assert image.batches == replay(image.batches).batches


async def test_everything_else_is_refused_without_harm() -> None:
    harness = await full_log()
    log = harness.log
    harness.disk.capacity_bytes = None
    await log.checkpoint()  # so that the recovery point on disk has to be lowered first
    harness.disk.capacity_bytes = harness.disk.used_bytes
    before = image_of(log)
    for change in (
        log.truncate_to(Offset(1)),
        log.advance_log_start(Offset(1)),
    ):
        with pytest.raises(DiskFull):
            await change
        assert image_of(log) == before
    harness.disk.capacity_bytes = None
    log.become_leader(LeaderEpoch(3))
    harness.append(BATCH)
    expected = image_of(log)
    await harness.crash()
    assert image_of(harness.log) == expected


async def test_replica_leads_on_a_full_disk_and_notes_its_epoch_before_the_first_batch() -> None:
    """Else a full disk would take the partition from its readers too."""
    harness = await full_log()
    log = harness.log
    harness.disk.capacity_bytes = harness.disk.used_bytes
    end = log.log_end_offset
    log.become_leader(LeaderEpoch(2))
    assert log.end_of_epoch(LeaderEpoch(2)) == EpochEnd(LeaderEpoch(2), end)
    assert len(read_all(log)) == end * len(BATCH)
    with pytest.raises(DiskFull):
        harness.append(BATCH)
    harness.disk.capacity_bytes = None
    harness.append(BATCH)
    expected = image_of(log)
    await harness.crash()
    assert image_of(harness.log) == expected
    assert harness.log.damage is None


async def test_what_was_flushed_on_a_full_disk_survives_power_loss() -> None:
    for seed in range(10):
        harness = await full_log()
        harness.disk.capacity_bytes = harness.disk.used_bytes
        await harness.log.flush()
        expected = image_of(harness.log)
        with pytest.raises(DiskFull):
            harness.append(BATCH)
        await harness.power_loss(random.Random(seed))
        assert image_of(harness.log) == expected


async def test_clean_stop_that_finds_no_room_is_not_a_clean_one() -> None:
    harness = await full_log()
    harness.disk.capacity_bytes = harness.disk.used_bytes
    expected = image_of(harness.log)
    assert not await harness.log.close()
    await harness.open(StartKind.PROCESS_CRASH)
    assert image_of(harness.log) == expected


async def test_node_whose_disk_is_full_starts_cleans_up_and_goes_on() -> None:
    disk = SimDisk()
    config = small_config(segment_bytes=4 * len(BATCH), retention_bytes=8 * len(BATCH))
    directory = await LogDirectory.open(make_context(disk), "/data", start=StartKind.CLEAN)
    log = await directory.create(KEY, config)
    log.become_leader(LeaderEpoch(1))
    disk.capacity_bytes = disk.used_bytes + 5000
    end = append_until_full(log)
    disk.capacity_bytes = disk.used_bytes
    disk.crash()
    directory = await LogDirectory.open(make_context(disk), "/data", start=StartKind.PROCESS_CRASH)
    await directory.open_logs(lambda key: config)
    ((_, log),) = directory
    assert log.log_end_offset == end
    assert len(read_all(log)) == end * len(BATCH)
    await maintain(directory, below=log.log_end_offset)
    log.become_leader(LeaderEpoch(2))
    assert append_until_full(log) > end
    disk.capacity_bytes = None
    assert await directory.close()


def append_until_full(log: PartitionLog) -> Offset:
    try:
        while True:
            log.append_as_leader(BATCH, leader_epoch=log.latest_leader_epoch)
    except DiskFull:
        return log.log_end_offset
