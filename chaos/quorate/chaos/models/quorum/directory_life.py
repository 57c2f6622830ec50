"""A busy life of a voter's directory, fixed or random, and what has to hold after it ended badly."""

from __future__ import annotations

import asyncio
import random

from quorate.chaos.models.quorum.directory_harness import (
    DirectoryHarness,
    command,
    commands,
    hard_state,
    snapshot_at,
)
from quorate.metadata.raft.entries import SnapshotId, Term

__all__ = ["busy_life", "check_goes_on", "random_life"]


async def busy_life(harness: DirectoryHarness) -> None:
    """Rolls, replaced entries, snapshots that trim, installs of both kinds, several syncs at once."""
    await harness.begin()
    await harness.write_hard_state(hard_state(1, voted_for=1))
    await harness.store(*commands(1, 3))
    await harness.store(*commands(4, 9))
    await harness.write_hard_state(hard_state(2))
    await harness.store(command(8, term=2), command(9, term=2, data=b"x" * 700))
    await harness.save(snapshot_at(5))
    harness.append(commands(10, 11, term=2))
    await asyncio.gather(harness.sync(), harness.sync(), sync_after(harness, 12))
    await harness.store(command(13, term=2))
    await harness.save(snapshot_at(11, term=2))
    await harness.restart()
    harness.ledger.check(harness.directory)
    await harness.store(*commands(14, 20, term=2))
    await harness.save(snapshot_at(16, term=2, data=bytes(range(256)) * 5))
    await harness.write_hard_state(hard_state(4, voted_for=3))
    harness.append(commands(21, 22, term=2))
    # The log ends before it.
    await harness.install(snapshot_at(30, term=3))
    await harness.store(*commands(31, 34, term=4))
    # The log holds its last entry, and goes on.
    await harness.install(snapshot_at(33, term=4))
    await harness.store(command(35, term=4))
    harness.append(commands(36, 37, term=4))
    harness.directory.close()


async def sync_after(harness: DirectoryHarness, index: int) -> None:
    harness.append([command(index, term=2)])
    await harness.sync()


async def random_life(harness: DirectoryHarness, rng: random.Random, *, steps: int) -> None:
    """From wherever the directory stands."""
    await harness.begin()
    harness.ledger.check(harness.directory)
    harness.ledger.settle(harness.directory)
    for _ in range(steps):
        await random_step(harness, rng)


async def random_step(harness: DirectoryHarness, rng: random.Random) -> None:
    state = harness.ledger.logs[-1]
    snapshot = harness.directory.snapshot
    committed = 0 if snapshot is None else snapshot.id.index
    last = state.entries[-1].index if state.entries else (state.base.index if state.base else 0)
    term = harness.directory.hard_state.term
    step = rng.choice(
        ("append", "append", "append", "sync", "sync", "store", "replace", "vote", "save", "install")
    )
    if term == 0 or step == "vote":
        await harness.write_hard_state(hard_state(term + 1, voted_for=rng.choice((None, 1, 2))))
    elif step in ("append", "store"):
        size = rng.choice((5, 50, 700, 2500))
        count = rng.randint(1, 4)
        harness.append([command(last + 1 + each, term, data=rng.randbytes(size)) for each in range(count)])
        if step == "store":
            await harness.sync()
    elif step == "sync":
        await harness.sync()
    elif step == "replace" and last > committed:
        await harness.write_hard_state(hard_state(term + 1))
        harness.append([command(rng.randint(committed + 1, last), term + 1, data=rng.randbytes(20))])
    elif step == "save" and last > committed:
        await harness.sync()
        entry = rng.choice([each for each in state.entries if each.index > committed])
        await harness.save(snapshot_at(entry.index, entry.term, rng.randbytes(rng.choice((10, 2000)))))
    elif step == "install":
        await harness.install(snapshot_at(last + rng.randint(1, 5), term, rng.randbytes(30)))


async def check_goes_on(harness: DirectoryHarness) -> None:
    """The directory takes entries, and has them after the next power loss."""
    harness.ledger.settle(harness.directory)
    restored = harness.directory.restored
    assert restored is not None
    base = restored.snapshot or SnapshotId(snapshot_at(0).id.index, Term(0))
    last = restored.entries[-1].index if restored.entries else base.index
    term = restored.hard_state.term + 1
    await harness.write_hard_state(hard_state(term))
    await harness.store(command(last + 1, term))
    await harness.power_loss()
    harness.ledger.check(harness.directory)
    assert harness.directory.restored is not None
    assert harness.directory.restored.entries[-1] == command(last + 1, term)
    assert not harness.directory.hard_state.is_recovering
    harness.directory.close()
    assert harness.disk.open_paths == []
