"""Rule 30 through many lives: whatever a process dies of, a replica that counts has what it acknowledged."""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from quorate.broker.directory.run_notes import read_run_notes
from quorate.chaos.models.directory.broker_lives import (
    FSYNC,
    PATH,
    REPLICATED,
    BrokerLives,
    die_at,
    has_died,
)
from quorate.chaos.models.directory.directory_checkers import (
    CHECKS,
    check_random_lives,
    lacks_descriptors_from,
    one_life,
    random_lives,
    steps_of_a_start,
)
from quorate.chaos.models.log.log_harness import os_error
from quorate.chaos.sim.disk_faults import fail_path
from quorate.controller.previous_run import StartKind
from quorate.errors import TooManyOpenFiles


@pytest.mark.parametrize("after_clean_stop", [True, False], ids=["after a clean stop", "after a crash"])
@pytest.mark.parametrize("loses_power", [False, True], ids=["process dies", "machine dies"])
async def test_start_that_dies_at_any_step_hides_nothing_from_the_next(
    after_clean_stop: bool, loses_power: bool
) -> None:
    steps = await steps_of_a_start(after_clean_stop=after_clean_stop)
    assert steps > 30
    for number in range(1, steps + 1):
        lives = await one_life(after_clean_stop=after_clean_stop)
        lives.disk.fault_hook = die_at(number, written=7)
        assert await has_died(lives.start()), f"step {number} of {steps}"
        if loses_power:
            lives.lose_power()
        lives.crash()
        await lives.start()


@pytest.mark.parametrize("loses_power", [False, True], ids=["process dies", "machine dies"])
async def test_stop_that_dies_at_any_step_is_judged_by_what_it_got_done(loses_power: bool) -> None:
    lives = await one_life(after_clean_stop=False)
    await lives.start()
    before = lives.disk.operation_count
    assert await lives.stop()
    for number in range(1, lives.disk.operation_count - before + 1):
        lives = await one_life(after_clean_stop=False)
        await lives.start()
        await lives.acknowledge(2)
        lives.disk.fault_hook = die_at(number, written=7)
        assert await has_died(lives.stop())
        if loses_power:
            lives.lose_power()
        lives.crash()
        await lives.start()


@pytest.mark.parametrize("lasts_for", [1, 3, 1 << 40], ids=["once", "for a moment", "for good"])
@pytest.mark.parametrize("after_clean_stop", [True, False], ids=["after a clean stop", "after a crash"])
async def test_start_without_descriptors_gives_nothing_up(lasts_for: int, after_clean_stop: bool) -> None:
    """A moment without them is waited for. A start that comes to nothing is like a kill to the next one."""
    steps = await steps_of_a_start(after_clean_stop=after_clean_stop)
    for number in range(1, steps + 1):
        lives = await one_life(after_clean_stop=after_clean_stop)
        first = lives.disk.operation_count + number
        lives.disk.fault_hook = lacks_descriptors_from(first, lasts_for)
        with suppress(TooManyOpenFiles):
            await lives.start()
        assert lives.context.storage_error is None
        lives.crash()
        await lives.start()


async def test_start_that_gets_no_descriptor_for_a_log_ends_before_the_controller_may_know_of_it() -> None:
    lives = await one_life(after_clean_stop=True)
    before = lives.registered
    lives.disk.fault_hook = fail_path(FSYNC.directory_name, lambda: os_error(errno.EMFILE), names={"list"})
    with pytest.raises(TooManyOpenFiles, match="ulimit -n"):
        await lives.start()
    lives.crash()
    notes = read_run_notes(lives.disk, PATH)
    assert notes is not None
    assert (notes.is_clean, notes.unnoted_incarnation_ids) == (True, ())
    assert lives.registered is before
    await lives.start()
    assert lives.verdict is StartKind.CLEAN


@pytest.mark.parametrize("lasts_for", [1, 3, 1 << 40], ids=["once", "for a moment", "for good"])
async def test_stop_without_descriptors_gives_nothing_up(lasts_for: int) -> None:
    for number in range(1, 40):
        lives = await one_life(after_clean_stop=False)
        await lives.start()
        await lives.acknowledge(2)
        first = lives.disk.operation_count + number
        lives.disk.fault_hook = lacks_descriptors_from(first, lasts_for)
        await lives.stop()
        assert lives.context.storage_error is None
        lives.crash()
        await lives.start()


async def test_kill_of_a_process_gives_nothing_up() -> None:
    lives = BrokerLives()
    for _ in range(3):
        await lives.start()
        await lives.acknowledge(2)
        lives.crash()
    await lives.start()
    assert lives.verdict is StartKind.PROCESS_CRASH


async def test_clean_stop_outlives_starts_that_came_to_nothing_and_power_losses() -> None:
    """All brokers of a cluster start, and the power fails again before one of them serves."""
    steps = await steps_of_a_start(after_clean_stop=True)
    still_clean = 0
    for number in range(1, steps + 1):
        lives = await one_life(after_clean_stop=True)
        lives.disk.fault_hook = die_at(number)
        assert await has_died(lives.start())
        lives.lose_power()
        notes = read_run_notes(lives.disk, PATH)
        assert notes is not None
        await lives.start()
        assert (lives.verdict is StartKind.CLEAN) == notes.is_clean
        still_clean += notes.is_clean
    assert still_clean > steps // 3


async def test_power_loss_during_a_run_is_lossy_and_keeps_what_was_synced() -> None:
    lives = BrokerLives(seed=3)
    await lives.start()
    await lives.acknowledge(4)
    lives.lose_power()
    await lives.start()
    assert lives.verdict is StartKind.LOSSY
    assert lives.log(FSYNC).log_end_offset == 4


async def test_wiped_directory_is_a_strangers() -> None:
    lives = await one_life(after_clean_stop=True)
    lives.disk.wipe(PATH)
    lives.is_harmed = True
    await lives.start()
    assert lives.verdict is StartKind.UNKNOWN_DIRECTORY


@pytest.mark.parametrize("was_running", [True, False], ids=["of a run", "of a clean stop"])
async def test_old_copy_is_a_strangers(was_running: bool) -> None:
    lives = BrokerLives()
    await lives.start()
    await lives.acknowledge(2)
    if not was_running:
        assert await lives.stop()
    lives.crash()
    copy = lives.disk.snapshot(PATH)
    await lives.start()
    await lives.acknowledge(2)
    assert await lives.stop()
    lives.crash()
    lives.disk.restore(copy, PATH)
    lives.is_harmed = True
    await lives.start()
    assert lives.verdict is StartKind.UNKNOWN_DIRECTORY


@pytest.mark.parametrize("check", [each for each in CHECKS if each is not check_random_lives])
async def test_rule_holds(check: Callable[[], Awaitable[None]]) -> None:
    await check()


@pytest.mark.parametrize("seed", range(8))
async def test_whatever_happens_a_replica_that_counts_has_what_it_acknowledged(seed: int) -> None:
    await random_lives(seed, lives=25)


@pytest.mark.parametrize("after_clean_stop", [True, False], ids=["after a clean stop", "after a crash"])
async def test_damaged_epoch_checkpoint_is_no_trace_of_a_crash(after_clean_stop: bool) -> None:
    """It is renamed into its place, so a process leaves it whole: the page cache or the disk has failed."""
    lives = await one_life(after_clean_stop=after_clean_stop)
    lives.disk.flip_bit(f"{PATH}/{REPLICATED.directory_name}/leader-epoch-checkpoint", 400)
    lives.is_harmed = True
    await lives.start()
    assert lives.verdict is (StartKind.CLEAN if after_clean_stop else StartKind.LOSSY)
