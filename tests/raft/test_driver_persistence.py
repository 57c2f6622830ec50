"""What is made durable, in which order, and who waits for it."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import NoReturn

import pytest

from quorate.chaos.models.quorum.directory_harness import DirectoryHarness
from quorate.chaos.sim.disk_faults import fail_nth
from quorate.core.clock import SystemClock
from quorate.core.disk import SyncFailed
from quorate.metadata.raft.entries import Entry, EntryKind, Index, Snapshot, SnapshotId, Term
from quorate.metadata.raft.persistence import Persistence
from quorate.metadata.raft.ready import HardState, Ready, Role, SoftState
from quorate.metadata.raft.voters import Voters

SNAPSHOT = Snapshot(SnapshotId(Index(5), Term(1)), Voters(()), b"")


def ready(
    sequence: int, *indexes: int, hard_state: HardState | None = None, snapshot: Snapshot | None = None
) -> Ready:
    entries = tuple(Entry(Index(index), Term(1), EntryKind.COMMAND, b"") for index in indexes)
    soft_state = SoftState(Role.FOLLOWER, Term(1), None, Index(0))
    return Ready(sequence, hard_state, snapshot, entries, (), (), (), (), soft_state, 0.0)


class SlowDirectory:
    """Notes what it is told; a sync lasts until it is let go."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.syncing = asyncio.Event()
        self.let_go = asyncio.Event()
        self.failure: OSError | None = None
        #: how often a file cannot be opened
        self.descriptors_lacking = 0

    async def write_hard_state(self, hard_state: HardState) -> None:
        if self.descriptors_lacking:
            self.descriptors_lacking -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        self.calls.append(f"hard state {hard_state.term}")

    async def install_snapshot(self, snapshot: Snapshot) -> None:
        self.calls.append(f"snapshot {snapshot.id.index}")

    def append(self, entries: Sequence[Entry]) -> None:
        self.calls += [f"entry {entry.index}" for entry in entries]

    async def sync(self) -> None:
        self.syncing.set()
        await self.let_go.wait()
        self.let_go.clear()
        if self.failure is not None:
            raise self.failure
        self.calls.append("sync")


class Fatal(Exception):
    pass


def _fatal(reason: str) -> NoReturn:
    raise Fatal(reason)


class HastyClock(SystemClock):
    def __init__(self) -> None:
        self.slept_s = 0.0

    async def sleep(self, seconds: float) -> None:
        self.slept_s += seconds
        await asyncio.sleep(0)


class Rig:
    def __init__(self) -> None:
        self.directory = SlowDirectory()
        self.durable: list[list[int]] = []
        self.clock = HastyClock()
        self.persistence = Persistence(
            self.directory, clock=self.clock, on_durable=self._on_durable, on_fatal=_fatal
        )

    def _on_durable(self, batch: Sequence[Ready]) -> None:
        self.durable.append([each.sequence for each in batch])

    async def finish_sync(self) -> None:
        await self.directory.syncing.wait()
        self.directory.syncing.clear()
        self.directory.let_go.set()
        for _ in range(5):
            await asyncio.sleep(0)


@asynccontextmanager
async def running(rig: Rig) -> AsyncIterator[None]:
    task = asyncio.create_task(rig.persistence.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_one_sync_serves_all_that_arrived_while_the_device_was_busy() -> None:
    rig = Rig()
    async with running(rig):
        rig.persistence.submit(ready(1, 1))
        await rig.directory.syncing.wait()
        for sequence in range(2, 10):
            rig.persistence.submit(ready(sequence, sequence))
        await rig.finish_sync()
        assert rig.durable == [[1]]
        await rig.finish_sync()
        assert rig.durable == [[1], list(range(2, 10))]
        assert rig.directory.calls.count("sync") == 2
        assert rig.persistence.is_idle


async def test_nothing_is_released_before_it_is_durable() -> None:
    rig = Rig()
    async with running(rig):
        rig.persistence.submit(ready(1, 1))
        await rig.directory.syncing.wait()
        assert rig.durable == []
        assert not rig.persistence.is_idle


async def test_step_that_wants_nothing_durable_waits_for_those_before_it() -> None:
    rig = Rig()
    async with running(rig):
        rig.persistence.submit(ready(1, 1))
        rig.persistence.submit(ready(2))
        await rig.directory.syncing.wait()
        assert rig.durable == []
        await rig.finish_sync()
        assert rig.durable == [[1, 2]]


async def test_what_a_snapshot_replaces_is_written_before_it_and_what_follows_after() -> None:
    rig = Rig()
    async with running(rig):
        rig.persistence.submit(ready(1, 1, 2, hard_state=HardState(Term(1), None)))
        rig.persistence.submit(ready(2, snapshot=SNAPSHOT))
        rig.persistence.submit(ready(3, 6))
        await rig.finish_sync()
        assert rig.durable == []
        await rig.finish_sync()
        assert rig.directory.calls == [
            *("hard state 1", "entry 1", "entry 2", "sync"),
            *("snapshot 5", "entry 6", "sync"),
        ]
        assert rig.durable == [[1, 2, 3]]


async def test_failed_sync_ends_the_process_and_releases_nothing() -> None:
    rig = Rig()
    rig.directory.failure = OSError(5, "gone")
    task = asyncio.create_task(rig.persistence.run())
    rig.persistence.submit(ready(1, 1))
    await rig.finish_sync()
    with pytest.raises(Fatal, match="gone"):
        await task
    assert rig.durable == []


async def test_descriptor_that_is_lacking_is_waited_for_and_nothing_is_released_until_then() -> None:
    rig = Rig()
    rig.directory.descriptors_lacking = 3
    async with running(rig):
        rig.persistence.submit(ready(1, 1, hard_state=HardState(Term(1), None)))
        await rig.directory.syncing.wait()
        assert rig.clock.slept_s > 0
        rig.directory.failure = OSError(errno.ENFILE, "Too many open files in system")
        await rig.finish_sync()
        await rig.directory.syncing.wait()
        assert rig.durable == []
        rig.directory.failure = None
        await rig.finish_sync()
        assert rig.durable == [[1]]
        assert rig.directory.calls == ["hard state 1", "entry 1", "sync"]


async def test_descriptor_that_is_lacking_for_the_second_half_of_a_write_is_waited_for() -> None:
    """The file was replaced; its directory could not be opened to be synced."""
    harness = DirectoryHarness(segment_bytes=1 << 20)
    await harness.begin()
    lacking = OSError(errno.EMFILE, "Too many open files")
    harness.disk.fault_hook = fail_nth(1, lacking, names=["fsync_directory"])
    done = asyncio.Event()
    clock = HastyClock()
    persistence = Persistence(
        harness.directory, clock=clock, on_durable=lambda batch: done.set(), on_fatal=_fatal
    )
    persistence.submit(ready(1, hard_state=HardState(Term(3), None)))
    task = asyncio.create_task(persistence.run())
    await asyncio.wait([task, asyncio.create_task(done.wait())], return_when=asyncio.FIRST_COMPLETED)
    persistence.stop()
    await task
    assert done.is_set()
    assert clock.slept_s > 0
    directory = await harness.power_loss()
    assert directory.hard_state.term == 3


async def test_sync_that_failed_for_want_of_descriptors_is_fatal_like_any_other() -> None:
    """Unlike a file that cannot be opened: the device was asked, and what it has is not known (rule 45)."""
    rig = Rig()
    number, reason = errno.ENFILE, "Too many open files in system"
    rig.directory.failure = SyncFailed(number, reason)
    rig.directory.failure.__cause__ = OSError(number, reason)
    task = asyncio.create_task(rig.persistence.run())
    rig.persistence.submit(ready(1, 1))
    await rig.finish_sync()
    assert task.done()
    with pytest.raises(Fatal, match="Too many open files"):
        await task
    assert rig.clock.slept_s == 0
    assert rig.durable == []


async def test_descriptors_that_are_lacking_for_seconds_end_the_process() -> None:
    rig = Rig()
    rig.directory.descriptors_lacking = 1000
    rig.persistence.submit(ready(1, hard_state=HardState(Term(1), None)))
    with pytest.raises(Fatal, match="Too many open files"):
        await rig.persistence.run()
    assert 1 < rig.clock.slept_s < 10
    assert rig.durable == []


async def test_stop_does_not_wait_for_descriptors() -> None:
    rig = Rig()
    rig.directory.descriptors_lacking = 1000
    task = asyncio.create_task(rig.persistence.run())
    rig.persistence.submit(ready(1, hard_state=HardState(Term(1), None)))
    await asyncio.sleep(0)
    rig.persistence.stop()
    await task
    assert rig.durable == []


async def test_write_under_way_is_finished_at_a_stop_and_releases_nothing() -> None:
    rig = Rig()
    task = asyncio.create_task(rig.persistence.run())
    rig.persistence.submit(ready(1, 1))
    await rig.directory.syncing.wait()
    rig.persistence.stop()
    await asyncio.sleep(0)
    assert not task.done()
    await rig.finish_sync()
    await task
    assert rig.directory.calls == ["entry 1", "sync"]
    assert rig.durable == []
