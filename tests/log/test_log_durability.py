"""What is on the device, and when: flushes share syncs, a failed sync ends the process (rules 45 and 46)."""

from __future__ import annotations

import asyncio
import errno

import pytest

from quorate.chaos.models.log.log_harness import (
    HastyClock,
    LogHarness,
    ProcessEnded,
    batch,
    image_of,
    os_error,
    read_all,
    record_operations,
    replay,
    small_config,
)
from quorate.chaos.sim.disk_faults import Operation, fail_nth, fail_path
from quorate.core.ids import LeaderEpoch, Offset
from quorate.errors import NotLeaderOrFollower, StorageFailed, TooManyOpenFiles
from quorate.storage import StartKind

BATCH = batch(b"x" * 60)


async def leading(*, segment_bytes: int = 100_000) -> LogHarness:
    harness = LogHarness(small_config(segment_bytes=segment_bytes))
    await harness.lead(1)
    return harness


def syncs(trace: list[Operation], suffix: str = ".log") -> list[str]:
    return [op.path for op in trace if op.name == "fdatasync" and op.path.endswith(suffix)]


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_append_alone_waits_for_no_device() -> None:
    harness = await leading()
    trace = record_operations(harness.disk)
    harness.append(BATCH, BATCH)
    assert [op.name for op in trace] == ["pwritev", "pwritev"]
    assert harness.log.recovery_point == 0


async def test_flushed_batches_survive_power_loss_and_others_may_not() -> None:
    harness = await leading()
    harness.append(BATCH)
    await harness.log.flush()
    expected = image_of(harness.log)
    harness.append(BATCH)
    assert harness.log.recovery_point == 1
    await harness.power_loss()
    assert image_of(harness.log) == expected


async def test_concurrent_flushes_share_one_sync() -> None:
    harness = await leading()
    harness.append(*[BATCH] * 10)
    trace = record_operations(harness.disk)
    await asyncio.gather(*(harness.log.flush() for _ in range(50)))
    assert len(syncs(trace)) == 1
    assert harness.log.recovery_point == 10


async def test_flushes_that_come_while_a_sync_runs_share_the_next() -> None:
    harness = await leading()
    trace = record_operations(harness.disk)
    flushes = []
    for _ in range(20):
        harness.append(BATCH)
        flushes.append(asyncio.create_task(harness.log.flush()))
        await turns(1)
    await asyncio.gather(*flushes)
    assert 2 <= len(syncs(trace)) <= 12
    assert harness.log.recovery_point == 20


async def test_flush_covers_only_what_was_appended_before_it_began() -> None:
    harness = await leading()
    harness.append(BATCH)
    flush = asyncio.create_task(harness.log.flush())
    await turns(2)  # the device works
    harness.append(batch(b"late"))
    await flush
    assert harness.log.recovery_point == 1
    await harness.power_loss()
    assert harness.log.log_end_offset == 1


async def test_flush_with_nothing_to_do_touches_no_file() -> None:
    harness = await leading()
    harness.append(BATCH)
    await harness.log.flush()
    trace = record_operations(harness.disk)
    await harness.log.flush()
    assert trace == []


async def test_flush_syncs_every_segment_sealed_since_the_last_and_their_names() -> None:
    harness = await leading(segment_bytes=len(BATCH))
    harness.append(*[BATCH] * 4)
    trace = record_operations(harness.disk)
    await harness.log.flush()
    assert syncs(trace) == [harness.path(f"{n:020d}.log") for n in range(4)]
    assert trace[-1].name == "fsync_directory"
    trace.clear()
    harness.append(BATCH)
    await harness.log.flush()
    assert syncs(trace) == [harness.path(f"{n:020d}.log") for n in (3, 4)]
    expected = image_of(harness.log)
    await harness.power_loss()
    assert image_of(harness.log) == expected


async def test_new_epoch_is_on_the_device_with_the_flush_of_its_first_batch() -> None:
    leader = await leading()
    leader.append(BATCH)
    follower = LogHarness()
    await follower.open()
    follower.log.append_as_follower(read_all(leader.log))
    await follower.log.flush()
    assert follower.disk.unsynced_bytes(follower.path("leader-epoch-checkpoint")) == 0
    await follower.power_loss()
    assert image_of(follower.log) == replay(read_all(leader.log))


async def test_roll_while_a_sync_runs_is_covered_by_the_next() -> None:
    harness = await leading(segment_bytes=2 * len(BATCH))
    harness.append(BATCH)
    flush = asyncio.create_task(harness.log.flush())
    await turns(2)
    harness.append(BATCH, BATCH)  # fills the segment that is being synced, and rolls
    await flush
    assert harness.log.recovery_point == 1
    await harness.log.flush()
    expected = image_of(harness.log)
    await harness.power_loss()
    assert image_of(harness.log) == expected


async def test_caller_that_gives_up_does_not_disturb_the_others() -> None:
    harness = await leading()
    harness.append(BATCH)
    first, second = (asyncio.create_task(harness.log.flush()) for _ in range(2))
    await turns(2)
    first.cancel()
    await second
    assert harness.log.recovery_point == 1


# -- truncation


async def test_truncation_while_a_sync_runs_does_not_overstate_the_recovery_point() -> None:
    harness = await leading()
    harness.append(*[BATCH] * 5)
    flush = asyncio.create_task(harness.log.flush())
    await turns(2)
    await harness.log.truncate_to(Offset(2))
    harness.append(batch(b"other"))
    with pytest.raises(NotLeaderOrFollower):
        await flush
    assert harness.log.recovery_point == 2
    await harness.log.flush()
    assert harness.log.recovery_point == 3


@pytest.mark.parametrize("waiting_turns", range(12))
async def test_recovery_point_promises_nothing_whatever_comes_between_sync_and_truncation(
    waiting_turns: int,
) -> None:
    harness = await leading(segment_bytes=2 * len(BATCH))
    harness.append(*[BATCH] * 5)
    flush = asyncio.create_task(harness.log.flush())
    await turns(waiting_turns)
    await harness.log.truncate_to(Offset(1))
    harness.append(*[batch(b"y" * 60)] * 3)
    await asyncio.wait([flush])
    assert flush.exception() is None or isinstance(flush.exception(), NotLeaderOrFollower)
    promised = harness.log.recovery_point
    expected = read_all(harness.log)
    assert promised <= harness.log.log_end_offset
    log = await harness.power_loss()
    assert log.damage is None
    assert log.log_end_offset >= promised
    assert expected.startswith(read_all(log))


async def test_retention_while_a_sync_runs_is_no_failure() -> None:
    harness = await leading(segment_bytes=len(BATCH))
    harness.append(*[BATCH] * 6)
    flush = asyncio.create_task(harness.log.flush())
    await turns(3)
    await harness.log.advance_log_start(Offset(4))
    await flush
    assert harness.log.recovery_point == 6
    assert harness.context.storage_error is None


async def test_reset_while_a_sync_runs_starts_the_promises_anew() -> None:
    harness = await leading(segment_bytes=len(BATCH))
    harness.append(*[BATCH] * 6)
    flush = asyncio.create_task(harness.log.flush())
    await turns(3)
    await harness.log.reset_to(Offset(100))
    await asyncio.wait([flush])
    assert harness.log.recovery_point == 100
    assert harness.context.storage_error is None


# -- failure


async def test_failed_sync_ends_the_process_and_is_never_repeated() -> None:
    harness = await leading()
    harness.append(BATCH)
    harness.disk.fault_hook = fail_nth(1, os_error(errno.EIO), names={"fdatasync"})
    trace = record_operations(harness.disk)
    flushes = [asyncio.create_task(harness.log.flush()) for _ in range(5)]
    await asyncio.wait(flushes)
    assert all(isinstance(flush.exception(), ProcessEnded) for flush in flushes)
    assert len(syncs(trace)) == 1
    assert harness.log.recovery_point == 0
    assert harness.context.storage_error is not None


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EDQUOT])
async def test_log_takes_no_writes_after_a_failed_sync_whatever_the_error(number: int) -> None:
    """ENOSPC too: from a sync it says that pages are lost, not that a write was refused."""
    harness = await leading()
    harness.append(BATCH)
    harness.disk.fault_hook = fail_nth(1, os_error(number), names={"fdatasync"})
    with pytest.raises(ProcessEnded):
        await harness.log.flush()
    harness.disk.fault_hook = None
    with pytest.raises(StorageFailed):
        harness.append(BATCH)
    with pytest.raises(StorageFailed):
        await harness.log.flush()
    with pytest.raises(StorageFailed):
        await harness.log.truncate_to(Offset(0))
    assert len(read_all(harness.log)) == len(BATCH), "what is there can still be read"
    assert not await harness.log.close()


@pytest.mark.parametrize("name", ["fdatasync", "fsync_directory"])
async def test_every_sync_of_a_flush_counts(name: str) -> None:
    for number in range(1, 20):
        harness = await leading(segment_bytes=len(BATCH))
        harness.append(*[BATCH] * 3)
        harness.disk.fault_hook = fail_nth(number, os_error(errno.EIO), names={name})
        flush = asyncio.create_task(harness.log.flush())
        await asyncio.wait([flush])
        if flush.exception() is None:
            assert number > 1
            return
        assert isinstance(flush.exception(), ProcessEnded)
        assert harness.log.recovery_point == 0
    raise AssertionError("the flush never succeeded")


async def test_failed_sync_of_a_new_epoch_ends_the_process() -> None:
    harness = await leading()
    harness.log.become_leader(LeaderEpoch(2))
    harness.append(BATCH)
    # The first is the segment's.
    harness.disk.fault_hook = fail_nth(2, os_error(errno.EIO), names={"fdatasync"})
    with pytest.raises(ProcessEnded):
        await harness.log.flush()
    with pytest.raises(StorageFailed):
        harness.append(BATCH)


async def test_failed_sync_of_a_checkpoint_ends_the_process() -> None:
    """Else the replica would be unusable, and nobody would start the node again."""
    harness = await leading(segment_bytes=len(BATCH))
    harness.append(BATCH, BATCH)
    await harness.log.flush()
    harness.disk.fault_hook = fail_path("log-checkpoint", lambda: os_error(errno.EIO), names={"fdatasync"})
    with pytest.raises(ProcessEnded):
        await harness.log.checkpoint()


@pytest.mark.parametrize("name", ["fdatasync", "fsync_directory"])
async def test_every_failed_sync_of_a_start_ends_the_process(name: str) -> None:
    for number in range(1, 20):
        harness = await leading(segment_bytes=len(BATCH))
        harness.append(*[BATCH] * 3)
        harness.disk.crash()
        harness.disk.fault_hook = fail_nth(number, os_error(errno.EIO), names={name})
        try:
            await harness.open(StartKind.PROCESS_CRASH)
        except ProcessEnded:
            assert harness.context.storage_error is not None
            continue
        assert number > 1
        return
    raise AssertionError("the log never opened")


async def test_what_a_failed_sync_lost_is_not_counted_after_the_restart() -> None:
    """The page is still in the cache and marked clean; only power shows that it is not on the device."""
    harness = await leading()
    harness.append(BATCH)
    await harness.log.flush()
    expected = image_of(harness.log)
    harness.append(batch(b"lost"))
    harness.disk.fault_hook = fail_nth(1, os_error(errno.EIO), names={"fdatasync"})
    with pytest.raises(ProcessEnded):
        await harness.log.flush()
    harness.disk.fault_hook = None
    await harness.power_loss()
    assert image_of(harness.log) == expected


async def test_what_a_failed_sync_lost_is_written_again_before_it_counts() -> None:
    """A process restarts and finds the batch in the page cache, on pages that pass for clean."""
    harness = await leading()
    harness.append(BATCH)
    await harness.log.flush()
    harness.append(batch(b"precious"))
    harness.disk.fault_hook = fail_nth(1, os_error(errno.EIO), names={"fdatasync"})
    with pytest.raises(ProcessEnded):
        await harness.log.flush()
    harness.disk.fault_hook = None
    harness.disk.crash()
    await harness.open(StartKind.LOSSY)
    await harness.log.flush()
    expected = image_of(harness.log)
    assert expected.log_end_offset == 2
    await harness.power_loss()
    assert image_of(harness.log) == expected


@pytest.mark.parametrize("operation", ["open", "fsync_directory"])
async def test_a_sync_for_want_of_descriptors_is_made_up_for(operation: str) -> None:
    """The device was never asked, so nothing is lost and the process may live (rule 45)."""
    harness = LogHarness(small_config(segment_bytes=len(BATCH)))
    await harness.lead(1)
    harness.append(BATCH, BATCH, BATCH)
    harness.disk.fault_hook = fail_nth(1, os_error(errno.EMFILE), names={operation})
    with pytest.raises(TooManyOpenFiles):
        await harness.log.flush()
    harness.disk.fault_hook = None
    await harness.log.flush()
    expected = image_of(harness.log)
    await harness.power_loss()
    assert image_of(harness.log) == expected


# -- the checkpoint


def no_descriptor_to_sync_the_directory_with(harness: LogHarness) -> None:
    """The checkpoint has replaced the one before by then."""
    name = f"{harness.directory}/log-checkpoint"
    is_replaced = False

    def fail(operation: Operation) -> None:
        nonlocal is_replaced
        is_replaced |= operation.name == "rename" and operation.path.startswith(name)
        if is_replaced and operation.name == "fsync_directory":
            raise os_error(errno.EMFILE)

    harness.disk.fault_hook = fail


async def log_with_a_checkpoint_in_doubt() -> LogHarness:
    harness = LogHarness(small_config(segment_bytes=2 * len(BATCH)))
    harness.clock = HastyClock()
    await harness.lead(1)
    harness.append(*[BATCH] * 5)
    no_descriptor_to_sync_the_directory_with(harness)
    with pytest.raises(TooManyOpenFiles):
        await harness.log.checkpoint()
    harness.disk.fault_hook = None
    return harness


async def test_checkpoint_that_may_be_on_disk_is_lowered_before_the_log_is_cut() -> None:
    harness = await log_with_a_checkpoint_in_doubt()
    await harness.log.truncate_to(Offset(1))
    harness.append(BATCH)
    await harness.crash()
    assert harness.log.damage is None
    assert harness.log.log_end_offset == 2


async def test_checkpoint_that_may_be_on_disk_is_written_again_and_is_no_storage_error() -> None:
    harness = await log_with_a_checkpoint_in_doubt()
    assert harness.context.storage_error is None
    await harness.log.checkpoint()
    trace = record_operations(harness.disk)
    await harness.log.checkpoint()
    assert trace == [], "nothing is in doubt any more"
    await harness.power_loss()
    assert harness.log.opening_report.recovery_point == 5


async def test_nothing_is_appended_to_a_log_that_the_next_start_may_drop() -> None:
    """A reset has begun, as far as the page cache tells."""
    harness = LogHarness()
    harness.clock = HastyClock()
    await harness.lead(1)
    harness.append(BATCH, BATCH)
    no_descriptor_to_sync_the_directory_with(harness)
    with pytest.raises(StorageFailed):
        await harness.log.reset_to(Offset(9))
    harness.disk.fault_hook = None
    assert harness.context.storage_error is None
    with pytest.raises(StorageFailed):
        harness.append(BATCH)
    await harness.crash()
    assert (harness.log.log_start_offset, harness.log.log_end_offset) == (9, 9)


async def test_checkpoint_on_disk_never_promises_what_is_not_on_the_device() -> None:
    """After each operation of a busy life the power may fail (rule 46)."""
    for number in range(1, 200, 3):
        harness = LogHarness(small_config(segment_bytes=2 * len(BATCH)))
        await harness.lead(1)
        harness.disk.fault_hook = fail_nth(number, os_error(errno.EIO))
        try:
            for _ in range(4):
                harness.append(BATCH, BATCH)
                await harness.log.checkpoint()
                await harness.log.truncate_to(Offset(harness.log.log_end_offset - 1))
                harness.append(batch(b"y" * 60))
        except (StorageFailed, ProcessEnded):
            pass
        else:
            return
        harness.disk.fault_hook = None
        await harness.power_loss()
        assert harness.log.damage is None, f"operation {number}: {harness.log.damage}"
    raise AssertionError("it never went well")


async def test_segment_that_is_cut_and_sealed_again_during_a_sync_is_synced_again() -> None:
    harness = await leading(segment_bytes=2 * len(BATCH))
    harness.append(BATCH, BATCH, BATCH)
    assert harness.log.segment_count == 2
    path = harness.path(f"{0:020}.log")
    harness.disk.sync_delay_s = 0.05
    checkpoint = asyncio.create_task(harness.log.checkpoint())
    await turns(5)
    harness.disk.sync_delay_s = 0.0
    await harness.log.truncate_to(Offset(1))
    harness.append(BATCH, BATCH)
    assert harness.log.segment_count == 2, "the first one is sealed again"
    await checkpoint
    await harness.log.flush()
    assert harness.log.recovery_point == 3
    assert harness.disk.unsynced_bytes(path) == 0
