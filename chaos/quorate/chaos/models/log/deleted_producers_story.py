"""Producers whose batches are deleted: a snapshot alone tells of them, and they may repeat one (rule 49).

A follower of a quiet partition lets go of all that it has, as its leader did, and the next batch begins a
segment just there: with the log start where it was, the segment before may be deleted. Until then its records
are nobody's: whatever becomes of them, it is not for them that others go (rule 44).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from quorate.chaos.models.log.log_harness import LogHarness, batch, producers_of, read_all, small_config
from quorate.chaos.sim.disk_faults import ProcessDied, fail_nth
from quorate.core.ids import LeaderEpoch, Offset
from quorate.core.records import LEADER_EPOCH_END, MAGIC_POSITION
from quorate.storage import StartKind
from quorate.storage.file_writes import sync_file
from quorate.storage.producer_snapshots import load_snapshot, sync_snapshot
from quorate.storage.steps import HEADERS_PER_STEP

__all__ = [
    "a_snapshot_that_is_needed_is_not_replaced_by_one_that_may_be_lost",
    "a_start_deletes_nothing_before_the_device_has_the_snapshot",
    "a_start_deletes_nothing_that_no_snapshot_tells_of",
    "nothing_is_cut_or_quarantined_for_what_has_expired",
    "what_was_sealed_while_the_log_start_rose_stays",
]

FEW, MANY = 4, HEADERS_PER_STEP + 1
BATCH_BYTES = len(batch(b"v"))


async def _log_of(producers: int, *, is_flushed: bool = True) -> LogHarness:
    """One batch of each, all on the device or none. A batch that is larger begins a segment."""
    harness = LogHarness(small_config(segment_bytes=64 << 10, segment_ms=1_000))
    await harness.lead(1)
    harness.append(*(batch(b"v", producer=(each, 0, 0)) for each in range(producers)))
    if is_flushed:
        await harness.log.flush()
    assert harness.log.segment_count == 1
    return harness


async def _log_that_went_on(producers: int, *, is_flushed: bool = True) -> LogHarness:
    """Behind all that it has let go of, of which no file was deleted."""
    harness = await _log_of(producers, is_flushed=is_flushed)
    await harness.log.advance_log_start(Offset(producers))
    harness.append(batch(b"x" * (64 << 10)))
    assert [each.base_offset for each in harness.log._state.segments] == [0, producers]
    return harness


def _lose_power_after_names(harness: LogHarness) -> None:
    """Names reach the device by themselves; of files those that were synced."""
    harness.disk.write_back(harness.directory)
    harness.disk.power_loss()


def _check(harness: LogHarness, producers: int, when: str) -> None:
    assert harness.log.damage is None, f"{when}: {harness.log.damage}"
    known = len(producers_of(harness.log))
    assert known == producers, (
        f"{when}: {known} of {producers} producers are known, what the others repeat is written again"
    )


async def a_start_deletes_nothing_that_no_snapshot_tells_of() -> None:
    """That of many is written later; that of few may be a name without content after a power loss."""
    harness = await _log_that_went_on(MANY)
    assert load_snapshot(harness.disk, harness.directory, Offset(MANY)) is None, "then this is no story"
    await harness.crash()
    _check(harness, MANY, "killed")
    assert harness.log.segment_count == 1, "it stays for good"
    await harness.crash()
    _check(harness, MANY, "killed again")

    harness = await _log_that_went_on(FEW)
    _lose_power_after_names(harness)
    assert harness.files(".snapshot"), "then this is no story"
    await harness.open(StartKind.LOSSY)
    _check(harness, FEW, "power lost")


async def a_start_deletes_nothing_before_the_device_has_the_snapshot() -> None:
    """It was in the page cache when the process was killed, and the power fails during the start."""

    async def start(harness: LogHarness) -> None:
        await harness.open()
        assert harness.log.segment_count == 1, "the start has deleted nothing: then this is no story"

    # Of few it is there already, of many the start makes it.
    for producers in (FEW, MANY):

        async def killed(producers: int = producers) -> LogHarness:
            harness = await _log_that_went_on(producers)
            harness.disk.crash()
            return harness

        await _lose_power_at_every_operation(producers, killed, start)


async def nothing_is_cut_or_quarantined_for_what_has_expired() -> None:
    """Its end was lost with the power, or a bit of it has rotted: what lies behind is whole and counts."""
    await _lose_the_end_of_what_has_expired()
    for start in (StartKind.PROCESS_CRASH, StartKind.LOSSY):
        for is_synced in (False, True):
            # Producers in front of a fault are known. A checksum covers all that is taken from a batch.
            await _rot(2 * BATCH_BYTES + MAGIC_POSITION, start, is_synced=is_synced, known=2)
            await _rot(2 * BATCH_BYTES + LEADER_EPOCH_END - 1, start, is_synced=is_synced, known=MANY)


async def _lose_the_end_of_what_has_expired() -> None:
    harness = await _log_that_went_on(FEW, is_flushed=False)
    await sync_file(harness.disk, harness.log._state.active.path)
    _lose_power_after_names(harness)
    assert harness.disk.size(harness.path(f"{0:020}.log")) == 0, "then this is no story"
    await harness.open(StartKind.LOSSY)
    _check_records(harness, "its end was lost")

    harness = await _log_that_went_on(FEW, is_flushed=False)
    active = harness.log._state.active
    harness.append(batch(b"x" * (64 << 10)))
    await sync_file(harness.disk, active.path)
    await sync_snapshot(harness.disk, harness.directory, active.next_offset)
    _lose_power_after_names(harness)
    await harness.open(StartKind.LOSSY)
    _check_records(harness, "its end was lost, a later snapshot was not")
    _check(harness, FEW, "a later snapshot tells of them")


async def _rot(byte: int, start: StartKind, *, is_synced: bool, known: int) -> None:
    """Of a segment below the recovery point, or above."""
    harness = await _log_that_went_on(MANY, is_flushed=is_synced)
    assert (harness.log.recovery_point > 0) == is_synced
    for segment in harness.log._state.segments:
        await sync_file(harness.disk, segment.path)
    harness.disk.flip_bit(harness.path(f"{0:020}.log"), 8 * byte)
    if start is StartKind.LOSSY:
        _lose_power_after_names(harness)
    else:
        harness.disk.crash()
    await harness.open(start)
    when = f"byte {byte} has rotted, {start.value}, is_synced={is_synced}"
    _check_records(harness, when)
    _check(harness, known, when)
    await harness.crash()
    _check_records(harness, f"{when}, killed")
    _check(harness, known, f"{when}, killed")


def _check_records(harness: LogHarness, when: str) -> None:
    log, report = harness.log, harness.log.opening_report
    assert log.damage is None, f"{when}: {log.damage}"
    assert report.cut_bytes == 0, f"{when}: {report}"
    assert log.log_end_offset == log.log_start_offset + 1, f"{when}: the log ends at {log.log_end_offset}"
    assert read_all(log), when


async def what_was_sealed_while_the_log_start_rose_stays() -> None:
    """A follower is told to let go of all that it has, and is elected meanwhile."""
    for must_cut in (False, True):
        harness = await _log_of(MANY)
        log = harness.log
        async with log._sync_state.files_lock:
            raising = asyncio.create_task(log.advance_log_start(Offset(MANY)))
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        log.become_leader(LeaderEpoch(2))
        harness.append(batch(b"x" * (64 << 10)))
        await raising
        assert log.log_start_offset == MANY
        if must_cut:
            await log.truncate_to(Offset(MANY))
        else:
            await harness.crash()
        _check(harness, MANY, "cut" if must_cut else "killed")


async def a_snapshot_that_is_needed_is_not_replaced_by_one_that_may_be_lost() -> None:
    """Retention kept one and deleted the batches; then the one that was due is written, or the log closed."""

    async def with_one_due() -> LogHarness:
        harness = await _log_that_went_on(MANY)
        await harness.log.flush()
        assert await harness.log.apply_retention(below=harness.log.log_end_offset) == 1
        assert harness.log._sync_state.is_snapshot_due, "then this is no story"
        return harness

    async def emptied() -> LogHarness:
        harness = await _log_of(FEW)
        harness.clock.now_ms += 1_000
        harness.log.roll_if_old()
        await harness.log.advance_log_start(Offset(FEW))
        assert harness.log.size_in_bytes == 0, "then this is no story"
        return harness

    async def checkpoint(harness: LogHarness) -> None:
        await harness.log.checkpoint()

    async def close(harness: LogHarness) -> None:
        assert await harness.log.close()

    await _lose_power_at_every_operation(MANY, with_one_due, checkpoint)
    await _lose_power_at_every_operation(FEW, emptied, close)


async def _lose_power_at_every_operation(
    producers: int,
    before: Callable[[], Awaitable[LogHarness]],
    work: Callable[[LogHarness], Awaitable[None]],
) -> None:
    """And once it is done."""
    is_done, number = False, 0
    while not is_done:
        number += 1
        harness = await before()
        harness.disk.fault_hook = fail_nth(number, ProcessDied())
        with suppress(ProcessDied):
            await work(harness)
            is_done = True
        harness.disk.fault_hook = None
        _lose_power_after_names(harness)
        await harness.open(StartKind.LOSSY)
        _check(harness, producers, f"power lost at operation {number} of '{work.__name__}'")
