"""Checks of how an old copy of a directory is told apart (rule 30): for the tests, and for mutants of it.

Half of them ask that it is found out, the others that nobody is accused who has the directory that it had.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable
from typing import Final

from quorate.chaos.models.directory.broker_lives import FSYNC, PATH, BrokerLives, die_at, has_died
from quorate.chaos.models.log.log_harness import os_error
from quorate.chaos.sim.disk_faults import Operation, ProcessDied, fail_path
from quorate.controller.previous_run import StartKind
from quorate.storage.data_directory_files import DEVICE_WITNESS_NAME

__all__ = [
    "CHECKS",
    "ENDS",
    "check_copy_of_the_last_run",
    "check_copy_that_starts_in_vain",
    "check_kills_between_numbers",
    "check_number_that_is_lost_is_told_to_nobody",
    "check_number_whose_sync_failed",
    "check_power_losses_between_numbers",
]

#: how a run may end without a restart of its process
ENDS: Final[tuple[Callable[[BrokerLives], None], ...]] = (
    BrokerLives.crash,
    BrokerLives.lose_power,
    BrokerLives.lose_page_cache,
)


async def check_copy_of_the_last_run() -> None:
    """Whatever the run ends with, and whether or not it was stopped cleanly."""
    for end in ENDS:
        for is_stopped in (False, True):
            lives = BrokerLives()
            await lives.start()
            await lives.acknowledge(2)
            await lives.tell_of_device()
            copy = lives.disk.snapshot(PATH)
            await lives.acknowledge(2)
            await lives.tell_of_device()
            assert not is_stopped or await lives.stop()
            end(lives)
            lives.put_back(copy)
            await lives.start()
            _assert_is_found_out(lives)
            # From here on it is a directory like any other.
            await lives.acknowledge(1)
            await lives.tell_of_device()
            lives.crash()
            await lives.start()
            assert lives.verdict is StartKind.PROCESS_CRASH


async def check_copy_that_starts_in_vain() -> None:
    """A process that dies before it registers leaves the next one as much evidence as it found."""
    lives = await _life_of_a_copy()
    before = lives.disk.operation_count
    await lives.start()
    for number in range(1, lives.disk.operation_count - before + 1):
        lives = await _life_of_a_copy()
        registered = lives.registered
        lives.disk.fault_hook = die_at(number)
        await has_died(lives.start())
        lives.crash()
        if lives.registered is registered:
            await lives.start()
            _assert_is_found_out(lives)


async def _life_of_a_copy() -> BrokerLives:
    """It has ended, and its directory is an old copy."""
    lives = BrokerLives()
    await lives.start()
    copy = lives.disk.snapshot(PATH)
    await lives.acknowledge(2)
    await lives.tell_of_device()
    lives.crash()
    lives.put_back(copy)
    return lives


def _assert_is_found_out(lives: BrokerLives) -> None:
    assert lives.verdict is StartKind.UNKNOWN_DIRECTORY, f"an old copy passes for {lives.verdict}"


async def check_kills_between_numbers() -> None:
    """Numbers go on, however many processes there are, and however far each of them came."""
    lives = BrokerLives()
    for numbers in (3, 0, 1, 2):
        await lives.start()
        for _ in range(numbers):
            await lives.acknowledge(1)
            await lives.tell_of_device()
        lives.crash()
    await lives.start()
    assert lives.verdict is StartKind.PROCESS_CRASH


async def check_power_losses_between_numbers() -> None:
    """What was synced is there, and the replica of a synced topic counts; whatever the power loss tears."""
    lives = BrokerLives()
    for number in range(1, 40):
        await lives.start()
        await lives.acknowledge(1)
        await lives.tell_of_device()
        lives.disk.fault_hook = die_at(1 + number % 3, written=number)
        await has_died(lives.running.advance_device_witness())
        lives.lose_power(loses_all=number % 4 == 0)
        await lives.start()
        assert lives.verdict is StartKind.LOSSY
        assert lives.log(FSYNC).log_end_offset >= number
        lives.lose_power()


async def check_number_that_is_lost_is_told_to_nobody() -> None:
    """A heartbeat leaves while the number is being synced, and the power fails before that is done."""
    lives = BrokerLives()
    await lives.start()
    await lives.acknowledge(1)
    await lives.tell_of_device()

    def beat_and_die(operation: Operation) -> None:
        if operation.name == "fdatasync" and operation.path.endswith(DEVICE_WITNESS_NAME):
            lives.disk.fault_hook = None
            lives.beat()
            raise ProcessDied

    lives.disk.fault_hook = beat_and_die
    assert await has_died(asyncio.ensure_future(lives.running.advance_device_witness()))
    lives.lose_power(loses_all=True)
    await lives.start()
    assert lives.verdict is StartKind.LOSSY


async def check_number_whose_sync_failed() -> None:
    """It is still in the page cache, counts as clean there, and no further sync would write it."""
    lives = BrokerLives()
    await lives.start()
    await lives.acknowledge(1)
    await lives.tell_of_device()
    lives.disk.fault_hook = fail_path(DEVICE_WITNESS_NAME, lambda: os_error(errno.EIO), names={"fdatasync"})
    assert await has_died(lives.running.advance_device_witness())
    lives.crash()
    lives.is_harmed = True
    await lives.start()
    await lives.acknowledge(1)
    lives.lose_power(loses_all=True)
    await lives.start()
    assert lives.verdict is StartKind.LOSSY


CHECKS: Final[list[Callable[[], Awaitable[None]]]] = [
    check_copy_of_the_last_run,
    check_copy_that_starts_in_vain,
    check_kills_between_numbers,
    check_power_losses_between_numbers,
    check_number_that_is_lost_is_told_to_nobody,
    check_number_whose_sync_failed,
]
