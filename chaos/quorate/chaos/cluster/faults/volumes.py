"""Volumes that go and come back: what the kernel had not written to them is gone, in the same boot.

Kernels write pages back of their own accord, any of them at any time. So a volume may come back with any file
as it was at some moment, or as it was synced; with the cache witness, too (rule 30), which then tells of less
than it would. The fault model leaves a gap there: records that were appended after the witness was written
back, and before a higher number was on record. This fault stays out of it. It takes what is in the page cache
only if

- a higher number is on record than the volume will come back with: whoever looks must see the loss; or
- the process has served for long enough since then, with its lease and under one controller: by then a higher
  number has to be on record. Whether it is, is for the cluster to prove.

Nobody else has to be alive for it: the active controller may have been on the same volume.
"""

from __future__ import annotations

import random
from typing import Final

from quorate.broker.directory.cache_witness import CACHE_WITNESS_LAYOUT
from quorate.chaos.cluster.faults.serving import LOOK_EVERY_S, serves_for
from quorate.chaos.cluster.machine import SimMachine
from quorate.chaos.cluster.scene import MOMENT_S_RANGE, Scene
from quorate.chaos.cluster.view import active_controller
from quorate.controller.heard_witnesses import WITNESS_INTERVAL_S
from quorate.storage.data_directory_files import CACHE_WITNESS_NAME

__all__ = ["lose_page_cache"]

_WRITE_BACKS_MAX: Final = 3
#: a heartbeat, the interval, and what a slow quorum takes to put it on record
_ON_RECORD_S: Final = 3 * WITNESS_INTERVAL_S
#: of a dead broker: a session, and somebody who puts its end on record
_FENCED_S_MAX: Final = 4.0


async def lose_page_cache(scene: Scene, rng: random.Random) -> str | None:
    with scene.any_of(rng, _candidates(scene, rng)) as machine:
        if machine is None:
            return None
        write_backs = rng.randint(0, _WRITE_BACKS_MAX)
        for _ in range(write_backs):
            _write_back(machine, rng)
            await scene.rest(rng, MOMENT_S_RANGE)
        is_due = rng.random() < 0.5 and await serves_for(scene, machine, _ON_RECORD_S)
        if not machine.is_running:
            return None
        machine.kill()
        if not is_due and not await _is_known_to_have_more(scene, machine):
            return None
        if not scene.budget.spend_unsynced(machine):
            return None
        machine.lose_page_cache()
        await scene.rest(rng, MOMENT_S_RANGE)
        after = f", some of it written back {write_backs} times" if write_backs else ""
        return f"the volume of {machine.name} came back without what was not synced{after}"


def _candidates(scene: Scene, rng: random.Random) -> list[SimMachine]:
    """The active controller knows numbers that nobody else knows: half of the time it goes too."""
    active = active_controller(scene.cluster)
    if active is not None and active.config.is_broker and rng.random() < 0.5:
        return [active]
    return scene.cluster.brokers


def _write_back(machine: SimMachine, rng: random.Random) -> None:
    """Any files and directories: few or most of them."""
    share = rng.choice((0.2, 0.8))
    found = machine.disk.snapshot()
    for path in (*found.directories, *found.files):
        if rng.random() < share:
            machine.disk.write_back(f"/{path}")


async def _is_known_to_have_more(scene: Scene, machine: SimMachine) -> bool:
    """A higher number is on record than its volume would come back with; or it soon is."""
    clock = scene.cluster.clock
    kept = _number_on_device(machine)
    ends_at = clock.monotonic() + _FENCED_S_MAX
    while clock.monotonic() <= ends_at:
        registered = scene.image().brokers.get(machine.config.node_id)
        on_record = None if registered is None else registered.cache_witness
        if on_record is not None and (kept is None or kept < on_record):
            return True
        await clock.sleep(LOOK_EVERY_S)
    return False


def _number_on_device(machine: SimMachine) -> int | None:
    content = machine.disk.peek_durable(f"{machine.config.data_dir}/{CACHE_WITNESS_NAME}")
    return None if content is None else CACHE_WITNESS_LAYOUT.number_in(content)
