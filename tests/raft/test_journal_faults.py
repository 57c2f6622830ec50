"""The disk fails, or the process dies, at every single operation of a busy life."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable

import pytest

from quorate.chaos.models.quorum.directory_harness import DirectoryHarness, command, commands, hard_state
from quorate.chaos.models.quorum.directory_life import busy_life, check_goes_on
from quorate.chaos.models.quorum.journal_checkers import check_group_whose_sync_failed
from quorate.chaos.sim.disk_faults import ProcessDied, ShortWrite, fail_nth
from quorate.errors import DiskFull, StorageFailed
from quorate.metadata.raft.journal_format import encode_group

#: by the number of the operation that is to fail
FAULTS: dict[str, Callable[[int], OSError | ProcessDied]] = {
    "error": lambda number: OSError((errno.EIO, errno.ENOSPC)[number % 2], "the disk says no"),
    "short write": lambda number: ShortWrite(errno.ENOSPC, written=10 + 7 * number % 60),
    "death": lambda _: ProcessDied(),
    "death in a write": lambda number: ProcessDied(written=1 + 7 * number % 60),
}
WRITES = ("pwrite", "pwritev")


async def operations_of_life(names: tuple[str, ...]) -> int:
    harness = DirectoryHarness()
    harness.disk.trace = []
    await busy_life(harness)
    return sum(not names or each.name in names for each in harness.disk.trace)


async def fail_once(
    harness: DirectoryHarness, number: int, fault: OSError | ProcessDied, names: tuple[str, ...]
) -> bool:
    """Whether the fault was noticed."""
    harness.disk.fault_hook = fail_nth(number, fault, names=names)
    try:
        await busy_life(harness)
    except (OSError, ProcessDied, StorageFailed, DiskFull):
        return True
    finally:
        harness.disk.fault_hook = None
    return False


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("power", ["stays", "is lost"])
async def test_fault_at_any_operation_loses_nothing_that_was_answered_for(fault: str, power: str) -> None:
    names = WRITES if "write" in fault else ()
    for number in range(1, await operations_of_life(names) + 1):
        harness = DirectoryHarness()
        try:
            assert await fail_once(harness, number, FAULTS[fault](number), names)
            await (harness.restart() if power == "stays" else harness.power_loss(random.Random(number)))
            harness.ledger.check(harness.directory)
            assert not harness.directory.hard_state.is_recovering
            await check_goes_on(harness)
        except Exception as error:
            error.add_note(f"operation {number}")
            raise


async def test_fault_at_any_operation_of_a_start_is_a_typed_error_and_the_next_start_succeeds() -> None:
    harness = DirectoryHarness()
    await busy_life(harness)
    before = harness.disk.operation_count
    await harness.restart()
    harness.directory.close()
    for number in range(1, harness.disk.operation_count - before + 1):
        harness.disk.crash()
        harness.disk.fault_hook = fail_nth(number, OSError(errno.EIO, "input/output error"))
        with pytest.raises(StorageFailed):
            await harness.open()
        assert harness.disk.open_paths == []
        harness.disk.fault_hook = None
        await harness.restart()
        harness.ledger.check(harness.directory)


@pytest.mark.parametrize("name", ["open", "fsync_directory"])
async def test_new_file_for_want_of_a_descriptor_is_begun_at_the_next_attempt(
    name: str,
) -> None:
    """The device was not asked, so as much is known of it as before."""
    harness = DirectoryHarness(segment_bytes=50)
    await harness.begin()
    await harness.write_hard_state(hard_state(1))
    await harness.store(*commands(1, 3))
    harness.disk.fault_hook = fail_nth(1, OSError(errno.EMFILE, "Too many open files"), names=[name])
    harness.append(commands(4, 5))
    with pytest.raises(OSError, match="Too many open files"):
        await harness.sync()
    await harness.sync()
    await harness.store(*commands(6, 9))
    assert len(harness.names(".journal")) > 1
    directory = await harness.power_loss()
    harness.ledger.check(directory)
    assert directory.restored is not None
    assert list(directory.restored.entries) == commands(1, 9)


async def test_cut_whose_sync_failed_is_made_again() -> None:
    """Else the bytes that were cut would be back behind the entries that came after."""
    harness = DirectoryHarness(segment_bytes=1 << 20)
    await harness.begin()
    await harness.write_hard_state(hard_state(1))
    await harness.store(*commands(1, 2))
    (name,) = harness.names(".journal")
    whole = harness.content(name)
    header, payload = encode_group(2, None, commands(3, 9))
    harness.overwrite(name, whole + header + payload[:60])
    harness.disk.fault_hook = fail_nth(1, OSError(errno.EIO, "input/output error"), names=["fdatasync"])
    with pytest.raises(StorageFailed):
        await harness.open()
    harness.disk.fault_hook = None
    await harness.begin()
    await harness.store(command(3))
    directory = await harness.power_loss()
    assert directory.restored is not None
    assert len(directory.restored.entries) == 3
    assert directory.opening_report.torn_bytes == 0


async def test_death_at_any_operation_of_a_start_never_hides_that_the_end_was_lost() -> None:
    harness = DirectoryHarness(segment_bytes=1 << 20)
    await harness.begin()
    await harness.write_hard_state(hard_state(1))
    await harness.store(*commands(1, 2))
    await harness.store(command(3))
    (name,) = harness.names(".journal")
    harness.overwrite(name, harness.content(name)[:-1] + b"?")
    damaged = harness.disk.snapshot()
    is_finished = False
    number = 0
    while not is_finished:
        number += 1
        harness.disk.restore(damaged)
        harness.disk.fault_hook = fail_nth(number, ProcessDied(written=5))
        try:
            await harness.open()
            is_finished = True
        except ProcessDied:
            pass
        harness.disk.fault_hook = None
        directory = await (harness.restart() if number % 2 else harness.power_loss(random.Random(number)))
        assert directory.hard_state.is_recovering, f"operation {number}"
        assert directory.restored is not None
        assert list(directory.restored.entries) == commands(1, 2)
        (aside,) = {harness.content(each) for each in harness.names(".damaged")}
        assert aside.endswith(b"?")
        directory.close()
    assert number > 20


async def test_group_whose_sync_failed_is_written_again_before_it_counts() -> None:
    await check_group_whose_sync_failed()
