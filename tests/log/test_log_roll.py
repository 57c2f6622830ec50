"""Segments begin anew by size, by age and before relative offsets run out; a failed roll changes nothing."""

from __future__ import annotations

import asyncio
import errno

import pytest

from quorate.chaos.models.log.log_harness import (
    NOW_MS,
    LogHarness,
    batch,
    image_of,
    os_error,
    read_all,
    record_operations,
    replay,
    small_config,
    split_batches,
)
from quorate.chaos.sim.disk_faults import fail_nth
from quorate.core.ids import Offset
from quorate.errors import DiskFull, StorageError, StorageFailed
from quorate.storage import log_writer

BATCH = batch(b"x" * 60)


async def test_segment_never_grows_beyond_its_size() -> None:
    harness = LogHarness(small_config(segment_bytes=500))
    log = await harness.lead()
    for n in range(30):
        harness.append(batch(b"x" * (7 * n % 100)))
    sizes = [len(content) for content in harness.files(".log").values()]
    assert len(sizes) == log.segment_count > 5
    assert max(sizes) <= 500
    assert sum(sizes) == log.size_in_bytes


async def test_segment_is_filled_to_the_last_byte() -> None:
    harness = LogHarness(small_config(segment_bytes=3 * len(BATCH)))
    log = await harness.lead()
    harness.append(BATCH, BATCH, BATCH)
    assert log.segment_count == 1
    harness.append(BATCH)
    assert log.segment_count == 2


async def test_batch_larger_than_a_segment_gets_one_of_its_own() -> None:
    harness = LogHarness(small_config(segment_bytes=100))
    log = await harness.lead()
    harness.append(batch(b"x" * 1000), batch(b"y" * 1000), batch(b"z"))
    assert [len(split_batches(content)) for content in harness.files(".log").values()] == [1, 1, 1]
    assert image_of(log) == replay(read_all(log))


async def test_segments_are_named_by_their_first_offset() -> None:
    harness = LogHarness(small_config(segment_bytes=100))
    await harness.lead()
    harness.append(batch(b"a", b"b", b"c"), batch(b"d", b"e"), batch(b"f"))
    assert sorted(harness.files(".log")) == [f"{offset:020d}.log" for offset in (0, 3, 5)]


async def test_segment_is_sealed_when_its_first_batch_is_old_enough() -> None:
    harness = LogHarness(small_config(segment_ms=10_000, segment_bytes=100_000))
    log = await harness.lead()
    harness.append(BATCH)
    harness.clock.now_ms += 6_000
    harness.append(BATCH)
    harness.clock.now_ms += 3_999
    log.roll_if_old()
    assert log.segment_count == 1
    harness.clock.now_ms += 1
    log.roll_if_old()
    assert log.segment_count == 2
    log.roll_if_old()
    assert log.segment_count == 2


async def test_nothing_is_sealed_by_its_age_while_the_log_is_being_cut() -> None:
    harness = LogHarness(small_config(segment_ms=10_000, segment_bytes=100_000))
    log = await harness.lead()
    harness.append(BATCH, BATCH)
    harness.clock.now_ms += 10_000
    cut = asyncio.create_task(log.truncate_to(Offset(1)))
    await asyncio.sleep(0)
    assert log.is_being_cut
    log.roll_if_old()
    assert log.segment_count == 1
    await cut
    log.roll_if_old()
    assert log.segment_count == 2


async def test_empty_segment_never_grows_old() -> None:
    harness = LogHarness(small_config(segment_ms=1))
    log = await harness.lead()
    harness.clock.now_ms = NOW_MS * 2
    log.roll_if_old()
    assert log.segment_count == 1


async def test_age_of_a_segment_outlives_a_restart() -> None:
    harness = LogHarness(small_config(segment_ms=10_000, segment_bytes=100_000))
    await harness.lead()
    harness.append(BATCH)
    for reopen in (harness.restart, harness.crash):
        await reopen()
        harness.clock.now_ms += 4_000
        harness.append(BATCH)
        harness.log.roll_if_old()
        assert harness.log.segment_count == 1
    harness.clock.now_ms += 2_000
    harness.log.roll_if_old()
    assert harness.log.segment_count == 2


async def test_idle_log_rolls_too_although_nothing_was_appended_since_the_start() -> None:
    for reopen in (LogHarness.restart, LogHarness.crash):
        harness = LogHarness(small_config(segment_ms=10_000, segment_bytes=100_000))
        await harness.lead()
        harness.append(BATCH)
        before = image_of(harness.log)
        await reopen(harness)
        harness.clock.now_ms += 9_999
        harness.log.roll_if_old()
        assert harness.log.segment_count == 1
        harness.clock.now_ms += 1
        harness.log.roll_if_old()
        assert harness.log.segment_count == 2
        harness.log.validate()
        assert image_of(await harness.crash()) == before


async def test_age_of_an_idle_log_is_read_from_disk_once() -> None:
    harness = LogHarness(small_config(segment_ms=10_000))
    await harness.lead()
    harness.append(BATCH)
    await harness.restart()
    harness.log.roll_if_old()
    operations = record_operations(harness.disk)
    harness.log.roll_if_old()
    assert operations == []


async def test_segment_is_sealed_before_relative_offsets_run_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_writer, "RELATIVE_OFFSET_MAX", 9)
    harness = LogHarness(small_config(segment_bytes=100_000))
    log = await harness.lead()
    harness.append(batch(*[b"v"] * 6), batch(*[b"v"] * 4))  # relative offsets 0 to 9
    assert log.segment_count == 1
    harness.append(batch(b"v"))
    assert log.segment_count == 2
    harness.append(*(batch(*[b"v"] * 6) for _ in range(3)))
    follower = LogHarness(small_config(segment_bytes=100_000))
    await follower.open()
    follower.log.append_as_follower(read_all(log))
    assert follower.files(".log") == harness.files(".log")
    for segment in follower.log._state.segments:
        assert segment.next_offset - 1 - segment.base_offset <= 9


async def test_sealed_segment_has_its_indexes_and_the_state_of_producers_before_the_next() -> None:
    harness = LogHarness(small_config(segment_bytes=len(BATCH)))
    await harness.lead()
    harness.append(BATCH, BATCH)
    assert sorted(harness.files()) == [
        f"{0:020d}.index",
        f"{0:020d}.log",
        f"{0:020d}.timeindex",
        f"{1:020d}.log",
        f"{1:020d}.snapshot",
        "leader-epoch-checkpoint",
        "log-checkpoint",
    ]


@pytest.mark.parametrize(("number", "error"), [(errno.ENOSPC, DiskFull), (errno.EIO, StorageFailed)])
async def test_roll_that_fails_at_any_step_leaves_the_log_as_it_was(
    number: int, error: type[StorageError]
) -> None:
    async def log_that_rolls_next() -> LogHarness:
        harness = LogHarness(small_config(segment_bytes=2 * len(BATCH)))
        await harness.lead()
        harness.append(BATCH, batch(b"x" * 60, producer=(7, 0, 0)))
        return harness

    undisturbed = await log_that_rolls_next()
    before, first = image_of(undisturbed.log), undisturbed.disk.operation_count
    undisturbed.append(batch(b"y" * 60))
    steps = undisturbed.disk.operation_count - first
    assert steps > 10
    for step in range(1, steps + 1):
        harness = await log_that_rolls_next()
        harness.disk.fault_hook = fail_nth(step, os_error(number))
        with pytest.raises(error):
            harness.append(batch(b"y" * 60))
        harness.disk.fault_hook = None
        assert image_of(harness.log) == before
        if error is DiskFull:
            harness.append(batch(b"z" * 60))
            assert harness.log.log_end_offset == 3
        expected = image_of(harness.log)
        await harness.crash()
        assert image_of(harness.log) == expected, f"step {step}"


async def test_a_sealed_segment_can_be_read_while_the_next_one_is_written() -> None:
    harness = LogHarness(small_config(segment_bytes=len(BATCH)))
    log = await harness.lead()
    for n in range(5):
        harness.append(batch(b"x" * 60))
        for offset in range(n + 1):
            assert log.read(Offset(offset), bytes_max=1).next_offset == offset + 1
