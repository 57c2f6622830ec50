"""Checks of rules 30 to 32 that fail when their rule is off: for the tests, and for mutants of the rules."""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from quorate.broker.directory.high_watermarks import HighWatermarkCheckpoint
from quorate.chaos.models.directory.broker_lives import FSYNC, PATH, REPLICATED, BrokerLives, die_at, has_died
from quorate.chaos.models.log.log_harness import (
    HastyClock,
    ProcessEnded,
    batch,
    make_context,
    os_error,
    small_config,
)
from quorate.chaos.sim.disk import DiskSnapshot
from quorate.chaos.sim.disk_faults import NEED_DESCRIPTORS, FaultHook, Operation, fail_nth, fail_path
from quorate.controller.previous_run import StartKind
from quorate.core.ids import Offset
from quorate.errors import StorageError
from quorate.storage import LogDirectory, PartitionKey
from quorate.storage import StartKind as LogsStart

__all__ = [
    "CHECKS",
    "check_another_file_system",
    "check_clean_stop_on_a_failing_disk",
    "check_crash_before_the_epoch_is_noted",
    "check_cut_by_a_start_that_died",
    "check_failed_sync",
    "check_full_disk",
    "check_high_watermarks_that_cannot_be_read",
    "check_kill_during_a_failing_sync",
    "check_kills_of_many_processes",
    "check_losses_after_a_clean_stop",
    "check_page_cache_lost_after_a_recovery",
    "check_page_cache_lost_during_a_recovery",
    "check_page_cache_lost_in_the_same_boot",
    "check_page_cache_lost_unnoticed",
    "check_power_loss_after_a_clean_stop",
    "check_power_loss_before_a_start_that_died",
    "check_random_lives",
    "check_start_without_descriptors",
    "lacks_descriptors_from",
    "one_life",
    "random_lives",
    "steps_of_a_start",
]

#: operations
_FOR_GOOD: Final = 1 << 40


async def one_life(*, after_clean_stop: bool) -> BrokerLives:
    """Three records in each log, and its end."""
    lives = BrokerLives()
    await lives.start()
    await lives.acknowledge(3)
    if after_clean_stop:
        assert await lives.stop()
    lives.crash()
    return lives


async def steps_of_a_start(*, after_clean_stop: bool) -> int:
    """How many operations of the disk it takes until a broker serves."""
    lives = await one_life(after_clean_stop=after_clean_stop)
    before = lives.disk.operation_count
    await lives.start()
    return lives.disk.operation_count - before


async def check_failed_sync() -> None:
    """What it has lost is still in the page cache and looks well."""
    lives = BrokerLives()
    await lives.start()
    await lives.acknowledge(2)
    lives.disk.fault_hook = fail_nth(1, os_error(errno.EIO), names={"fdatasync"})
    with suppress(ProcessEnded):
        await lives.log(REPLICATED).flush()
    lives.crash()
    lives.is_harmed = True
    await lives.start()
    assert lives.verdict is StartKind.LOSSY, f"after a failed sync the start is {lives.verdict}"


async def check_power_loss_after_a_clean_stop() -> None:
    """Of the run before: the marker does not vouch for the next one."""
    for seed in range(6):
        lives = BrokerLives(seed, hears_witness=False)
        await lives.start()
        assert await lives.stop()
        lives.crash()
        await lives.start()
        await lives.acknowledge(3)
        # Either any part of what was not synced, or all of it: then what is left is without a flaw.
        lives.lose_power(loses_all=seed == 0)
        await lives.start()
        assert lives.verdict is StartKind.LOSSY, f"after a power loss the start is {lives.verdict}"


async def check_power_loss_before_a_start_that_died() -> None:
    """A process that dies on the way is not the end that the next start has to reckon with."""
    for number in range(1, 60, 3):
        lives = BrokerLives(hears_witness=False)
        await lives.start()
        await lives.acknowledge(4)
        # All that was not synced is gone, and what is left is without a flaw.
        lives.disk.power_loss()
        lives.is_harmed = True
        registered = lives.registered
        lives.disk.fault_hook = die_at(number)
        assert await has_died(lives.start())
        lives.crash()
        if lives.registered is registered:
            await lives.start()
            assert lives.verdict is StartKind.LOSSY, f"the loss of power is forgotten: {lives.verdict}"


async def check_crash_before_the_epoch_is_noted() -> None:
    """A process registers, and dies before it can say so: only a process has died."""
    for number in range(1, await steps_of_a_start(after_clean_stop=False) + 1):
        lives = await one_life(after_clean_stop=False)
        lives.disk.fault_hook = die_at(number)
        assert await has_died(lives.start())
        lives.crash()
        await lives.start()


async def check_start_without_descriptors() -> None:
    """A moment without them is waited for; a start that never gets any comes to nothing. No log is lost."""
    for after_clean_stop in (False, True):
        steps = await steps_of_a_start(after_clean_stop=after_clean_stop)
        for number in range(1, steps + 1, 3):
            for lasts_for in (1, steps, _FOR_GOOD):
                lives = await one_life(after_clean_stop=after_clean_stop)
                first = lives.disk.operation_count + number
                lives.disk.fault_hook = lacks_descriptors_from(first, lasts_for)
                with suppress(StorageError):
                    await lives.start()
                assert lives.context.storage_error is None, f"step {number}: {lives.context.storage_error}"
                lives.crash()
                await lives.start()


def lacks_descriptors_from(first: int, lasts_for: int) -> FaultHook:
    """For so many operations, counted as the disk does."""

    def hook(operation: Operation) -> None:
        if first <= operation.number < first + lasts_for and operation.name in NEED_DESCRIPTORS:
            raise os_error(errno.EMFILE)

    return hook


async def check_high_watermarks_that_cannot_be_read() -> None:
    """They say that a log has lost its end: a start that goes on without them writes over that."""
    lives = BrokerLives()
    await lives.start()
    await lives.acknowledge(3)
    assert HighWatermarkCheckpoint(lives.disk, PATH, lives.running.logs).save({REPLICATED: Offset(3)})
    lives.crash()
    file = lives.disk.open(f"{PATH}/{REPLICATED.directory_name}/{0:020d}.log")
    file.truncate(0)
    file.close()
    lives.disk.fault_hook = fail_path("high-watermarks", lambda: os_error(errno.EIO), names={"read_file"})
    with suppress(StorageError):
        await _find_shortened(lives)
    lives.crash()
    assert await _find_shortened(lives) == [REPLICATED], "nobody knows any more what the log has held"


async def _find_shortened(lives: BrokerLives) -> list[PartitionKey]:
    """As a start does, up to when the controller knows."""
    logs = await LogDirectory.open(
        make_context(lives.disk, HastyClock()), PATH, start=LogsStart.PROCESS_CRASH
    )
    await logs.open_logs(lambda _: small_config())
    checkpoint = HighWatermarkCheckpoint(lives.disk, PATH, logs)
    await checkpoint.read()
    found = checkpoint.find_shortened()
    checkpoint.forget_shortened()
    return found


async def check_kill_during_a_failing_sync() -> None:
    """Not a line of the process runs after that: nobody notes that the sync has failed."""
    lives = await one_life(after_clean_stop=True)
    await lives.start()
    await lives.acknowledge(1)
    log = lives.log(FSYNC)
    log.append_as_leader(batch(b"not acknowledged yet"), leader_epoch=log.latest_leader_epoch)
    lives.disk.fault_hook = _fail_and_be_killed(lives)
    assert await has_died(log.flush())
    lives.crash()
    await lives.start()
    assert lives.verdict is StartKind.PROCESS_CRASH
    # A follower that names its position in a log of a synced topic, or a leader that commits.
    log = lives.log(FSYNC)
    await log.flush()
    promised = lives.acknowledged[FSYNC] = log.log_end_offset
    lives.lose_power(loses_all=True)
    await lives.start()
    # A replica that is called damaged has lost it as well.
    end = lives.log(FSYNC).log_end_offset
    assert end >= promised, f"{promised} records were acknowledged, and {end} are there"


def _fail_and_be_killed(lives: BrokerLives) -> FaultHook:
    def hook(operation: Operation) -> None:
        if operation.name == "fdatasync" and operation.path.endswith(".log"):
            # From here on the process does nothing. To the pages happens what a failed sync does.
            lives.context.on_storage_error = None
            raise os_error(errno.EIO)

    return hook


async def check_cut_by_a_start_that_died() -> None:
    """A lossy start cuts off damage and dies. The log looks like any other then."""
    for number in range(1, 80, 2):
        lives = BrokerLives()
        await lives.start()
        await lives.acknowledge(3)
        lives.lose_power()
        lives.disk.flip_bit(f"{PATH}/{FSYNC.directory_name}/{0:020d}.log", 8 * 150)
        lives.disk.fault_hook = die_at(number)
        await has_died(lives.start())
        lives.crash()
        lives.is_harmed = True
        await lives.start()


async def check_clean_stop_on_a_failing_disk() -> None:
    """Whatever fails: no stop is on record as a clean one then (rule 31)."""
    lives = await one_life(after_clean_stop=True)
    for number in range(1, 40):
        await lives.start()
        await lives.acknowledge(1)
        lives.disk.fault_hook = fail_nth(number, os_error(errno.EIO))
        is_clean = False
        with suppress(ProcessEnded):
            is_clean = await lives.stop()
        was_hit = lives.context.storage_error is not None
        lives.crash()
        lives.is_harmed = True
        await lives.start()
        assert not (was_hit and is_clean), f"operation {number} failed, and the stop is called clean"
        assert not (was_hit and lives.verdict is StartKind.CLEAN), f"operation {number}: {lives.verdict}"
        lives.crash()


async def check_full_disk() -> None:
    """Old notes must not vouch for what a process did that had no room for notes of its own."""
    for notes_with_room in range(3):
        lives = await one_life(after_clean_stop=True)
        lives.disk.fault_hook = _no_room_for_notes_after(notes_with_room)
        await lives.start()
        lives.disk.fault_hook = None
        await lives.acknowledge(3)
        lives.lose_power()
        await lives.start()
        assert lives.verdict not in (StartKind.CLEAN, StartKind.PROCESS_CRASH)


def _no_room_for_notes_after(count: int) -> FaultHook:
    written = 0

    def hook(operation: Operation) -> None:
        nonlocal written
        if operation.name == "pwrite" and "run-notes" in operation.path:
            written += 1
            if written > count:
                raise os_error(errno.ENOSPC)

    return hook


async def check_another_file_system() -> None:
    lives = await one_life(after_clean_stop=False)
    lives.disk.file_system = "another"
    lives.is_harmed = True
    await lives.start()
    assert lives.verdict is StartKind.LOSSY, f"on another file system the start is {lives.verdict}"


async def check_page_cache_lost_in_the_same_boot() -> None:
    """The process notices, and cannot say so: its note goes where its records went."""
    lives = await _running()
    lives.disk.fault_hook = _gone
    log = lives.log(REPLICATED)
    with suppress(StorageError):
        log.append_as_leader(batch(b"refused"), leader_epoch=log.latest_leader_epoch)
    assert lives.context.storage_error is not None
    lives.lose_page_cache()
    await lives.start()
    assert lives.verdict is StartKind.LOSSY, (
        f"the page cache is another one, and the start is {lives.verdict}"
    )


async def check_page_cache_lost_unnoticed() -> None:
    """Whatever the last one to look at the disk has synced, and starts that came to nothing in between."""
    for number in (None, *range(1, 60, 3)):
        lives = await _running()
        lives.lose_page_cache()
        registered = lives.registered
        if number is not None:
            lives.disk.fault_hook = die_at(number)
            await has_died(lives.start())
            lives.crash()
            lives.is_harmed = True
        if lives.registered is registered:
            await lives.start()
            assert lives.verdict is StartKind.LOSSY, f"the loss is forgotten: {lives.verdict}"


async def check_page_cache_lost_after_a_recovery() -> None:
    """All that was there was synced then: the replica counts."""
    lives = await one_life(after_clean_stop=False)
    await lives.start()
    promised = lives.log(REPLICATED).log_end_offset
    lives.lose_page_cache()
    lives.is_harmed = False
    await lives.start()
    assert lives.log(REPLICATED).log_end_offset == promised > 0


async def check_page_cache_lost_during_a_recovery() -> None:
    """After a mere crash, by a process that was about to sync what it found."""
    for number in range(1, await steps_of_a_start(after_clean_stop=False) + 1):
        lives = await one_life(after_clean_stop=False)
        lives.disk.fault_hook = die_at(number)
        assert await has_died(lives.start())
        lives.lose_page_cache()
        await lives.start()


async def check_losses_after_a_clean_stop() -> None:
    """Everything was synced: nothing that is lost later was."""
    for lose in (BrokerLives.lose_power, BrokerLives.lose_page_cache):
        lives = BrokerLives()
        await lives.start()
        await lives.acknowledge(3)
        lives.beat()
        assert await lives.stop()
        lose(lives)
        lives.is_harmed = False
        await lives.start()
        assert lives.verdict is StartKind.CLEAN


async def check_kills_of_many_processes() -> None:
    """The number goes on, however many of them there are."""
    lives = BrokerLives()
    for records in (4, 1, 0, 2):
        await lives.start()
        await lives.acknowledge(records)
        lives.crash()
    await lives.start()
    assert lives.verdict is StartKind.PROCESS_CRASH


async def _running() -> BrokerLives:
    """A clean stop long ago, some records since."""
    lives = await one_life(after_clean_stop=True)
    await lives.start()
    await lives.acknowledge(4)
    return lives


def _gone(_operation: Operation) -> None:
    raise os_error(errno.EIO)


async def check_random_lives() -> None:
    for seed in range(6):
        await random_lives(seed, lives=25)


CHECKS: Final[list[Callable[[], Awaitable[None]]]] = [
    check_failed_sync,
    check_power_loss_after_a_clean_stop,
    check_power_loss_before_a_start_that_died,
    check_crash_before_the_epoch_is_noted,
    check_start_without_descriptors,
    check_kill_during_a_failing_sync,
    check_high_watermarks_that_cannot_be_read,
    check_cut_by_a_start_that_died,
    check_clean_stop_on_a_failing_disk,
    check_full_disk,
    check_another_file_system,
    check_page_cache_lost_in_the_same_boot,
    check_page_cache_lost_unnoticed,
    check_page_cache_lost_after_a_recovery,
    check_page_cache_lost_during_a_recovery,
    check_losses_after_a_clean_stop,
    check_kills_of_many_processes,
    check_random_lives,
]


async def random_lives(seed: int, *, lives: int) -> None:
    """Starts that fail, runs, and ends of every kind, one after the other."""
    hears_witness = seed % 2 == 1
    broker = BrokerLives(seed, hears_witness=hears_witness)
    rng = broker.rng
    copies: list[DiskSnapshot] = []
    for _ in range(lives):
        if rng.random() < 0.4:
            broker.disk.fault_hook = die_at(rng.randrange(1, 70), written=rng.randrange(40))
        if await has_died(broker.start()):
            _end(broker, may_lose_page_cache=hears_witness)
            continue
        broker.disk.fault_hook = None
        await broker.acknowledge(rng.randrange(4))
        copy = broker.disk.snapshot(PATH)
        # Of this run: whoever has heard of a later number can tell it apart.
        may_tell_apart = hears_witness and rng.random() < 0.5
        if may_tell_apart:
            await broker.acknowledge(rng.randrange(4))
            await broker.tell_of_device()
        await _trouble(broker)
        if rng.random() < 0.3 and broker.context.storage_error is None:
            assert await broker.stop()
        _end(broker, may_lose_page_cache=hears_witness)
        if rng.random() < 0.1:
            copies.append(broker.disk.snapshot(PATH))
        if copies and rng.random() < 0.1:
            # One that an earlier run left.
            broker.put_back(copies.pop(0))
        elif may_tell_apart and rng.random() < 0.2:
            broker.put_back(copy)
        if rng.random() < 0.05:
            broker.wipe()


def _end(broker: BrokerLives, *, may_lose_page_cache: bool) -> None:
    fate = broker.rng.random()
    if fate < 0.3:
        broker.lose_power()
    elif fate < 0.4 and may_lose_page_cache:
        broker.lose_page_cache()
    else:
        broker.crash()


async def _trouble(broker: BrokerLives) -> None:
    """A sync that fails, sometimes, and with it the process."""
    if broker.rng.random() > 0.15:
        return
    key = broker.rng.choice([REPLICATED, FSYNC])
    broker.disk.fault_hook = fail_nth(1, os_error(errno.EIO), names={"fdatasync"})
    with suppress(StorageError, ProcessEnded):
        await broker.log(key).flush()
    broker.is_harmed |= broker.context.storage_error is not None
    broker.disk.fault_hook = None
