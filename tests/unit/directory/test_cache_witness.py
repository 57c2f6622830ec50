"""The cache witness: a number in the page cache, which a crash of the process leaves there (rule 30)."""

from __future__ import annotations

import errno

import pytest

from quorate.broker.directory.cache_witness import CacheWitness
from quorate.chaos.models.directory.broker_lives import PATH, BrokerLives, open_in
from quorate.chaos.models.log.log_harness import ProcessEnded, make_context, os_error, small_config
from quorate.chaos.sim.disk import SimDisk
from quorate.chaos.sim.disk_faults import ProcessDied, fail_nth
from quorate.controller.previous_run import StartKind
from quorate.storage import LogContext
from quorate.storage.file_writes import make_durable_directory

FILE = f"{PATH}/cache-witness"


async def a_disk() -> SimDisk:
    disk = SimDisk()
    await make_durable_directory(disk, PATH)
    return disk


async def begun(disk: SimDisk, context: LogContext | None = None) -> CacheWitness:
    witness = CacheWitness(context or make_context(disk), PATH)
    await witness.begin()
    return witness


async def test_number_goes_on_where_the_process_before_has_ended() -> None:
    disk = await a_disk()
    witness = await begun(disk)
    assert witness.found is None
    assert [witness.advance() for _ in range(3)] == [1, 2, 3]
    disk.crash()
    witness = await begun(disk)
    assert witness.found == 3
    assert witness.advance() == 4


async def test_number_is_lost_with_the_page_cache_and_what_a_start_has_synced_is_not() -> None:
    disk = await a_disk()
    for _ in range(2):
        witness = await begun(disk)
        for _ in range(5):
            witness.advance()
        disk.crash()
    disk.lose_page_cache()
    assert CacheWitness(make_context(disk), PATH).found == 5


async def test_number_is_synced_by_a_clean_stop_and_stays_then() -> None:
    disk = await a_disk()
    witness = await begun(disk)
    witness.advance()
    await witness.seal()
    assert witness.advance() is None
    disk.lose_page_cache()
    assert CacheWitness(make_context(disk), PATH).found == 1


@pytest.mark.parametrize("written", range(25))
async def test_write_that_is_torn_leaves_the_number_before(written: int) -> None:
    disk = await a_disk()
    witness = await begun(disk)
    for number in (1, 2, 3):
        assert witness.advance() == number

        def die(_operation: object) -> None:
            raise ProcessDied(written=written)

        disk.fault_hook = die
        with pytest.raises(ProcessDied):
            witness.advance()
        disk.fault_hook = None
        found = CacheWitness(make_context(disk), PATH).found
        assert found == (number + 1 if written >= 20 else number)


async def test_file_that_is_damaged_or_cut_off_is_none_and_is_made_anew() -> None:
    disk = await a_disk()
    await begun(disk)
    disk.crash()
    for bit in (0, 8 * 15, 8 * 19):
        disk.flip_bit(FILE, bit)
        assert CacheWitness(make_context(disk), PATH).found is None
        disk.flip_bit(FILE, bit)
    disk.open(FILE).truncate(10)
    witness = await begun(disk)
    assert witness.found is None
    assert witness.advance() == 1


async def test_every_number_is_written_in_place() -> None:
    disk = await a_disk()
    witness = await begun(disk)
    disk.capacity_bytes = disk.used_bytes
    assert [witness.advance() for _ in range(4)] == [1, 2, 3, 4]


async def test_full_disk_starts_without_a_witness() -> None:
    disk = SimDisk()
    directory = await open_in(disk)
    disk.capacity_bytes = disk.used_bytes
    await directory.recover_logs(lambda _: small_config())
    assert directory.advance_cache_witness() is None
    assert not disk.exists(FILE)
    assert not disk.exists(f"{FILE}.tmp")


async def test_file_system_that_has_no_room_to_overwrite_keeps_the_number() -> None:
    disk = await a_disk()
    context = make_context(disk)
    witness = await begun(disk, context)
    assert witness.advance() == 1
    disk.fault_hook = fail_nth(1, os_error(errno.ENOSPC))
    assert witness.advance() == 1
    assert witness.advance() == 2
    assert context.storage_error is None


async def test_number_that_could_not_be_written_is_told_and_speaks_against_the_disk() -> None:
    lives = BrokerLives()
    await lives.start()
    await lives.acknowledge(1)
    lives.disk.fault_hook = fail_nth(1, os_error(errno.EIO))
    lives.beat()
    assert lives.context.storage_error is not None
    lives.lose_page_cache()
    await lives.start()
    assert lives.verdict is StartKind.LOSSY


async def test_sync_that_fails_at_the_start_ends_it() -> None:
    disk = SimDisk()
    directory = await open_in(disk)
    disk.fault_hook = fail_nth(1, os_error(errno.EIO), names={"fdatasync"})
    with pytest.raises(ProcessEnded):
        await directory.recover_logs(lambda _: small_config())


async def test_missing_file_counts_as_a_loss_where_a_number_is_known() -> None:
    lives = BrokerLives()
    await lives.start()
    await lives.acknowledge(2)
    lives.crash()
    lives.disk.unlink(FILE)
    lives.is_harmed = True
    verdicts = []
    # After the first start it is a directory like any other.
    for _ in range(2):
        await lives.start()
        verdicts.append(lives.verdict)
        await lives.acknowledge(1)
        lives.crash()
    assert verdicts == [StartKind.LOSSY, StartKind.PROCESS_CRASH]
