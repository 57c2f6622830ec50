"""Mutations of how the quorum's core is driven: what is durable before it is told (rules 38, 39 and 45).

The Raft simulator drives the core itself, on disks of its own: what it says about these rules, it says about
a stand-in. Here the driver, the journal and the transport are the real ones.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from quorate.chaos.cluster.faults.kinds import Fault
from quorate.chaos.models.quorum.quorum_storm import run_storm
from quorate.chaos.mutations.cluster_hunt import ClusterHunt
from quorate.chaos.mutations.hunts import SeededHunt
from quorate.chaos.mutations.mutation import Mutation, mutation, mutations_in
from quorate.chaos.sim.patch import Patch
from quorate.metadata.raft.applying import Applier
from quorate.metadata.raft.driver import Driver
from quorate.metadata.raft.entries import Snapshot
from quorate.metadata.raft.persistence import Persistence
from quorate.metadata.raft.ready import Ready

__all__ = ["MUTATIONS"]

#: whatever the core or the driver raises is a finding
_STORM: Final = SeededHunt("storm over a quorum", run_storm, seeds_max=40, notices=(Exception,))


@mutation(45, 38, hunt=_STORM)
def entries_count_while_they_are_synced(patch: Patch) -> None:
    """The journal is synced beside the answers, not before them."""
    write = Persistence._write

    async def tell_before_the_sync_is_done(self: Persistence, batch: Sequence[Ready]) -> None:
        for ready in batch:
            if ready.hard_state is not None or ready.snapshot is not None:
                await write(self, batch)
                return
        for ready in batch:
            self._directory.append(ready.entries)
        asyncio.get_running_loop().create_task(self._directory.sync())

    patch.setattr(Persistence, "_write", tell_before_the_sync_is_done)


@mutation(45, hunt=ClusterHunt((Fault.FAIL_SYNC_OF_CONTROLLER,)))
def controller_goes_on_after_a_failed_sync(patch: Patch) -> None:
    """What was to be durable counts as if it were. In a storm syncs fail too seldom for it to matter."""
    original = Persistence._write

    async def write(self: Persistence, batch: Sequence[Ready]) -> None:
        with contextlib.suppress(OSError):
            await original(self, batch)

    patch.setattr(Persistence, "_write", write)


@mutation(38, hunt=_STORM)
def term_and_vote_are_not_written(patch: Patch) -> None:
    write = Persistence._write

    async def forget_the_vote(self: Persistence, batch: Sequence[Ready]) -> None:
        await write(self, [replace(ready, hard_state=None) for ready in batch])

    patch.setattr(Persistence, "_write", forget_the_vote)


@mutation(38, hunt=_STORM)
def answers_do_not_wait_for_what_they_rest_on(patch: Patch) -> None:
    dispatch = Driver._dispatch

    def send_before_it_is_durable(self: Driver, ready: Ready) -> None:
        early = (*ready.send_now, *ready.send_after_persist)
        dispatch(self, replace(ready, send_now=early, send_after_persist=()))

    patch.setattr(Driver, "_dispatch", send_before_it_is_durable)


@mutation(39, hunt=_STORM)
def installed_snapshot_is_kept_from_the_state_machine(patch: Patch) -> None:
    async def install(self: Applier, snapshot: Snapshot) -> None:
        self.bytes_since_snapshot = 0
        self._advance(snapshot.id.index)

    patch.setattr(Applier, "install", install)


MUTATIONS: Final[tuple[Mutation, ...]] = mutations_in(globals())
