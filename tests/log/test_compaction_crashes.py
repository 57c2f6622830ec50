"""A pass that ends at any operation of the disk, with and without the power, and the start after it.

Whatever the moment: the log opens, has no gap, says the same of every key as before, and the next pass
brings it to where this one would have brought it. In the second pass of these logs tombstones go, segments
are joined, and what is cleaned was cleaned before.

With more kinds of power losses, which takes longer than `make test` should:

    QUORATE_CRASH_THOROUGH=1 pytest tests/log/test_compaction_crashes.py
"""

from __future__ import annotations

import os
import random
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final

import pytest

from quorate.chaos.sim.disk import DiskSnapshot
from quorate.chaos.sim.disk_faults import ProcessDied, fail_nth
from quorate.chaos.sim.disk_nodes import SimDirectory, _apply_names
from quorate.chaos.sim.patch import Patch
from quorate.core.ids import LeaderEpoch, ProducerId
from quorate.core.records import Compression
from quorate.storage import StartKind
from quorate.storage.inspect import verify
from quorate.storage.log_files import list_swaps
from tests.log.compaction_harness import KeyedLog, compacted_config, keyed

_IS_THOROUGH: Final = "QUORATE_CRASH_THOROUGH" in os.environ
#: of power losses that keep a part of what was not synced
_SEEDS: Final = range(1, 6 if _IS_THOROUGH else 2)

CONFIG: Final = compacted_config(segment_bytes=900)
#: a death before one that changes nothing is a death before the next one that does
CHANGES: Final = ("open", "pwrite", "pwritev", "truncate", "rename", "unlink", "fdatasync", "fsync_directory")


def fill(log: KeyedLog, *, first: int) -> None:
    """Three epochs, two producers, tombstones, compressed batches, keys that come again in any distance."""
    for n in range(first, first + 36):
        if n % 13 == 0:
            log.log.become_leader(LeaderEpoch(log.log.latest_leader_epoch + 1))
        key, value = b"key %d" % (n * 7 % 11), b"value %d" % n
        producer = None
        if n % 5 and n < first + 20:
            known = log.log._state.producers.get(ProducerId(n % 2))
            producer = (n % 2, 0, 0 if known is None else known.next_sequence)
        pairs = [(key, None if n % 6 == 0 else value), (b"often", value)]
        log.append(keyed(*pairs, producer=producer, compression=Compression(n % 5)))


async def before_the_first_pass() -> KeyedLog:
    log = KeyedLog(CONFIG)
    await log.lead(1)
    fill(log, first=1)
    await log.seal()
    return log


async def before_the_second_pass() -> KeyedLog:
    log = await before_the_first_pass()
    assert await log.compact() is not None
    log.harness.clock.now_ms += CONFIG.delete_retention_ms
    fill(log, first=37)
    await log.seal()
    return log


SCENARIOS: Final = {"first": before_the_first_pass, "second": before_the_second_pass}


class Deaths:
    """All the ways in which one pass over one log can end."""

    def __init__(self, log: KeyedLog, snapshot: DiskSnapshot, changes: list[str]) -> None:
        self._log = log
        self._snapshot = snapshot
        #: of a pass that nobody disturbs
        self.changes = changes

    @classmethod
    async def of(cls, name: str) -> Deaths:
        log = await SCENARIOS[name]()
        snapshot = log.snapshot()
        undisturbed = log.copy(snapshot)
        await undisturbed.open()
        undisturbed.disk.trace = []
        report = await undisturbed.compact()
        assert report is not None
        assert report.records_removed > 10
        assert (report.segments_after < report.segments_before) == (name == "second")
        changes = [operation.name for operation in undisturbed.disk.trace if operation.name in CHANGES]
        undisturbed.check()
        undisturbed.check_tidy()
        assert (undisturbed.log.compacted.tombstones_removed_below > 0) == (name == "second")
        return cls(log, snapshot, changes)

    async def die_at(self, change: int, *, written: int = 0) -> KeyedLog:
        """A log whose process has died there. Its disk is as that has left it."""
        log = self._log.copy(self._snapshot)
        await log.open()
        log.disk.fault_hook = fail_nth(change, ProcessDied(written=written), names=CHANGES)
        with suppress(ProcessDied):
            await log.compact()
            raise AssertionError(f"the pass has fewer than {change} changes")
        log.disk.fault_hook = None
        return log

    async def each(self, *, written: int = 0, only: str = "") -> AsyncIterator[tuple[int, KeyedLog]]:
        """The number of the change that it dies at, and what is left."""
        for change, name in enumerate(self.changes, start=1):
            if only in name:
                yield change, await self.die_at(change, written=written)


async def check_comes_to_its_end(log: KeyedLog) -> None:
    log.check_truth()
    await log.clean()
    log.check()
    log.check_tidy()
    assert log.log.first_dirty_offset == log.log.log_end_offset


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_process_that_dies_at_any_change_loses_nothing(scenario: str) -> None:
    deaths = await Deaths.of(scenario)
    assert len(deaths.changes) > 30
    async for change, log in deaths.each(written=7):
        try:
            await log.die(power_loss=False)
            await check_comes_to_its_end(log)
        except Exception as error:
            error.add_note(f"at change {change}")
            raise


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("seed", [None, *_SEEDS])
async def test_power_loss_at_any_change_loses_nothing(scenario: str, seed: int | None) -> None:
    deaths = await Deaths.of(scenario)
    async for change, log in deaths.each(written=0 if seed is None else 100):
        try:
            await log.die(power_loss=True, rng=None if seed is None else random.Random(seed * 1000 + change))
            await check_comes_to_its_end(log)
        except Exception as error:
            error.add_note(f"at change {change}")
            raise


def lose_names_in_any_order(directory: SimDirectory, rng: random.Random | None) -> None:
    """For a file system that writes back changes of a directory as it likes, which POSIX allows."""
    for names in directory.unsynced:
        if rng is not None and rng.random() < 0.5:
            _apply_names(directory.durable, names)
    directory.unsynced.clear()
    directory.cached = dict(directory.durable)
    for name in sorted(directory.cached):
        directory.cached[name].lose_power(rng)


@pytest.fixture
def _names_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SimDirectory, "lose_power", lose_names_in_any_order)


@pytest.mark.usefixtures("_names_in_any_order")
@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("seed", _SEEDS)
async def test_no_order_of_names_on_the_device_matters(scenario: str, seed: int) -> None:
    """Before the directory is synced most of its changes are at stake."""
    deaths = await Deaths.of(scenario)
    for trial in range(4):
        async for change, log in deaths.each(only="fsync_directory"):
            rng = random.Random(1000 * seed + 100 * trial + change)
            try:
                await log.die(power_loss=True, rng=rng)
                await check_comes_to_its_end(log)
            except Exception as error:
                error.add_note(f"at change {change}, trial {trial}")
                raise


async def lose_power_with_names_in_any_order(scenario: str, seed: int) -> None:
    """For a mutation: there are no fixtures where it is hunted."""
    with Patch() as patch:
        patch.setattr(SimDirectory, "lose_power", lose_names_in_any_order)
        await test_no_order_of_names_on_the_device_matters(scenario, seed)


@pytest.mark.parametrize("power_loss", [False, True])
async def test_start_that_dies_while_it_finishes_a_swap_leaves_it_to_the_next(power_loss: bool) -> None:
    deaths = await Deaths.of("second")
    unfinished = 0
    async for change, dead in deaths.each():
        if power_loss:
            dead.disk.power_loss()
        else:
            dead.disk.crash()
        if not list_swaps(dead.disk, dead.harness.directory):
            continue
        unfinished += 1
        async for operation, log in deaths_of_starts(dead, power_loss=power_loss):
            try:
                log.check_truth()
            except Exception as error:
                error.add_note(f"at change {change}, then at change {operation} of the start")
                raise
    assert unfinished > 5


async def deaths_of_starts(dead: KeyedLog, *, power_loss: bool) -> AsyncIterator[tuple[int, KeyedLog]]:
    """The start dies, at any change until the swap is done, and the next one does not."""
    snapshot = dead.snapshot()
    for operation in range(1, 1000):
        log = dead.copy(snapshot)
        log.disk.fault_hook = fail_nth(operation, ProcessDied(), names=CHANGES)
        with suppress(ProcessDied):
            await log.open(StartKind.LOSSY if power_loss else StartKind.PROCESS_CRASH)
            raise AssertionError("the start has too few changes")
        is_unfinished = bool(list_swaps(log.disk, log.harness.directory))
        await log.die(power_loss=power_loss)
        yield operation, log
        if not is_unfinished:
            return
    raise AssertionError("a swap that is never finished")


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_verify_finds_no_damage_in_what_a_death_has_left(scenario: str) -> None:
    deaths = await Deaths.of(scenario)
    async for change, log in deaths.each():
        log.disk.crash()
        for report in verify(log.disk, log.harness.directory):
            assert not report.is_damaged, (change, report.problems)
            assert report.log_end_offset == len(log.appended)
