"""A log in which damage was found serves nothing, and a mark says so to every process that comes after."""

from __future__ import annotations

import asyncio
import errno

import pytest

from quorate.chaos.models.log.log_checkers import check_mark_of_damage_after_a_power_loss
from quorate.chaos.models.log.log_harness import (
    EVERYTHING,
    LogHarness,
    batch,
    os_error,
    read_all,
    record_operations,
)
from quorate.chaos.sim.disk_faults import Operation, ProcessDied, fail_nth, fail_path
from quorate.core.disk import SyncFailed, lacks_descriptors
from quorate.core.ids import LeaderEpoch, Offset, TimestampMs
from quorate.errors import LogDamaged
from quorate.storage import PartitionLog, StartKind
from tests.log.nine_batches import log_of


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
    trace = record_operations(harness.disk)
    with pytest.raises(LogDamaged):
        harness.log.read(Offset(0), bytes_max=EVERYTHING)
    # So far does the task of the mark get by itself: it opens it, and dies in its sync.
    for _ in range(3):
        await asyncio.sleep(0)
    assert trace[-1].name == "fdatasync"
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
