"""Starting: a clean stop is trusted and costs nothing, anything else is proved from the batches."""

from __future__ import annotations

import asyncio
import errno

import pytest

from quorate.chaos.models.log.log_checkers import check_mark_of_damage_after_a_power_loss
from quorate.chaos.models.log.log_harness import (
    EVERYTHING,
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
from quorate.core.disk import SyncFailed
from quorate.core.ids import LeaderEpoch, Offset, TimestampMs
from quorate.errors import DiskFull, LogClosed, LogDamaged, StorageFailed
from quorate.storage import PartitionLog, StartKind
from quorate.storage.log_context import lacks_descriptors


async def log_of(*, segment_bytes: int = 300, disk: SimDisk | None = None) -> LogHarness:
    harness = LogHarness(small_config(segment_bytes=segment_bytes), disk=disk)
    await harness.lead(1)
    for n in range(9):
        if n == 5:
            harness.log.become_leader(LeaderEpoch(2))
        harness.append(batch(b"x" * n, b"y", timestamp=NOW_MS + n, producer=(7, 0, 2 * n) if n < 8 else None))
    return harness


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


# -- damage


async def test_damage_found_by_a_read_outlives_a_restart() -> None:
    harness = await log_of()
    expected = read_all(harness.log)
    await harness.restart()
    name = sorted(harness.files(".log"))[1]
    harness.disk.flip_bit(harness.path(name), 8 * 65)
    log = harness.log
    base = int(name[:20])
    assert (
        log.read(Offset(0), bytes_max=EVERYTHING).batches
        == expected[: harness.disk.size(harness.path(f"{0:020d}.log"))]
    )
    with pytest.raises(LogDamaged) as caught:
        log.read(Offset(base), bytes_max=EVERYTHING)
    assert caught.value.facts["path"] == harness.path(name)
    assert (caught.value.facts["position"], caught.value.facts["offset"]) == (0, base)
    await assert_refuses_everything(log)
    assert not await log.close()
    for start in StartKind:
        log = await harness.open(start)
        assert log.damage is not None
        assert (log.damage.path, log.damage.position, log.damage.offset) == (harness.path(name), 0, base)
        await assert_refuses_everything(log)
        assert not await log.close()


async def test_damage_found_by_a_read_outlives_a_power_loss_below_the_recovery_point() -> None:
    """No start looks there again: without the mark, what has rotted would be trusted."""
    await check_mark_of_damage_after_a_power_loss()


async def rotten() -> LogHarness:
    harness = await log_of()
    await harness.restart()
    harness.disk.flip_bit(harness.path(f"{0:020d}.log"), 8 * 65)
    return harness


@pytest.mark.parametrize("count", [1, 2, 3])
async def test_a_mark_for_want_of_descriptors_is_made_later_and_is_no_storage_error(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = await rotten()
    lacking = list(range(count))

    def fail(operation: Operation) -> None:
        if lacking and "/damage" in operation.path and operation.name in ("open", "fdatasync"):
            lacking.pop()
            raise os_error(errno.EMFILE)

    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(harness.clock, "sleep", sleep)
    harness.disk.fault_hook = fail
    with pytest.raises(LogDamaged):
        harness.log.read(Offset(0), bytes_max=EVERYTHING)
    await harness.log.abandon()
    assert harness.context.storage_error is None
    # The first is met before there is anything to wait for.
    assert len(pauses) == count - 1
    assert (await harness.power_loss()).damage is not None


async def test_a_mark_that_cannot_be_made_in_the_end_is_a_storage_error_and_keeps_nobody_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    harness = await rotten()
    harness.disk.fault_hook = fail_path("/damage.tmp", lambda: os_error(errno.EMFILE), names=("open",))
    waited_s = 0.0

    async def sleep(seconds: float) -> None:
        nonlocal waited_s
        waited_s += seconds

    monkeypatch.setattr(harness.clock, "sleep", sleep)
    with pytest.raises(LogDamaged):
        harness.log.read(Offset(0), bytes_max=EVERYTHING)
    assert harness.context.storage_error is None
    await harness.log.abandon()
    assert harness.context.storage_error is not None
    assert waited_s <= 10.0


async def test_a_mark_that_is_there_is_synced_where_there_is_no_room_to_write_it_again() -> None:
    """The process before may have died before it synced that."""
    harness = await rotten()
    harness.disk.fault_hook = fail_nth(1, ProcessDied(), names={"fdatasync"})
    with pytest.raises(LogDamaged):
        harness.log.read(Offset(0), bytes_max=EVERYTHING)
    await asyncio.sleep(0.01)
    harness.disk.fault_hook = None
    harness.disk.crash()
    harness.disk.capacity_bytes = harness.disk.used_bytes
    log = await harness.open(StartKind.PROCESS_CRASH)
    assert log.damage is not None
    assert harness.context.storage_error is None
    await log.abandon()
    assert (await harness.power_loss()).damage is not None


async def test_a_mark_whose_sync_fails_ends_the_process() -> None:
    harness = await log_of()
    await harness.restart()
    harness.disk.flip_bit(harness.path(f"{0:020d}.log"), 8 * 65)
    harness.disk.fault_hook = fail_nth(1, os_error(errno.EIO), names={"fdatasync"})
    with pytest.raises(LogDamaged):
        harness.log.read(Offset(0), bytes_max=EVERYTHING)
    await harness.log.abandon()
    assert harness.context.storage_error is not None


async def test_a_log_that_is_reset_while_its_mark_is_being_synced_has_none_in_the_end() -> None:
    harness = await log_of()
    await harness.restart()
    harness.disk.sync_delay_s = 0.001
    harness.disk.flip_bit(harness.path(f"{0:020d}.log"), 8 * 65)
    with pytest.raises(LogDamaged):
        harness.log.read(Offset(0), bytes_max=EVERYTHING)
    await harness.log.reset_to(Offset(5))
    assert harness.log.damage is None
    log = await harness.power_loss()
    assert log.damage is None
    assert harness.context.storage_error is None


async def assert_refuses_everything(log: PartitionLog) -> None:
    with pytest.raises(LogDamaged):
        log.read(Offset(0), bytes_max=EVERYTHING)
    with pytest.raises(LogDamaged):
        log.find_timestamp(TimestampMs(0))
    with pytest.raises(LogDamaged):
        log.append_as_follower(batch())
    with pytest.raises(LogDamaged):
        log.become_leader(LeaderEpoch(99))
    for change in (
        log.truncate_to(Offset(0)),
        log.flush(),
        log.apply_retention(below=Offset(0)),
        log.advance_log_start(Offset(1)),
    ):
        with pytest.raises(LogDamaged):
            await change


async def test_damaged_log_keeps_its_files_as_they_were_found() -> None:
    harness = await log_of()
    harness.disk.flip_bit(harness.path(f"{0:020d}.log"), 8 * 65)
    before = harness.files(".log")
    await harness.crash()
    assert harness.log.damage is not None
    assert harness.files(".log") == before


async def test_quarantined_log_tells_with_all_facts_what_every_use_of_it_ends_in() -> None:
    harness = await log_of()
    assert harness.log.failure is None
    harness.disk.flip_bit(harness.path(sorted(harness.files(".log"))[-1]), 8 * 70)
    log = await harness.crash()
    with pytest.raises(LogDamaged) as raised:
        log.read(log.log_start_offset, bytes_max=1)
    assert log.failure is not None
    assert (log.failure.message, log.failure.facts) == (raised.value.message, raised.value.facts)
    assert log.failure.facts.keys() == {"path", "position", "offset", "reason"}


async def test_a_mark_that_a_process_failed_to_sync_is_written_again_by_the_next() -> None:
    """To sync it again would succeed and do nothing (rule 45)."""
    harness = await rotten()
    harness.disk.fault_hook = fail_nth(1, os_error(errno.EIO), names={"fdatasync"})
    with pytest.raises(LogDamaged):
        harness.log.read(Offset(0), bytes_max=EVERYTHING)
    await harness.log.abandon()
    assert harness.context.storage_error is not None
    harness.disk.fault_hook = None
    harness.disk.crash()
    log = await harness.open(StartKind.PROCESS_CRASH)
    assert log.damage is not None
    await log.abandon()
    assert (await harness.power_loss()).damage is not None


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_a_sync_that_says_it_lacked_descriptors_has_failed_like_any_other(number: int) -> None:
    """The device was asked: a file system that answers so has lost pages (rule 45)."""
    assert lacks_descriptors(OSError(number, "Too many open files"))
    assert not lacks_descriptors(SyncFailed(number, "Too many open files"))
