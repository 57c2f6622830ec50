"""The device witness: a number that is on the device before anybody is told of it (rule 30)."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable

import pytest

from quorate.broker.directory.device_witness import NONE_FOUND, DeviceWitness
from quorate.chaos.models.directory.broker_lives import PATH, BrokerLives, open_in
from quorate.chaos.models.directory.old_copy_checkers import CHECKS
from quorate.chaos.models.log.log_harness import ProcessEnded, make_context, os_error, small_config
from quorate.chaos.sim.disk import SimDisk
from quorate.chaos.sim.disk_faults import Operation, ProcessDied, fail_nth
from quorate.controller.previous_run import StartKind
from quorate.core.disk import SyncFailed
from quorate.storage import LogContext
from quorate.storage.file_writes import make_durable_directory

FILE = f"{PATH}/device-witness"


async def a_disk(*, sync_delay_s: float = 0.0) -> SimDisk:
    disk = SimDisk(sync_delay_s=sync_delay_s)
    await make_durable_directory(disk, PATH)
    return disk


async def begun(disk: SimDisk, context: LogContext | None = None) -> DeviceWitness:
    witness = DeviceWitness(context or make_context(disk), PATH)
    await witness.begin()
    return witness


async def advanced(witness: DeviceWitness) -> int | None:
    await witness.advance()
    return witness.number


async def test_number_goes_on_where_the_process_before_has_ended() -> None:
    disk = await a_disk()
    witness = await begun(disk)
    assert (witness.found, witness.number) == (NONE_FOUND, None)
    assert [await advanced(witness) for _ in range(3)] == [1, 2, 3]
    disk.crash()
    witness = await begun(disk)
    assert (witness.found, witness.number) == (3, 3)
    assert await advanced(witness) == 4


async def test_number_that_was_told_outlives_every_loss_of_power() -> None:
    disk = await a_disk()
    for number in range(1, 8):
        witness = await begun(disk)
        assert await advanced(witness) == number
        disk.power_loss()


async def test_number_is_told_only_after_its_sync() -> None:
    disk = await a_disk(sync_delay_s=0.01)
    witness = await begun(disk)
    advancing = asyncio.create_task(witness.advance())
    await asyncio.sleep(0.001)
    assert disk.unsynced_bytes(FILE)
    assert witness.number is None
    # Whoever asks meanwhile waits for the same one.
    await witness.advance()
    assert witness.number == 1
    await advancing
    assert witness.number == 1


async def test_a_caller_that_gives_up_does_not_leave_a_number_half_way() -> None:
    disk = await a_disk(sync_delay_s=0.01)
    witness = await begun(disk)
    advancing = asyncio.create_task(witness.advance())
    await asyncio.sleep(0.001)
    advancing.cancel()
    await witness.close()
    assert disk.open_paths == []
    assert not disk.unsynced_bytes(FILE)
    await witness.advance()
    assert (await begun(disk)).found == 1


@pytest.mark.parametrize("written", [0, 1, 9, 19, 20, 511, 4095])
async def test_write_that_is_torn_leaves_the_number_that_was_told(written: int) -> None:
    disk = await a_disk()
    witness = await begun(disk)
    for number in (1, 2, 3):
        assert await advanced(witness) == number

        def die(_operation: object) -> None:
            raise ProcessDied(written=written)

        disk.fault_hook = die
        with pytest.raises(ProcessDied):
            await witness.advance()
        disk.fault_hook = None
        found = DeviceWitness(make_context(disk), PATH).found
        assert found == (number + 1 if written >= 20 else number)


async def test_what_a_process_has_written_and_not_synced_is_synced_before_it_is_spoken_of() -> None:
    disk = await a_disk()
    witness = await begun(disk)
    await witness.advance()

    def die(operation: Operation) -> None:
        if operation.name == "fdatasync":
            raise ProcessDied

    disk.fault_hook = die
    with pytest.raises(ProcessDied):
        await witness.advance()
    disk.fault_hook = None
    disk.crash()
    assert (await begun(disk)).found == 2
    disk.power_loss()
    assert DeviceWitness(make_context(disk), PATH).found == 2


@pytest.mark.parametrize("name", ["pwrite", "fdatasync"])
async def test_number_that_the_disk_did_not_take_is_not_told(name: str) -> None:
    disk = await a_disk()
    context = make_context(disk)
    witness = await begun(disk, context)
    await witness.advance()
    disk.fault_hook = fail_nth(1, os_error(errno.EIO), names={name})
    if name == "fdatasync":
        with pytest.raises(ProcessEnded):
            await witness.advance()
    else:
        await witness.advance()
    assert witness.number == 1
    assert context.storage_error is not None


async def test_file_system_that_has_no_room_to_overwrite_keeps_the_number() -> None:
    disk = await a_disk()
    context = make_context(disk)
    witness = await begun(disk, context)
    await witness.advance()
    disk.fault_hook = fail_nth(1, os_error(errno.ENOSPC), names={"pwrite"})
    assert [await advanced(witness) for _ in range(2)] == [1, 2]
    assert context.storage_error is None


@pytest.mark.parametrize("lacking", [{"fdatasync"}, {"fdatasync", "open", "fsync_directory", "write_file"}])
@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
@pytest.mark.parametrize("is_stopped", [True, False])
async def test_number_without_descriptors_is_written_again_and_costs_the_next_start_nothing(
    number: int, lacking: set[str], is_stopped: bool
) -> None:
    def fail(operation: Operation) -> None:
        if operation.name in lacking:
            raise os_error(number)

    lives = BrokerLives()
    await lives.start()
    await lives.acknowledge(2)
    await lives.tell_of_device()
    told = lives.running.device_witness
    assert told is not None
    for _ in range(2):
        lives.disk.fault_hook = fail
        await lives.running.advance_device_witness()
        assert lives.running.device_witness == told
    lives.disk.fault_hook = None
    await lives.running.advance_device_witness()
    assert lives.running.device_witness == told + 1
    if is_stopped:
        assert await lives.stop()
    else:
        lives.crash()
    await lives.start()
    assert lives.verdict is (StartKind.CLEAN if is_stopped else StartKind.PROCESS_CRASH)


async def test_sync_that_fails_for_want_of_room_has_lost_the_number_all_the_same() -> None:
    disk = await a_disk()
    context = make_context(disk)
    witness = await begun(disk, context)

    def fail(operation: Operation) -> None:
        if operation.name == "fdatasync":
            raise SyncFailed(errno.ENOSPC, "no room", operation.path)

    disk.fault_hook = fail
    with pytest.raises(ProcessEnded):
        await witness.advance()
    assert witness.number is None


async def test_every_number_is_written_in_place() -> None:
    disk = await a_disk()
    witness = await begun(disk)
    disk.capacity_bytes = disk.used_bytes
    assert [await advanced(witness) for _ in range(4)] == [1, 2, 3, 4]


async def test_full_disk_starts_without_a_witness_and_is_accused_of_nothing() -> None:
    lives = BrokerLives()
    await open_in(lives.disk)
    lives.disk.crash()
    lives.disk.capacity_bytes = lives.disk.used_bytes
    directory = await open_in(lives.disk)
    await directory.recover_logs(lambda _: small_config())
    assert directory.device_witness is None
    assert not lives.disk.exists(FILE)
    assert not lives.disk.exists(f"{FILE}.tmp")
    lives.disk.crash()
    lives.disk.capacity_bytes = None
    await lives.start()
    await lives.tell_of_device()
    lives.crash()
    await lives.start()
    assert lives.verdict is StartKind.PROCESS_CRASH


async def test_file_that_is_cut_off_is_made_anew_with_the_number_that_is_left() -> None:
    disk = await a_disk()
    witness = await begun(disk)
    for _ in range(3):
        await witness.advance()
    disk.crash()
    disk.open(FILE).truncate(4096)
    # The third was in the second half.
    witness = await begun(disk)
    assert witness.found == 2
    assert await advanced(witness) == 3
    disk.power_loss()
    assert (await begun(disk)).found == 3


async def test_missing_file_is_below_every_number_that_was_told() -> None:
    lives = BrokerLives()
    await lives.start()
    await lives.acknowledge(2)
    await lives.tell_of_device()
    lives.crash()
    lives.disk.unlink(FILE)
    lives.is_harmed = lives.is_replaced = True
    verdicts = []
    # After the first start it is a directory like any other.
    for _ in range(2):
        await lives.start()
        verdicts.append(lives.verdict)
        await lives.acknowledge(1)
        await lives.tell_of_device()
        lives.crash()
    assert verdicts == [StartKind.UNKNOWN_DIRECTORY, StartKind.PROCESS_CRASH]


async def test_sync_that_fails_at_the_start_ends_it() -> None:
    disk = SimDisk()
    directory = await open_in(disk)

    def fail(operation: Operation) -> None:
        if operation.name == "fdatasync" and operation.path == FILE:
            raise os_error(errno.EIO)

    disk.fault_hook = fail
    with pytest.raises(ProcessEnded):
        await directory.recover_logs(lambda _: small_config())


@pytest.mark.parametrize("check", CHECKS)
async def test_rule_holds(check: Callable[[], Awaitable[None]]) -> None:
    await check()
