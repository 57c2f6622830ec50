"""Cutting the end of a log off, and starting anew; what is left equals the replay of its batches."""

from __future__ import annotations

import itertools
import random

import pytest

from quorate.chaos.models.log.log_harness import (
    EVERYTHING,
    NOW_MS,
    LogHarness,
    batch,
    epochs_of,
    image_of,
    producers_of,
    read_all,
    record_operations,
    replay,
    small_config,
    split_batches,
)
from quorate.chaos.sim.disk import SimDisk
from quorate.chaos.sim.disk_faults import ProcessDied, fail_nth
from quorate.core.ids import LeaderEpoch, Offset, TimestampMs
from quorate.core.records import patch_header
from quorate.errors import LogDamaged, OffsetOutOfRange
from quorate.storage import StartKind

COUNTS = (1, 3, 1, 5, 2, 1, 8, 1, 1, 4)
ENDS = list(itertools.accumulate(COUNTS, initial=0))


async def log_of(segment_bytes: int, *, disk: SimDisk | None = None) -> LogHarness:
    """Ten batches in three epochs, with two idempotent producers."""
    harness = LogHarness(small_config(segment_bytes=segment_bytes), disk=disk)
    await harness.lead(1)
    sequences = {7: 0, 8: 0}
    for n, count in enumerate(COUNTS):
        if n in (3, 6):
            harness.log.become_leader(LeaderEpoch(n))
        producer_id = 7 + n % 2
        producer = (producer_id, 0, sequences[producer_id]) if n % 3 else None
        if producer:
            sequences[producer_id] += count
        harness.append(batch(*[b"v"] * count, timestamp=NOW_MS + 10 * n, producer=producer))
    return harness


@pytest.mark.parametrize("segment_bytes", [100, 300, 100_000])
async def test_truncation_drops_every_batch_that_does_not_end_before_the_offset(segment_bytes: int) -> None:
    for offset in range(ENDS[-1] + 3):
        harness = await log_of(segment_bytes)
        log = harness.log
        whole = split_batches(read_all(log))
        kept = sum(1 for end in ENDS[1:] if end <= offset)
        await log.truncate_to(Offset(offset))
        expected = replay(b"".join(whole[:kept]))
        assert image_of(log) == expected
        await harness.crash()
        assert image_of(harness.log) == expected


@pytest.mark.parametrize("segment_bytes", [100, 300, 100_000])
async def test_log_goes_on_after_truncation_as_if_the_rest_had_never_been(segment_bytes: int) -> None:
    for offset in (0, 1, 4, 5, 9, 12, 20, 21):
        harness = await log_of(segment_bytes)
        await harness.log.truncate_to(Offset(offset))
        harness.log.become_leader(LeaderEpoch(20))
        harness.append(batch(b"new", producer=(9, 0, 0)), batch(b"newer"))
        expected = image_of(harness.log)
        assert expected == replay(expected.batches)
        for reopen in (harness.crash, harness.restart, harness.crash):
            await reopen()
            assert image_of(harness.log) == expected
        sizes = {name: len(content) for name, content in harness.files(".log").items()}
        assert sum(sizes.values()) == harness.log.size_in_bytes


@pytest.mark.parametrize("reopen", ["crash", "restart"])
async def test_truncation_of_a_log_that_was_just_opened(reopen: str) -> None:
    for offset in (0, 2, 9, 21, 27):
        harness = await log_of(300)
        whole = split_batches(read_all(harness.log))
        await getattr(harness, reopen)()
        await harness.log.truncate_to(Offset(offset))
        kept = sum(1 for end in ENDS[1:] if end <= offset)
        assert image_of(harness.log) == replay(b"".join(whole[:kept]))


async def test_indexes_after_truncation_are_those_of_a_log_that_was_never_longer() -> None:
    harness = await log_of(300)
    await harness.log.truncate_to(Offset(12))
    short = LogHarness(small_config(segment_bytes=300))
    await short.open()
    short.log.append_as_follower(read_all(harness.log))
    assert await harness.log.close()
    assert await short.log.close()
    for suffix in (".log", ".index", ".timeindex"):
        assert harness.files(suffix) == short.files(suffix)


async def test_truncation_at_the_end_removes_an_epoch_without_batches() -> None:
    harness = await log_of(300)
    log = harness.log
    before = image_of(log)
    log.become_leader(LeaderEpoch(9))
    assert epochs_of(log)[-1] == (9, ENDS[-1])
    await log.truncate_to(log.log_end_offset)
    assert image_of(log) == before
    await harness.restart()
    assert image_of(harness.log) == before


async def test_truncation_before_the_log_start_is_refused() -> None:
    harness = await log_of(300)
    await harness.log.advance_log_start(Offset(9))
    with pytest.raises(OffsetOutOfRange):
        await harness.log.truncate_to(Offset(8))
    assert harness.log.log_end_offset == ENDS[-1]


async def test_truncation_within_the_batch_of_the_log_start_moves_that_back_too() -> None:
    """Else the next batch there would be acknowledged and lie before the log start."""
    harness = await log_of(100_000)
    await harness.log.advance_log_start(Offset(14))
    await harness.log.truncate_to(Offset(16))
    assert (harness.log.log_start_offset, harness.log.log_end_offset) == (13, 13)
    harness.log.become_leader(LeaderEpoch(9))
    harness.append(batch(b"new"))
    await harness.log.flush()
    for reopen in (harness.crash, harness.restart, harness.power_loss):
        await reopen()
        assert (harness.log.log_start_offset, harness.log.log_end_offset) == (13, 14)


async def test_recovery_point_on_disk_is_lowered_before_anything_is_cut() -> None:
    """Else a power loss would make the next start trust batches that were never synced (rule 46)."""
    harness = await log_of(300)
    assert await harness.log.close()
    await harness.open(StartKind.CLEAN)
    assert harness.log.recovery_point == ENDS[-1]
    trace = record_operations(harness.disk)
    await harness.log.truncate_to(Offset(10))
    assert harness.log.recovery_point == 10
    checkpointed = next(op.number for op in trace if op.name == "rename" and "log-checkpoint" in op.path)
    synced = next(op.number for op in trace if op.name == "fsync_directory" and op.number > checkpointed)
    changed = [op.number for op in trace if op.path.endswith(".log") and op.name in ("truncate", "unlink")]
    assert checkpointed < synced < min(changed)


async def test_truncation_is_on_the_device_when_it_returns() -> None:
    harness = await log_of(100_000)
    await harness.log.flush()
    await harness.log.truncate_to(Offset(9))
    expected = image_of(harness.log)
    await harness.power_loss()
    assert image_of(harness.log) == expected


async def test_power_loss_never_mixes_what_was_cut_off_with_what_came_in_its_place() -> None:
    """Old and new batches of one size: any mixture of both would be a chain without a flaw."""
    for seed in range(60):
        harness = LogHarness(small_config(segment_bytes=100_000))
        log = await harness.lead(3)
        harness.append(batch(b"common"))
        harness.append(*(batch(b"old %d" % n) for n in range(6)))
        await log.flush()
        await log.truncate_to(Offset(1))
        log.become_leader(LeaderEpoch(4))
        harness.append(*(batch(b"new %d" % n) for n in range(6)))
        appended = read_all(log)
        await harness.power_loss(random.Random(seed))
        assert harness.log.damage is None
        assert appended.startswith(read_all(harness.log)), f"seed {seed}"


async def test_snapshot_of_what_was_cut_off_never_comes_back() -> None:
    leader = LogHarness(small_config(segment_bytes=100_000))
    await leader.lead(3)
    leader.append(batch(b"x" * 60, producer=(7, 0, 0)))
    leader.log.become_leader(LeaderEpoch(4))
    leader.append(*(batch(b"y" * 60, producer=(8, 0, n)) for n in range(4)))
    for seed in range(40):
        harness = LogHarness(small_config(segment_bytes=300))
        log = await harness.lead(3)
        harness.append(*(batch(b"x" * 60, producer=(7, 0, n)) for n in range(4)))
        await log.flush()
        await log.truncate_to(Offset(1))
        log.append_as_follower(leader.log.read(Offset(1), bytes_max=EVERYTHING).batches)
        await harness.power_loss(random.Random(seed))
        for offset in range(harness.log.log_end_offset, 0, -1):
            await harness.log.truncate_to(Offset(offset))
            assert image_of(harness.log) == replay(read_all(harness.log)), f"seed {seed}, offset {offset}"


async def test_producers_of_batches_that_were_cut_off_may_send_them_again() -> None:
    harness = LogHarness(small_config(segment_bytes=150))
    await harness.lead()
    harness.append(*(batch(b"x" * 60, producer=(7, 0, n)) for n in range(6)))
    await harness.log.truncate_to(Offset(3))
    assert producers_of(harness.log)[7].batches[-1][3] == 2
    harness.append(*(batch(b"x" * 60, producer=(7, 0, n)) for n in range(3, 6)))
    assert harness.log.log_end_offset == 6


async def test_time_lookup_forgets_what_was_cut_off() -> None:
    harness = await log_of(300)
    newest = TimestampMs(NOW_MS + 90)
    assert harness.log.find_timestamp(newest) is not None
    await harness.log.truncate_to(Offset(9))
    assert harness.log.find_timestamp(newest) is None
    assert harness.log.find_timestamp(TimestampMs(NOW_MS + 20)) is not None


# -- reset


@pytest.mark.parametrize("offset", [0, 5, 1000])
async def test_reset_forgets_everything_and_starts_at_the_offset(offset: int) -> None:
    harness = await log_of(300)
    await harness.log.reset_to(Offset(offset))
    empty = replay(b"", log_start_offset=offset)
    assert image_of(harness.log) == empty
    assert sorted(harness.files()) == [f"{offset:020d}.log", "log-checkpoint"]
    for reopen in (harness.crash, harness.restart, harness.power_loss):
        await reopen()
        assert image_of(harness.log) == empty
    copied = bytearray(batch(b"v"))
    patch_header(copied, 0, base_offset=offset, leader_epoch=2)
    harness.log.append_as_follower(copied)
    expected = replay(bytes(copied), log_start_offset=offset)
    for reopen in (harness.crash, harness.restart):
        await reopen()
        assert image_of(harness.log) == expected


async def test_reset_that_a_power_loss_interrupts_is_finished_or_never_began() -> None:
    for number in range(1, 80):
        harness = await log_of(300)
        await harness.log.flush()
        before = image_of(harness.log)
        rng = random.Random(number)
        is_done = await _die_during_reset(harness, number)
        harness.disk.power_loss(rng)
        await harness.open(StartKind.LOSSY)
        found = image_of(harness.log)
        assert found in (before, replay(b"", log_start_offset=50)), f"operation {number}"
        if is_done:
            assert found.log_start_offset == 50
            return
    raise AssertionError("the reset never ended")


async def _die_during_reset(harness: LogHarness, number: int) -> bool:
    harness.disk.fault_hook = fail_nth(number, ProcessDied())
    try:
        await harness.log.reset_to(Offset(50))
    except ProcessDied:
        return False
    finally:
        harness.disk.fault_hook = None
    return True


async def test_reset_makes_a_damaged_log_usable_again() -> None:
    harness = await log_of(300)
    harness.disk.flip_bit(harness.path(f"{0:020d}.log"), 8 * 70)
    await harness.crash()
    assert harness.log.damage is not None
    with pytest.raises(LogDamaged):
        harness.log.read(Offset(0), bytes_max=EVERYTHING)
    await harness.log.reset_to(Offset(40))
    assert harness.log.damage is None
    harness.log.become_leader(LeaderEpoch(30))
    harness.append(batch(b"v"))
    for reopen in (harness.crash, harness.restart):
        await reopen()
        assert harness.log.damage is None
        assert (harness.log.log_start_offset, harness.log.log_end_offset) == (40, 41)
