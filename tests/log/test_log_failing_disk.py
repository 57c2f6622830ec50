"""Every operation of a busy life fails once, in every way a disk can fail, and nothing is lost.

The life is run undisturbed first, to know its operations. Then once for each operation and each kind
of failure; at the end the machine dies, and, from the same page cache, the process alone.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import suppress

import pytest

from quorate.chaos.models.log.log_faults import (
    LIFE_CONFIG,
    Ledger,
    Life,
    busy_life,
    check_goes_on,
    check_survivors,
)
from quorate.chaos.models.log.log_harness import (
    HastyClock,
    LogHarness,
    ProcessEnded,
    os_error,
    record_operations,
)
from quorate.chaos.sim.disk_faults import NEED_DESCRIPTORS, Operation, ShortWrite, fail_nth
from quorate.errors import DiskFull, OffsetOutOfRange, StorageError
from quorate.storage import StartKind

#: operations that may find no room; a read never does
CHANGES = {"open", "pwrite", "pwritev", "truncate", "rename", "unlink", "fdatasync", "fsync_directory"}
WRITES = {"pwrite", "pwritev"}

FAILURES: dict[str, tuple[Callable[[Operation], OSError], set[str]]] = {
    "no space": (lambda op: os_error(errno.ENOSPC), CHANGES),
    "input/output error": (lambda op: os_error(errno.EIO), set()),
    "short write": (lambda op: ShortWrite(errno.ENOSPC, written=op.length // 2), WRITES),
}


async def undisturbed() -> list[Operation]:
    harness = LogHarness(LIFE_CONFIG)
    trace = record_operations(harness.disk)
    life = Life(harness, Ledger())
    await busy_life(life)
    assert life.errors == []
    assert harness.log.segment_count >= 3
    return trace


async def life_with(failure: Callable[[Operation], OSError], operation: Operation) -> tuple[LogHarness, Life]:
    harness = LogHarness(LIFE_CONFIG)
    ledger = Ledger()
    life = Life(harness, ledger)
    harness.disk.fault_hook = fail_nth(operation.number, failure(operation))
    try:
        await busy_life(life)
    except ProcessEnded:
        pass
    except StorageError as error:
        # It could not even be opened.
        ledger.saw_storage_error |= not isinstance(error, DiskFull)
    harness.disk.fault_hook = None
    return harness, life


@pytest.mark.parametrize("kind", FAILURES)
async def test_nothing_acknowledged_is_lost_whatever_operation_fails(kind: str) -> None:
    failure, names = FAILURES[kind]
    for operation in await undisturbed():
        if names and operation.name not in names:
            continue
        harness, life = await life_with(failure, operation)
        try:
            assert not life.ledger.saw_storage_error or harness.context.storage_error is not None, (
                "a storage error that is not on record would let the marker be written (rule 31)"
            )
            in_page_cache = harness.disk.snapshot()
            harness.disk.power_loss()
            await harness.open(StartKind.LOSSY)
            check_survivors(harness, life.ledger, lost_power=True)
            harness.disk.crash()
            harness.disk.restore(in_page_cache)
            await harness.open(StartKind.PROCESS_CRASH)
            check_survivors(harness, life.ledger, lost_power=False)
            await check_goes_on(harness)
        except Exception as error:
            error.add_note(f"{kind} in {operation}; answered: {life.errors}")
            raise


@pytest.mark.parametrize("lasts_for", [1, 4, 30, 150])
async def test_want_of_descriptors_is_no_storage_error_whatever_lacks_one(lasts_for: int) -> None:
    """The disk was not asked: what is there is what a process that dies just here would leave."""
    for operation in await undisturbed():
        if operation.name not in NEED_DESCRIPTORS:
            continue
        harness, life = await life_without_descriptors(operation.number, lasts_for)
        try:
            assert harness.context.storage_error is None
            in_page_cache = harness.disk.snapshot()
            harness.disk.power_loss()
            await harness.open(StartKind.LOSSY)
            check_survivors(harness, life.ledger, lost_power=True)
            harness.disk.crash()
            harness.disk.restore(in_page_cache)
            await harness.open(StartKind.PROCESS_CRASH)
            check_survivors(harness, life.ledger, lost_power=False)
            await check_goes_on(harness)
        except Exception as error:
            error.add_note(f"from {operation} on; answered: {life.errors}")
            raise


async def life_without_descriptors(first: int, lasts_for: int) -> tuple[LogHarness, Life]:
    def fail(operation: Operation) -> None:
        if first <= operation.number < first + lasts_for and operation.name in NEED_DESCRIPTORS:
            raise os_error(errno.EMFILE)

    harness = LogHarness(LIFE_CONFIG)
    harness.clock = HastyClock()
    life = Life(harness, Ledger())
    harness.disk.fault_hook = fail
    # It may not even be opened, or be too short for what comes then.
    with suppress(StorageError, OffsetOutOfRange):
        await busy_life(life)
    harness.disk.fault_hook = None
    return harness, life


async def test_full_disk_is_no_storage_error_unless_a_sync_reports_it() -> None:
    """The log goes on by itself, and its stop is a clean one."""
    harmless = 0
    for operation in await undisturbed():
        if operation.name in WRITES:
            harness, life = await life_with(FAILURES["short write"][0], operation)
            if life.errors and all(isinstance(error, DiskFull) for error in life.errors):
                assert harness.context.storage_error is None, operation
                harmless += 1
    assert harmless > 20
