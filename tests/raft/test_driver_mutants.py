"""With one rule of the driver switched off, the storms go red: they look where it hurts.

That a failed sync ends the process is tested directly (test_driver_persistence.py): syncs fail too seldom in
a storm for it to matter there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from quorate.chaos.mutations.hunts import SeededHunt
from quorate.chaos.mutations.mutation import Mutation
from quorate.chaos.sim.patch import Patch
from quorate.metadata.raft.driver import Driver
from quorate.metadata.raft.persistence import Persistence
from quorate.metadata.raft.ready import Ready
from tests.mutants import assert_is_noticed
from tests.raft.quorum_storm import run_storm

write = Persistence._write
dispatch = Driver._dispatch


async def _tell_before_the_sync_is_done(self: Persistence, batch: Sequence[Ready]) -> None:
    for ready in batch:
        if ready.hard_state is not None or ready.snapshot is not None:
            await write(self, batch)
            return
    for ready in batch:
        self._directory.append(ready.entries)
    asyncio.get_running_loop().create_task(self._directory.sync())


async def _forget_the_vote(self: Persistence, batch: Sequence[Ready]) -> None:
    await write(self, [replace(ready, hard_state=None) for ready in batch])


def _send_before_it_is_durable(self: Driver, ready: Ready) -> None:
    early = replace(ready, send_now=(*ready.send_now, *ready.send_after_persist), send_after_persist=())
    dispatch(self, early)


STORM = SeededHunt("storm over a quorum", run_storm, seeds_max=10, notices=(Exception,))


@pytest.mark.parametrize(
    ("owner", "name", "replacement"),
    [
        pytest.param(Persistence, "_write", _tell_before_the_sync_is_done, id="sync not waited for"),
        pytest.param(Persistence, "_write", _forget_the_vote, id="hard state not written"),
        pytest.param(Driver, "_dispatch", _send_before_it_is_durable, id="sent before durable"),
    ],
)
def test_storm_notices_that_a_rule_is_switched_off(
    owner: type, name: str, replacement: Callable[..., object]
) -> None:
    def apply(patch: Patch) -> None:
        patch.setattr(owner, name, replacement)

    assert_is_noticed(Mutation(name, (38,), "", apply, STORM))
