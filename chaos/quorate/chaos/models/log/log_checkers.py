"""Compact checks of the storage rules, for mutants: each is quick, and fails when its rule is off.

The tests proper are more thorough; what they have in common with these is the code that judges. A
checker that finds its rule broken raises AssertionError.
"""

from __future__ import annotations

import asyncio
import errno
import random
from collections.abc import Iterable
from contextlib import suppress

from quorate.chaos.models.log.log_faults import (
    LIFE_CONFIG,
    Ledger,
    Life,
    busy_life,
    check_survivors,
    random_life,
)
from quorate.chaos.models.log.log_flips import (
    SmallLog,
    check_flip_after_crash,
    check_flip_after_stop,
    small_log,
)
from quorate.chaos.models.log.log_harness import (
    EVERYTHING,
    NOW_MS,
    LogHarness,
    ProcessEnded,
    batch,
    os_error,
    producers_of,
    read_all,
    record_operations,
    replay,
    small_config,
)
from quorate.chaos.sim.disk_faults import Operation, ProcessDied, ShortWrite, fail_nth
from quorate.core.ids import LeaderEpoch, Offset, PartitionId, TopicId, TopicName
from quorate.core.limits import DELIVERY_TIMEOUT_MS_MAX
from quorate.core.records import HEADER_BYTES, parse_header, patch_header
from quorate.errors import (
    CorruptBatch,
    DiskFull,
    DuplicateSequence,
    LogBusy,
    LogDamaged,
    OutOfOrderSequence,
    QuorateError,
    StorageError,
)
from quorate.storage import PartitionKey, PartitionLog, RecentBatches, StartKind
from quorate.storage.producer_snapshots import load_snapshot
from quorate.storage.producer_state import BATCHES_REMEMBERED, PRODUCERS_MAX, ProducerStates
from quorate.storage.steps import HEADERS_PER_STEP

__all__ = [
    "check_batches_on_receipt",
    "check_damage_above_the_recovery_point",
    "check_damage_below_the_recovery_point",
    "check_duplicates_are_told_from_gaps",
    "check_failed_append_is_undone",
    "check_failed_sync",
    "check_flush_covers_what_was_before_it",
    "check_follower_epochs",
    "check_index_files",
    "check_leader_epoch_is_on_record_before_its_first_batch",
    "check_log_start_before_deletion",
    "check_many_producers_are_remembered_while_they_may_repeat",
    "check_mark_of_damage_after_a_power_loss",
    "check_no_append_before_a_cut_that_was_asked_for",
    "check_power_loss",
    "check_power_loss_after_a_roll",
    "check_producers_after_a_truncation",
    "check_reads",
    "check_retention_below_high_watermark",
    "check_retention_when_the_wall_clock_jumps",
    "check_segment_sealed_again_during_sync",
    "check_snapshot_that_was_due_before_a_truncation",
    "check_snapshot_that_would_be_due_during_a_cut",
    "check_torn_bytes_are_cut",
    "check_truncation_and_power_loss",
    "check_truncation_during_sync",
]

BATCH = batch(b"x" * 60)
KEY = PartitionKey(TopicName("orders"), PartitionId(0), TopicId("AAAAAAAAAAAAAAAAAAAAAA"))


# -- recovery and reads


def _some_bits(small: SmallLog, suffix: str, every: int) -> Iterable[tuple[str, int]]:
    return list(small.bits(suffix))[::every]


async def check_damage_above_the_recovery_point() -> None:
    """Bits of every field of a header and of the records, after a crash."""
    small = await small_log()
    for name, bit in _some_bits(small, ".log", 5):
        await check_flip_after_crash(small, name, bit)


async def check_damage_below_the_recovery_point() -> None:
    """A tail that was synced and is torn now."""
    harness = LogHarness()
    await harness.lead()
    harness.append(BATCH, BATCH)
    assert await harness.log.close()
    harness.disk.open(harness.path(f"{0:020d}.log")).truncate(2 * len(BATCH) - 3)
    for start in (StartKind.PROCESS_CRASH, StartKind.LOSSY):
        assert (await harness.open(start)).damage is not None, f"{start}: what was synced is cut off"
        harness.disk.unlink(harness.path("damage"))


async def check_mark_of_damage_after_a_power_loss() -> None:
    """What a read has found lies where no later start looks."""
    harness = LogHarness(small_config(segment_bytes=3 * len(BATCH)))
    await harness.lead()
    harness.append(*[BATCH] * 9)
    await harness.restart()
    harness.disk.flip_bit(harness.path(f"{0:020d}.log"), 8 * 65)
    with suppress(LogDamaged):
        harness.log.read(Offset(0), bytes_max=EVERYTHING)
    assert harness.log.damage is not None, "nobody has noticed"
    await asyncio.sleep(0.01)
    assert (await harness.power_loss()).damage is not None, "the mark is gone, and the damage is not"


async def check_reads() -> None:
    small = await small_log(is_closed=True)
    for name, bit in _some_bits(small, ".log", 5):
        await check_flip_after_stop(small, name, bit, start=StartKind.CLEAN)


async def check_reads_after_a_cut() -> None:
    """What was appended last is read from memory, and is not what is there after a cut."""
    harness = LogHarness()
    harness.context.recent = RecentBatches(1 << 20)
    log = await PartitionLog.open(
        harness.context, harness.config, harness.directory, start=StartKind.PROCESS_CRASH
    )
    log.become_leader(LeaderEpoch(1))
    for value in (b"a", b"b", b"c"):
        log.append_as_leader(batch(value), leader_epoch=LeaderEpoch(1))
    await log.truncate_to(Offset(1))
    log.become_leader(LeaderEpoch(2))
    log.append_as_leader(batch(b"d", b"e"), leader_epoch=LeaderEpoch(2))
    read = log.read(Offset(2), bytes_max=1, end_offset=None).batches
    assert parse_header(read).leader_epoch == 2, "a batch is read that was cut off"


async def check_index_files() -> None:
    small = await small_log(is_closed=True)
    for name, bit in _some_bits(small, "index", 3):
        try:
            await check_flip_after_stop(small, name, bit, start=StartKind.CLEAN)
        except QuorateError as error:
            raise AssertionError(f"bit {bit} of {name} is believed: {error}") from error


async def check_batches_on_receipt() -> None:
    """Bits of the records, of a client's batch and of a leader's."""
    for bit in range(8 * HEADER_BYTES, 8 * len(BATCH), 7):
        harness = LogHarness()
        log = await harness.lead(1)
        with suppress(CorruptBatch):
            log.append_as_leader(_flipped(BATCH, bit), leader_epoch=LeaderEpoch(1))
            raise AssertionError(f"a client's batch is taken with bit {bit} flipped")
        with suppress(CorruptBatch):
            log.append_as_follower(_flipped(_stamped(0, epoch=1), bit))
            raise AssertionError(f"a leader's batch is taken with bit {bit} flipped")


def _flipped(content: bytes, bit: int) -> bytes:
    flipped = bytearray(content)
    flipped[bit // 8] ^= 1 << bit % 8
    return bytes(flipped)


# -- failing disks


async def _life_that_fails(operation: Operation, error: OSError) -> tuple[LogHarness, Ledger]:
    harness, ledger = LogHarness(LIFE_CONFIG), Ledger()
    harness.disk.fault_hook = fail_nth(operation.number, error)
    with suppress(ProcessEnded, StorageError):
        await busy_life(Life(harness, ledger))
    harness.disk.fault_hook = None
    return harness, ledger


async def _operations(*names: str) -> list[Operation]:
    harness = LogHarness(LIFE_CONFIG)
    trace = record_operations(harness.disk)
    await busy_life(Life(harness, Ledger()))
    return [operation for operation in trace if operation.name in names]


async def check_failed_append_is_undone() -> None:
    """A follower finds room for a part of a fetch: it knows the producers of that part, and of no more."""
    sent = b"".join(_stamped(offset, epoch=1, producer=(7, 0, offset)) for offset in range(1, 4))
    for written in range(0, len(sent), 45):
        harness = LogHarness(small_config(segment_bytes=100_000))
        log = await harness.open()
        log.append_as_follower(_stamped(0, epoch=1, producer=(7, 0, 0)))
        harness.disk.fault_hook = fail_nth(1, ShortWrite(errno.ENOSPC, written=written), names={"pwrite"})
        with suppress(DiskFull):
            log.append_as_follower(sent)
            raise AssertionError(f"{written} of {len(sent)} bytes fitted, and nobody was told")
        found, expected = producers_of(log), replay(read_all(log)).producers
        assert found == expected, f"{written} bytes fitted: producers {found}, the batches say {expected}"


async def check_torn_bytes_are_cut() -> None:
    """A large batch does not fit, a small one does; then the process dies."""
    for written in range(0, 500, 45):
        harness = LogHarness(small_config(segment_bytes=100_000))
        await harness.lead()
        harness.append(BATCH)
        harness.disk.fault_hook = fail_nth(1, ShortWrite(errno.ENOSPC, written=written), names={"pwritev"})
        with suppress(DiskFull):
            harness.append(batch(b"large" * 100))
        harness.append(batch(b"small"))
        expected = read_all(harness.log)
        log = await harness.crash()
        assert log.damage is None, f"{written} bytes of a refused batch are still there: {log.damage}"
        assert read_all(log) == expected


async def check_failed_sync() -> None:
    for operation in await _operations("fdatasync"):
        if operation.path.endswith(".log"):
            harness, ledger = await _life_that_fails(operation, os_error(errno.EIO))
            await harness.power_loss()
            check_survivors(harness, ledger, lost_power=True)


async def check_power_loss() -> None:
    for seed in range(12):
        rng = random.Random(seed)
        harness, ledger = LogHarness(LIFE_CONFIG), Ledger()
        await random_life(Life(harness, ledger), rng, steps=25)
        await harness.power_loss(rng)
        check_survivors(harness, ledger, lost_power=True)


async def check_power_loss_after_a_roll() -> None:
    """A flush is worth nothing for batches in a file whose name the device does not know."""
    harness = LogHarness(small_config(segment_bytes=len(BATCH)))
    log = await harness.lead(1)
    for _ in range(3):
        harness.append(BATCH)
        await log.flush()
    log = await harness.power_loss()
    assert log.log_end_offset == 3, f"3 batches were flushed, the log ends at {log.log_end_offset}"


# -- truncation


async def check_truncation_and_power_loss() -> None:
    """What was synced is cut off, other batches come in its place, and the power fails."""
    for seed in range(25):
        harness = LogHarness(small_config(segment_bytes=100_000))
        await harness.lead(1)
        harness.append(*(batch(b"old %d" % n) for n in range(6)))
        await harness.restart()
        await harness.log.truncate_to(Offset(1))
        harness.log.become_leader(LeaderEpoch(2))
        harness.append(*(batch(b"new %d" % n) for n in range(6)))
        appended = read_all(harness.log)
        log = await harness.power_loss(random.Random(seed))
        assert log.damage is None, f"seed {seed}: sound bytes are called damaged: {log.damage}"
        assert appended.startswith(read_all(log)), f"seed {seed}: old batches lie between new ones"


async def check_truncation_during_sync() -> None:
    harness = LogHarness(small_config(segment_bytes=100_000))
    await harness.lead(1)
    harness.append(*[BATCH] * 5)
    device_is_done = asyncio.Event()

    async def device_round(path: str) -> None:
        await device_is_done.wait()

    harness.disk.device_round = device_round  # type: ignore[method-assign]  # a device under control
    flush = asyncio.create_task(harness.log.flush())
    await asyncio.sleep(0)
    truncation = asyncio.create_task(harness.log.truncate_to(Offset(2)))
    while harness.log.log_end_offset != 2:  # noqa: ASYNC110  # no event tells of a cut
        await asyncio.sleep(0)
    device_is_done.set()
    await truncation
    harness.append(batch(b"other"))
    await asyncio.wait([flush])
    assert harness.log.recovery_point == 2, f"{harness.log.recovery_point} is promised, 2 are on the device"


async def check_segment_sealed_again_during_sync() -> None:
    harness = LogHarness(small_config(segment_bytes=2 * len(BATCH)))
    await harness.lead(1)
    harness.append(*[BATCH] * 3)
    harness.disk.sync_delay_s = 0.02
    sync = asyncio.create_task(harness.log.checkpoint())
    for _ in range(5):
        await asyncio.sleep(0)
    harness.disk.sync_delay_s = 0.0
    await harness.log.truncate_to(Offset(1))
    harness.append(BATCH, BATCH)
    await sync
    await harness.log.flush()
    unsynced = harness.disk.first_unsynced(harness.path(f"{0:020}.log"))
    assert unsynced is None, f"{harness.log.recovery_point} is promised, and byte {unsynced} is not synced"


async def check_flush_covers_what_was_before_it() -> None:
    harness = LogHarness()
    await harness.lead(1)
    harness.append(BATCH)
    flush = asyncio.create_task(harness.log.flush())
    for _ in range(2):
        await asyncio.sleep(0)
    harness.append(BATCH)
    await flush
    promised = harness.log.recovery_point
    log = await harness.power_loss()
    assert log.log_end_offset >= promised, f"{promised} were promised, the log ends at {log.log_end_offset}"


# -- followers


async def check_follower_epochs() -> None:
    """New epochs arrive, the disk fails, the process dies: epochs and batches never disagree."""
    for number in range(1, 12):
        for fault in (os_error(errno.ENOSPC), ProcessDied(written=len(BATCH))):
            harness = LogHarness()
            log = await harness.open()
            log.append_as_follower(_stamped(0, epoch=5))
            harness.disk.fault_hook = fail_nth(number, fault)
            try:
                log.append_as_follower(_stamped(1, epoch=6))
            except DiskFull:
                harness.disk.fault_hook = None
                # Another leader has an older batch there.
                log.append_as_follower(_stamped(1, epoch=5))
            except (ProcessDied, CorruptBatch):
                pass
            harness.disk.fault_hook = None
            log = await harness.crash()
            assert log.damage is None, f"operation {number}: sound bytes are called damaged: {log.damage}"


async def check_leader_epoch_is_on_record_before_its_first_batch() -> None:
    """The process dies at any step from the election to the first batch."""
    for number in range(1, 12):
        harness = LogHarness()
        await harness.lead(5)
        harness.append(BATCH)
        await harness.restart()
        harness.disk.fault_hook = fail_nth(number, ProcessDied(written=len(BATCH)))
        with suppress(ProcessDied):
            harness.log.become_leader(LeaderEpoch(6))
            harness.append(BATCH)
        harness.disk.fault_hook = None
        log = await harness.crash()
        assert log.damage is None, f"operation {number}: sound bytes are called damaged: {log.damage}"


async def check_no_append_before_a_cut_that_was_asked_for() -> None:
    """A follower was told to cut its log, and is elected before the cut has begun."""
    harness = LogHarness()
    await harness.lead(1)
    harness.append(*[BATCH] * 5)
    truncation = asyncio.create_task(harness.log.truncate_to(Offset(2)))
    await asyncio.sleep(0)
    appended = Offset(0)
    with suppress(LogBusy):
        harness.log.become_leader(LeaderEpoch(2))
        appended = harness.log.append_as_leader(BATCH, leader_epoch=LeaderEpoch(2)).base_offset
    await truncation
    assert appended < harness.log.log_end_offset, f"what a leader appended at {appended} was cut off"


def _stamped(offset: int, *, epoch: int, producer: tuple[int, int, int] | None = None) -> bytes:
    stamped = bytearray(batch(b"x" * 60, producer=producer))
    patch_header(stamped, 0, base_offset=offset, leader_epoch=epoch)
    return bytes(stamped)


# -- retention


async def check_retention_below_high_watermark() -> None:
    harness = LogHarness(small_config(segment_bytes=len(BATCH), retention_bytes=0))
    log = await harness.lead()
    harness.append(*[BATCH] * 4)
    await log.apply_retention(below=Offset(2))
    assert log.log_start_offset <= 2, f"the log starts at {log.log_start_offset}, behind the high watermark"


async def check_retention_when_the_wall_clock_jumps() -> None:
    """Ahead by a month: what was written a moment ago is still there."""
    harness = LogHarness(small_config(segment_bytes=len(BATCH), retention_ms=86_400_000))
    log = await harness.lead()
    harness.append(*[BATCH] * 4)
    harness.clock.now_ms += 1000
    harness.clock.wall_jump_ms = 30 * 86_400_000
    await log.apply_retention(below=Offset(4))
    assert log.log_start_offset == 0, "deleted because of a clock"


async def check_log_start_before_deletion() -> None:
    for number in range(1, 40):
        harness = LogHarness(small_config(segment_bytes=len(BATCH)))
        log = await harness.lead()
        harness.append(*[BATCH] * 4)
        harness.disk.fault_hook = fail_nth(number, ProcessDied())
        try:
            await log.advance_log_start(Offset(3))
        except ProcessDied:
            harness.disk.fault_hook = None
            log = await harness.crash()
            assert log.damage is None, f"operation {number}: a deletion under way passes for damage"
        else:
            return


# -- producers


async def check_duplicates_are_told_from_gaps() -> None:
    """Rules 50 and 51: a client that hears "out of order" begins anew, and writes the record once more."""
    harness = LogHarness(small_config())
    log = await harness.lead()
    numbered = [batch(b"%d" % number, producer=(7, 0, number)) for number in range(BATCHES_REMEMBERED + 1)]
    harness.append(*numbered)
    told = 0
    try:
        for offset, again in enumerate(numbered[1:], start=1):
            appended = log.append_as_leader(again, leader_epoch=log.latest_leader_epoch)
            assert appended.is_duplicate, f"sequence {offset} was written again, at {appended.base_offset}"
            assert appended.base_offset == offset, (
                f"sequence {offset} is said to be at {appended.base_offset}"
            )
            told += 1
        log.append_as_leader(numbered[0], leader_epoch=log.latest_leader_epoch)
    except DuplicateSequence:
        assert told == BATCHES_REMEMBERED, f"of sequence {told + 1} nobody knows any more where it is"
        return
    except OutOfOrderSequence as error:
        raise AssertionError(f"what was written before is out of order: {error}") from None
    raise AssertionError("what is no longer remembered was written again")


async def check_many_producers_are_remembered_while_they_may_repeat() -> None:
    """Rule 50: there is no room for so many in the long run, and each may send its batch again."""
    states, first = ProducerStates(), parse_header(batch(b"v", producer=(0, 0, 0)))
    states.apply(first, Offset(0))
    for number in range(1, PRODUCERS_MAX):
        states.apply(parse_header(batch(b"v", producer=(number, 0, 0))), Offset(number))
    day_s, tries_s = 86_400.0, DELIVERY_TIMEOUT_MS_MAX / 1000
    for now_s in (0.0, tries_s / 2, tries_s):
        states.expire(now_s=now_s, wall_ms=NOW_MS, after_s=day_s)
    assert states.check(first) is not None, "a batch that is sent again would be written again"
    states.expire(now_s=3 * tries_s, wall_ms=NOW_MS, after_s=day_s)
    assert len(states) == PRODUCERS_MAX // 2, "those that are silent for so long have to make room"


async def check_snapshot_that_was_due_before_a_truncation() -> None:
    """Rule 49: it is of many, and written later: by then other batches may lie before its offset."""
    harness = LogHarness(small_config(segment_bytes=64 << 10))
    log = await harness.lead()
    producer = 0
    while len(log._state.segments) < 3:
        harness.append(batch(b"v", producer=(producer, 0, 0)))
        producer += 1
    rolled_at = log._state.active.base_offset
    assert rolled_at > HEADERS_PER_STEP, "of few producers it is written at once: then this is no story"
    await log.truncate_to(Offset(rolled_at - 1))
    assert log._sync_state.is_checkpoint_due
    await log.checkpoint()
    left = load_snapshot(harness.disk, harness.directory, rolled_at)
    assert left is None, f"a snapshot at {rolled_at} tells of what was cut off at {rolled_at - 1}"


async def check_snapshot_that_would_be_due_during_a_cut() -> None:
    """Rule 49: a cut that was asked for waits for retention, which seals what is going to be dropped."""
    harness = LogHarness(small_config(segment_bytes=64 << 10, retention_ms=1000))
    log = await harness.lead(1)
    for producer in range(HEADERS_PER_STEP + 1):
        harness.append(batch(b"v", producer=(producer, 0, 0)))
    assert log.segment_count == 1
    old_end = log.log_end_offset
    harness.clock.now_ms += 1001
    async with log._sync_state.files_lock:
        retention = asyncio.create_task(log.apply_retention(below=old_end))
        await asyncio.sleep(0)
        cut = asyncio.create_task(log.reset_to(Offset(0)))
        await asyncio.sleep(0)
    assert await retention == 1, "retention did not seal the log's only segment: then this is no story"
    await cut
    log.become_leader(LeaderEpoch(2))
    while log.segment_count < 2:
        harness.append(batch(b"v" * 10_000))
    await log.checkpoint()
    left = load_snapshot(harness.disk, harness.directory, old_end)
    assert left is None, f"a snapshot at {old_end} tells of what was dropped by a reset"


async def check_producers_after_a_truncation() -> None:
    """Rule 49: whose batches were cut off may send them again; whose are there may not."""
    harness = LogHarness(small_config())
    log = await harness.lead(1)
    numbered = [batch(b"%d" % number, producer=(7, 0, number)) for number in range(4)]
    harness.append(*numbered)
    await log.truncate_to(Offset(2))
    log.become_leader(LeaderEpoch(2))
    for sequence, again in enumerate(numbered):
        appended = log.append_as_leader(again, leader_epoch=LeaderEpoch(2))
        assert appended.is_duplicate == (sequence < 2), (
            f"sequence {sequence} is said to be at {appended.base_offset}, and the log was cut at 2"
        )
