"""Starting: a clean stop is trusted and costs nothing, anything else is proved from the batches."""

from __future__ import annotations

import asyncio
import errno

import pytest

from quorate.chaos.models.log.log_harness import (
    NOW_MS,
    LogHarness,
    ProcessEnded,
    batch,
    epochs_of,
    image_of,
    os_error,
    read_all,
    record_operations,
    replay,
    small_config,
)
from quorate.chaos.sim.disk import SimDisk
from quorate.chaos.sim.disk_faults import Operation, ProcessDied, fail_nth, fail_path
from quorate.core.ids import LeaderEpoch, Offset, TimestampMs
from quorate.errors import DiskFull, LogClosed, StorageFailed
from quorate.storage import StartKind
from tests.log.nine_batches import log_of


def content_reads(trace: list[Operation]) -> list[Operation]:
    return [
        op for op in trace if op.path.endswith(".log") and op.name in ("pread", "pread_into", "read_file")
    ]


# -- clean


async def test_clean_start_reads_no_batch() -> None:
    harness = await log_of()
    expected = image_of(harness.log)
    assert await harness.log.close()
    trace = record_operations(harness.disk)
    log = await harness.open(StartKind.CLEAN)
    assert content_reads(trace) == []
    assert not any(op.name in ("pwrite", "pwritev", "rename", "fdatasync", "open") for op in trace), trace
    assert log.opening_report.start is StartKind.CLEAN
    assert log.opening_report.scanned_bytes == 0
    assert image_of(log) == expected
    assert log.recovery_point == log.log_end_offset


async def test_any_number_of_clean_restarts_changes_nothing() -> None:
    harness = await log_of()
    expected = image_of(harness.log)
    await harness.restart()
    files = harness.files()
    for _ in range(3):
        await harness.restart()
        assert image_of(harness.log) == expected
        assert harness.files() == files


async def test_clean_start_trusts_nothing_that_says_otherwise() -> None:
    """Each of these is a reason to scan, and then the log is as it was."""
    reasons = {
        ("no checkpoint", "log-checkpoint"),
        ("damaged checkpoint", "log-checkpoint"),
        ("no epochs", "leader-epoch-checkpoint"),
        ("damaged epochs", "leader-epoch-checkpoint"),
        ("no snapshot", f"{18:020d}.snapshot"),
        ("damaged snapshot", f"{18:020d}.snapshot"),
    }
    for reason, name in sorted(reasons):
        harness = await log_of()
        expected = image_of(harness.log)
        assert await harness.log.close()
        if reason.startswith("no"):
            harness.disk.unlink(harness.path(name))
        else:
            harness.disk.flip_bit(harness.path(name), 400)
        log = await harness.open(StartKind.CLEAN)
        assert log.opening_report.start is StartKind.PROCESS_CRASH, reason
        assert image_of(log) == expected, reason


async def test_torn_bytes_behind_a_clean_end_are_noticed_by_the_length() -> None:
    harness = await log_of()
    expected = image_of(harness.log)
    assert await harness.log.close()
    last = max(harness.files(".log"))
    file = harness.disk.open(harness.path(last))
    file.pwrite(bytes(7) + b"\x12", file.size())
    log = await harness.open(StartKind.CLEAN)
    assert log.opening_report.start is StartKind.PROCESS_CRASH
    assert log.opening_report.cut_bytes == 8
    assert image_of(log) == expected


async def test_clean_stop_survives_power_loss_without_a_scan() -> None:
    harness = await log_of()
    expected = image_of(harness.log)
    assert await harness.log.close()
    harness.disk.power_loss()
    log = await harness.open(StartKind.CLEAN)
    assert image_of(log) == expected
    assert [log.find_timestamp(TimestampMs(NOW_MS + n)) for n in range(9)] == [
        (2 * n, NOW_MS + n) for n in range(9)
    ]


async def test_index_of_an_earlier_stop_never_comes_back() -> None:
    """It has a good checksum and does not know the newest records: they would be found by no time."""
    harness = LogHarness(small_config(segment_bytes=100_000))
    await harness.lead()
    harness.append(batch(timestamp=NOW_MS))
    await harness.restart()
    for name in harness.files("index"):
        await _sync(harness.disk, harness.path(name))
    harness.append(batch(timestamp=NOW_MS + 1))
    assert await harness.log.close()
    harness.disk.power_loss()
    log = await harness.open(StartKind.CLEAN)
    assert log.find_timestamp(TimestampMs(NOW_MS + 1)) == (1, NOW_MS + 1)


async def test_index_of_a_sealed_segment_is_on_the_device_before_it_is_trusted() -> None:
    harness = LogHarness(small_config(segment_bytes=200))
    await harness.lead()
    harness.append(batch(timestamp=NOW_MS))
    await harness.restart()
    for name in harness.files("index"):
        await _sync(harness.disk, harness.path(name))
    harness.append(batch(b"x" * 60, timestamp=NOW_MS + 1), batch(b"x" * 60, timestamp=NOW_MS))
    assert harness.log.segment_count == 2
    await harness.log.checkpoint()
    log = await harness.power_loss()
    assert log.find_timestamp(TimestampMs(NOW_MS + 1)) == (1, NOW_MS + 1)


async def _sync(disk: SimDisk, path: str) -> None:
    file = disk.open(path)
    await file.fdatasync()
    file.close()


async def test_log_that_was_only_read_is_closed_without_writing_indexes_anew() -> None:
    harness = await log_of()
    await harness.restart()
    trace = record_operations(harness.disk)
    assert await harness.log.close()
    assert not any("index" in op.path and op.name == "pwrite" for op in trace)


async def test_nothing_is_accepted_while_the_log_is_being_closed() -> None:
    """It would be acknowledged, and neither synced nor part of the clean end."""
    harness = await log_of()
    expected = image_of(harness.log)
    closing = asyncio.create_task(harness.log.close())
    for _ in range(30):
        await asyncio.sleep(0)
        with pytest.raises(LogClosed):
            harness.append(batch(b"late"))
    assert await closing
    harness.disk.power_loss()
    log = await harness.open(StartKind.CLEAN)
    assert log.opening_report.start is StartKind.CLEAN
    assert image_of(log) == expected


async def test_close_that_failed_is_not_a_clean_one_when_asked_again() -> None:
    harness = await log_of()
    harness.disk.fault_hook = fail_nth(1, os_error(errno.ENOSPC), names={"rename"})
    assert not await harness.log.close()
    assert not await harness.log.close()
    await harness.crash()
    await harness.log.abandon()
    assert not await harness.log.close()


# -- not clean


async def test_recovery_scans_from_the_segment_of_the_recovery_point() -> None:
    harness = await log_of()
    await harness.log.checkpoint()
    point, last = harness.log.recovery_point, harness.log._state.active
    assert point >= last.base_offset
    expected = image_of(harness.log)
    trace = record_operations(harness.disk)
    log = await harness.crash()
    assert {op.path for op in content_reads(trace)} == {last.path}
    assert log.opening_report.scanned_bytes == last.size
    assert image_of(log) == expected


async def test_recovery_point_on_disk_moves_past_sealed_segments_that_were_flushed_one_by_one() -> None:
    """As with durability=fsync, where every append is flushed."""
    harness = LogHarness(small_config(segment_bytes=200))
    await harness.lead()
    for _ in range(6):
        harness.append(batch(b"x" * 60))
        await harness.log.flush()
    await harness.log.checkpoint()
    writes = harness.disk.operation_count
    await harness.log.checkpoint()
    assert harness.disk.operation_count == writes, "nothing was sealed since"
    active = harness.log._state.active
    log = await harness.crash()
    assert log.opening_report.scanned_bytes == active.size


async def test_recovered_log_is_on_the_device_before_it_is_used() -> None:
    """Rule 30: what came from the page cache must not depend on it any more."""
    harness = await log_of()
    expected = image_of(harness.log)
    await harness.crash()
    assert harness.log.recovery_point == harness.log.log_end_offset
    await harness.power_loss()
    assert image_of(harness.log) == expected


async def test_epoch_without_batches_is_forgotten_unless_the_stop_was_clean() -> None:
    """Whoever leads next has a new epoch; a clean start has nothing to doubt."""
    harness = await log_of()
    harness.log.become_leader(LeaderEpoch(9))
    await harness.restart()
    assert epochs_of(harness.log) == [(1, 0), (2, 10), (9, 18)]
    await harness.crash()
    assert epochs_of(harness.log) == [(1, 0), (2, 10)]


async def test_batch_of_an_epoch_that_is_not_on_record_is_damage() -> None:
    """The epoch lies outside the checksum; the checkpoint, written before the batch, guards it."""
    harness = await log_of(segment_bytes=100_000)
    harness.disk.flip_bit(harness.path(f"{0:020d}.log"), 8 * 15 + 1)  # epoch 1 becomes 3
    log = await harness.crash()
    assert log.damage is not None
    assert (log.damage.position, log.damage.offset) == (0, 0)
    assert "epoch" in log.damage.reason


async def test_damaged_log_checkpoint_costs_at_most_the_log_start_within_a_segment() -> None:
    """Deleted records at the front of the first segment can be read again; nothing is missing."""
    harness = await log_of()
    await harness.log.advance_log_start(Offset(9))
    first = harness.log._state.segments[0].base_offset
    assert first < 9
    expected = image_of(harness.log)
    harness.disk.flip_bit(harness.path("log-checkpoint"), 400)
    log = await harness.crash()
    assert log.damage is None
    assert log.log_start_offset == first
    await log.advance_log_start(Offset(9))
    assert image_of(log) == expected


async def test_without_the_epoch_checkpoint_epochs_are_taken_from_the_batches() -> None:
    harness = await log_of()
    expected = image_of(harness.log)
    harness.disk.unlink(harness.path("leader-epoch-checkpoint"))
    log = await harness.crash()
    assert log.opening_report.epochs_rebuilt
    assert image_of(log) == expected


async def test_an_epoch_that_there_never_was_is_damage_although_no_checkpoint_says_so() -> None:
    """The field lies outside the checksum of a batch."""
    harness = await log_of()
    newest = harness.log.latest_leader_epoch
    harness.log.reject_epochs_beyond(newest)
    assert harness.log.damage is None
    last = harness.log._state.segments[-1]
    *_, (position, header) = last.walk(0)
    harness.disk.unlink(harness.path("leader-epoch-checkpoint"))
    harness.disk.flip_bit(last.path, 8 * (position + 14) + 7)
    log = await harness.crash()
    assert log.damage is None
    assert log.latest_leader_epoch == newest + 0x8000
    log.reject_epochs_beyond(newest)
    assert log.damage is not None
    assert (log.damage.path, log.damage.offset) == (last.path, header.base_offset)
    assert f"there has been none beyond {newest}" in log.damage.reason


async def test_missing_segments_are_damage() -> None:
    for number, expected in ((0, "before"), (1, "next segment starts"), (-1, "synced")):
        harness = await log_of()
        await harness.log.flush()
        await harness.log.checkpoint()
        segments = sorted(harness.files(".log"))
        harness.disk.crash()
        if number == 1:
            # Below the recovery point nothing is scanned: make it scan all.
            harness.disk.unlink(harness.path("log-checkpoint"))
        harness.disk.unlink(harness.path(segments[number]))
        log = await harness.open()
        assert log.damage is not None, number
        assert expected in log.damage.reason


async def test_a_log_all_of_whose_segments_are_gone_is_damaged_not_new() -> None:
    harness = await log_of()
    await harness.log.flush()
    await harness.log.checkpoint()
    harness.disk.crash()
    for name in harness.files(".log"):
        harness.disk.unlink(harness.path(name))
    for start in StartKind:
        log = await harness.open(start)
        assert log.damage is not None
        harness.disk.unlink(harness.path("damage"))


async def test_temporary_files_of_a_crash_are_removed() -> None:
    harness = await log_of()
    harness.disk.fault_hook = fail_nth(1, ProcessDied(), names={"rename"})
    with pytest.raises(ProcessDied):
        harness.log.become_leader(LeaderEpoch(5))
    harness.disk.fault_hook = None
    assert harness.files(".tmp")
    await harness.crash()
    assert not harness.files(".tmp")


async def test_files_of_others_are_left_alone() -> None:
    harness = await log_of()
    for name in ("notes.txt", "12.log", "x0000000000000000000.log", "copy.snapshot"):
        await harness.disk.write_file(harness.path(name), b"mine")
    expected = image_of(harness.log)
    await harness.crash()
    assert image_of(harness.log) == expected
    assert {"notes.txt", "12.log", "x0000000000000000000.log", "copy.snapshot"} <= set(harness.files())


async def test_power_loss_may_leave_the_log_start_behind_all_that_is_left() -> None:
    """Records before it were deleted within a segment; those behind it never reached the device."""
    harness = await log_of(segment_bytes=100_000)
    await harness.log.advance_log_start(Offset(12))
    log = await harness.power_loss()
    assert image_of(log) == replay(b"", log_start_offset=12)
    log.become_leader(LeaderEpoch(5))
    harness.append(batch())
    await harness.crash()
    assert image_of(harness.log) == replay(read_all(harness.log), log_start_offset=12)
    assert harness.log.log_end_offset == 13


@pytest.mark.parametrize("start", [StartKind.CLEAN, StartKind.PROCESS_CRASH, StartKind.LOSSY])
async def test_reset_is_finished_once_and_never_again(start: StartKind) -> None:
    harness = await log_of()
    harness.disk.fault_hook = fail_nth(2, ProcessDied(), names={"unlink"})
    with pytest.raises(ProcessDied):
        await harness.log.reset_to(Offset(30))
    harness.disk.fault_hook = None
    harness.disk.crash()
    log = await harness.open(start)
    assert image_of(log) == replay(b"", log_start_offset=30)
    log.become_leader(LeaderEpoch(5))
    harness.append(batch())
    harness.disk.crash()
    await harness.open(start)
    assert harness.log.log_end_offset == 31


async def test_log_is_not_used_while_its_checkpoint_still_tells_of_a_reset() -> None:
    """Not even on a full disk: the next start would drop what was appended since."""
    harness = await log_of()
    harness.disk.fault_hook = fail_nth(2, ProcessDied(), names={"unlink"})
    with pytest.raises(ProcessDied):
        await harness.log.reset_to(Offset(30))
    harness.disk.crash()
    harness.disk.fault_hook = fail_path("log-checkpoint", lambda: os_error(errno.ENOSPC), names={"pwrite"})
    with pytest.raises(DiskFull):
        await harness.open()


@pytest.mark.parametrize("start", [StartKind.PROCESS_CRASH, StartKind.CLEAN])
async def test_full_disk_does_not_keep_a_log_from_opening(start: StartKind) -> None:
    harness = await log_of()
    expected = image_of(harness.log)
    assert await harness.log.close()
    harness.disk.capacity_bytes = harness.disk.used_bytes
    await harness.open(start)
    assert image_of(harness.log) == expected
    assert harness.context.storage_error is None


async def test_disk_that_does_not_answer_is_a_typed_error_and_no_clean_stop() -> None:
    undisturbed = await log_of()
    undisturbed.disk.crash()
    first = undisturbed.disk.operation_count
    await undisturbed.open()
    for number in range(1, undisturbed.disk.operation_count - first + 1):
        harness = await log_of()
        harness.disk.crash()
        harness.disk.fault_hook = fail_nth(number, os_error(errno.EIO))
        with pytest.raises((StorageFailed, ProcessEnded)):
            await harness.open()
        harness.disk.fault_hook = None
        assert harness.context.storage_error is not None
