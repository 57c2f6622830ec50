"""Retention: whole segments, oldest first, below the high watermark only (rule 48)."""

from __future__ import annotations

import random

import pytest

from quorate.chaos.models.log import log_checkers
from quorate.chaos.models.log.log_harness import (
    EVERYTHING,
    NOW_MS,
    LogHarness,
    batch,
    epochs_of,
    image_of,
    producers_of,
    read_all,
    small_config,
)
from quorate.core.ids import LeaderEpoch, Offset
from quorate.errors import OffsetOutOfRange
from quorate.storage import PartitionLog

BATCH = batch(b"x" * 60)
SIZE = len(BATCH)


async def log_of(harness: LogHarness, count: int, *, step_ms: int = 1000) -> PartitionLog:
    """One batch to a segment, of one record each, ``step_ms`` apart."""
    log = await harness.lead()
    for n in range(count):
        harness.append(batch(b"x" * 60, timestamp=NOW_MS + n * step_ms))
    assert log.segment_count == count
    return log


def one_batch_each(**changes: int) -> LogHarness:
    return LogHarness(small_config(segment_bytes=SIZE, **changes))


async def test_without_limits_nothing_is_deleted() -> None:
    harness = one_batch_each()
    log = await log_of(harness, 4)
    harness.clock.now_ms = NOW_MS * 2
    assert await log.apply_retention(below=Offset(4)) == 0


async def test_by_time_a_segment_goes_when_its_newest_record_is_too_old() -> None:
    harness = one_batch_each(retention_ms=10_000)
    log = await log_of(harness, 4)
    harness.clock.now_ms = NOW_MS + 11_000
    assert await log.apply_retention(below=Offset(4)) == 1
    harness.clock.now_ms += 1
    assert await log.apply_retention(below=Offset(4)) == 1
    assert log.log_start_offset == 2
    assert read_all(log) == b"".join(harness.files(".log").values())


async def test_a_wall_clock_that_jumps_ahead_deletes_nothing() -> None:
    await log_checkers.check_retention_when_the_wall_clock_jumps()


async def test_records_grow_old_beside_a_wall_clock_that_has_jumped() -> None:
    harness = one_batch_each(retention_ms=10_000)
    log = await log_of(harness, 4)
    harness.clock.wall_jump_ms = 7 * 86_400_000
    assert await log.apply_retention(below=Offset(4)) == 0
    harness.clock.now_ms = NOW_MS + 12_001
    assert await log.apply_retention(below=Offset(4)) == 2


@pytest.mark.parametrize("jump_ms", [-7 * 86_400_000, -3_600_000])
async def test_a_wall_clock_that_jumps_back_is_believed_by_retention(jump_ms: int) -> None:
    """The earlier time counts: records without a younger one are kept for longer."""
    harness = one_batch_each(retention_ms=10_000)
    log = await log_of(harness, 4)
    harness.clock.now_ms = NOW_MS + 100_000
    harness.clock.wall_jump_ms = jump_ms
    assert await log.apply_retention(below=Offset(4)) == 0
    harness.clock.wall_jump_ms = 0
    assert await log.apply_retention(below=Offset(4)) == 4


async def test_a_clock_that_is_slewed_is_followed() -> None:
    harness = one_batch_each(retention_ms=10_000)
    log = await log_of(harness, 4)
    for _ in range(10):
        harness.clock.now_ms += 500
        harness.clock.wall_jump_ms += 200_000
        await log.apply_retention(below=Offset(4))
    assert log.log_start_offset == 4


async def test_by_time_an_older_segment_waits_behind_a_newer_one() -> None:
    """Whole prefixes only: a gap in the middle of a log would be a lie."""
    harness = one_batch_each(retention_ms=10_000)
    log = await harness.lead()
    for timestamp in (NOW_MS + 50_000, NOW_MS, NOW_MS):
        harness.append(batch(b"x" * 60, timestamp=timestamp))
    harness.clock.now_ms = NOW_MS + 30_000
    assert await log.apply_retention(below=Offset(3)) == 0


async def test_by_time_an_out_of_order_record_protects_its_segment() -> None:
    harness = LogHarness(small_config(segment_bytes=2 * SIZE, retention_ms=10_000))
    log = await harness.lead()
    for timestamp in (NOW_MS + 50_000, NOW_MS, NOW_MS):
        harness.append(batch(b"x" * 60, timestamp=timestamp))
    assert await harness.log.close()
    log = await harness.open()
    harness.clock.now_ms = NOW_MS + 30_000
    assert await log.apply_retention(below=Offset(3)) == 0


async def test_records_without_time_never_grow_old() -> None:
    harness = one_batch_each(retention_ms=1)
    log = await harness.lead()
    harness.append(*(batch(b"x" * 60, timestamp=-1) for _ in range(3)))
    harness.clock.now_ms = NOW_MS * 2
    assert await log.apply_retention(below=Offset(3)) == 0


@pytest.mark.parametrize(
    ("retention_bytes", "left"), [(5 * SIZE, 5), (4 * SIZE, 4), (4 * SIZE - 1, 4), (3 * SIZE, 3), (0, 1)]
)
async def test_by_size_no_segment_goes_that_the_limit_still_needs(retention_bytes: int, left: int) -> None:
    harness = one_batch_each(retention_bytes=retention_bytes)
    log = await log_of(harness, 5)
    await log.apply_retention(below=Offset(5))
    if retention_bytes == 0:
        assert (log.segment_count, log.size_in_bytes) == (1, 0)
    else:
        assert log.segment_count == left
    assert log.size_in_bytes >= min(retention_bytes, 5 * SIZE)
    assert log.log_end_offset == 5
    log.validate()


@pytest.mark.parametrize("high_watermark", range(5))
async def test_nothing_at_or_above_the_high_watermark_is_deleted(high_watermark: int) -> None:
    harness = one_batch_each(retention_bytes=0)
    log = await log_of(harness, 4)
    assert await log.apply_retention(below=Offset(high_watermark)) == high_watermark
    assert log.log_start_offset == high_watermark
    assert log.log_end_offset == 4


async def test_a_segment_that_reaches_beyond_the_high_watermark_stays_whole() -> None:
    harness = LogHarness(small_config(segment_bytes=3 * SIZE, retention_bytes=0))
    log = await harness.lead()
    harness.append(*[BATCH] * 5)
    assert await log.apply_retention(below=Offset(2)) == 0
    assert await log.apply_retention(below=Offset(4)) == 1
    assert log.log_start_offset == 3


async def test_when_all_is_old_the_log_goes_on_at_its_end_with_nothing_to_read() -> None:
    harness = one_batch_each(retention_ms=0)
    log = await log_of(harness, 3)
    harness.clock.now_ms = NOW_MS + 100_000
    assert await log.apply_retention(below=Offset(3)) == 3
    assert (log.log_start_offset, log.log_end_offset, log.size_in_bytes) == (3, 3, 0)
    assert await log.apply_retention(below=Offset(3)) == 0
    harness.append(BATCH)
    await harness.crash()
    assert (harness.log.log_start_offset, harness.log.log_end_offset) == (3, 4)


async def test_deleted_offsets_are_refused_and_their_files_gone() -> None:
    harness = one_batch_each(retention_bytes=2 * SIZE)
    log = await log_of(harness, 4)
    await log.apply_retention(below=Offset(4))
    with pytest.raises(OffsetOutOfRange) as caught:
        log.read(Offset(1), bytes_max=EVERYTHING)
    assert (caught.value.facts["log_start_offset"], caught.value.facts["log_end_offset"]) == (2, 4)
    assert sorted(harness.files(".log")) == [f"{n:020d}.log" for n in (2, 3)]
    assert all(int(name[:20]) >= 2 for name in harness.files() if name[0].isdigit())


async def test_log_start_survives_crash_clean_restart_and_power_loss() -> None:
    harness = LogHarness(small_config(segment_bytes=2 * SIZE))
    log = await harness.lead()
    harness.append(*[BATCH] * 5)
    await log.advance_log_start(Offset(3))  # within a segment
    await log.flush()
    expected = image_of(log)
    assert expected.log_start_offset == 3
    for reopen in (harness.crash, harness.restart, harness.power_loss):
        await reopen()
        assert image_of(harness.log) == expected


async def test_log_start_moves_only_upwards_and_never_past_the_end() -> None:
    harness = one_batch_each()
    log = await log_of(harness, 3)
    await log.advance_log_start(Offset(2))
    await log.advance_log_start(Offset(1))
    assert log.log_start_offset == 2
    with pytest.raises(OffsetOutOfRange):
        await log.advance_log_start(Offset(4))
    assert log.log_start_offset == 2


async def test_epoch_in_force_at_the_new_start_is_kept() -> None:
    harness = one_batch_each()
    log = await harness.lead(2)
    harness.append(BATCH, BATCH)
    log.become_leader(LeaderEpoch(5))
    harness.append(BATCH, BATCH)
    await log.advance_log_start(Offset(1))
    assert epochs_of(log) == [(2, 1), (5, 2)]
    await log.advance_log_start(Offset(3))
    assert epochs_of(log) == [(5, 3)]
    await harness.crash()
    assert epochs_of(harness.log) == [(5, 3)]


async def test_producers_whose_batches_were_deleted_are_remembered_across_restarts() -> None:
    harness = LogHarness(small_config(segment_bytes=2 * SIZE))
    log = await harness.lead()
    harness.append(batch(b"x" * 60, producer=(7, 3, 0)), *[BATCH] * 4)
    expected = producers_of(log)
    await log.advance_log_start(Offset(4))
    for reopen in (harness.crash, harness.restart):
        await reopen()
        assert harness.log.log_start_offset == 4
        assert producers_of(harness.log) == expected


async def test_producers_of_deleted_batches_survive_power_loss() -> None:
    """The snapshot that is the last to tell of them is on the device before they go."""
    for seed in range(20):
        harness = LogHarness(small_config(segment_bytes=2 * SIZE))
        log = await harness.lead()
        harness.append(batch(b"x" * 60, producer=(7, 3, 0)), *[BATCH] * 4)
        expected = producers_of(log)
        await log.advance_log_start(Offset(4))
        await harness.power_loss(random.Random(seed))
        assert producers_of(harness.log) == expected


async def test_a_segment_half_deleted_by_a_crash_is_deleted_at_the_next_start() -> None:
    harness = one_batch_each()
    log = await log_of(harness, 4)
    before = harness.files(".log")
    await log.advance_log_start(Offset(2))
    zombie = harness.disk.open(harness.path(f"{1:020d}.log"), create=True)
    zombie.pwrite(before[f"{1:020d}.log"], 0)
    await harness.crash()
    assert harness.log.damage is None
    assert sorted(harness.files(".log")) == [f"{n:020d}.log" for n in (2, 3)]


async def test_a_segment_that_came_to_lie_before_the_log_start_goes_too() -> None:
    """The log start was moved to the end while the segment was still the active one."""
    harness = one_batch_each()
    log = await log_of(harness, 1)
    await log.advance_log_start(Offset(1))
    assert log.segment_count == 1
    harness.append(BATCH)
    assert log.segment_count == 2
    assert await log.apply_retention(below=Offset(2)) == 1
    assert (log.log_start_offset, log.segment_count) == (1, 1)
    assert read_all(log) == b"".join(harness.files(".log").values())


# -- how near it is


async def test_bytes_from_an_offset_on_are_what_size_counts() -> None:
    """Where as many as the limit lie behind a segment it goes: whoever has not read it loses records."""
    harness = one_batch_each(retention_bytes=2 * SIZE)
    log = await log_of(harness, 4)
    assert [log.bytes_from(Offset(each)) for each in range(5)] == [
        4 * SIZE,
        3 * SIZE,
        2 * SIZE,
        SIZE,
        0,
    ]
    assert log.expired_below(high_watermark=Offset(4)) == 2
    await log.apply_retention(below=Offset(4))
    assert log.bytes_from(Offset(2)) == log.size_in_bytes == 2 * SIZE
    with pytest.raises(OffsetOutOfRange):
        log.bytes_from(Offset(1))
    with pytest.raises(OffsetOutOfRange):
        log.bytes_from(Offset(5))


async def test_bytes_from_an_offset_within_a_segment_are_right_to_an_interval_of_the_index() -> None:
    interval = 4 * SIZE
    harness = LogHarness(small_config(segment_bytes=100 * SIZE, index_interval_bytes=interval))
    log = await harness.lead()
    for _ in range(150):
        harness.append(BATCH)
    assert log.segment_count == 2
    for offset in range(150):
        exact = (150 - offset) * SIZE
        assert exact <= log.bytes_from(Offset(offset)) <= exact + interval + SIZE
    assert log.bytes_from(Offset(150)) == 0
