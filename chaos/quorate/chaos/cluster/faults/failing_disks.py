"""Disks that answer with an error: syncs, reads, writes and renames that fail.

What a sync that failed should have made durable is in the page cache, looks well, and will never be on the
device. Whoever is told so must end, and say nothing that rests on it (rule 45): whether it ends is looked at
here, and what it said by all that is checked anyway. Names that a directory was to be synced for are another
matter: file systems journal them, so they are not forgotten, only late.

Any other error may be the end of the process, or of one log. Then an operator has the disk seen to, and
starts the node anew: a log that could not be written takes nothing until then.

A broker that was told of any of these knows less of its disk than it did, and says so when it comes back
(rule 31): it counts as one that has lost something until it is in sync again. A controller has lost nothing.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final

from quorate.chaos.checks.violation import Violation
from quorate.chaos.cluster.faults.victims import brokers_to_harm, is_of_quorum
from quorate.chaos.cluster.machine import SimMachine
from quorate.chaos.cluster.scene import LONG_S_RANGE, MOMENT_S_RANGE, SHORT_S_RANGE, Scene
from quorate.chaos.cluster.view import active_controller
from quorate.chaos.sim.disk_faults import Operation, ShortWrite

__all__ = [
    "fail_read",
    "fail_rename",
    "fail_sync",
    "fail_sync_of_controller",
    "fail_sync_of_directory",
    "fail_write",
]

_READS: Final = ("pread", "read_file")
_WRITES: Final = ("pwrite", "pwritev", "truncate")
_RENAMES: Final = ("rename",)
#: how many succeed before one fails; metadata changes seldom
_SYNCS_SPARED: Final = (0, 0, 1, 2, 5)
#: any of its files, or one that is synced even more seldom
_PARTS_OF_QUORUM: Final = ("", "", ".snapshot")
#: for the others: a start is short, and a broker that runs is busy
_SPARED_MAX: Final = (0, 4, 30)
#: of a process that knows that it must
_ENDS_WITHIN_S: Final = 0.5
_LOOK_EVERY_S: Final = 0.05


@dataclass(slots=True)
class _Failing:
    """A hook: one operation fails; if it is ``lasting``, all others that are meant of that path do, too."""

    names: Collection[str]
    is_meant: Callable[[str], bool]
    #: so many succeed first
    spared: int = 0
    lasting: bool = False
    #: of a write that fails, any part may have been done; None: nothing is
    parts: random.Random | None = None
    failed: list[Operation] = field(default_factory=list)

    def __call__(self, operation: Operation) -> None:
        if operation.name not in self.names or not self.is_meant(operation.path):
            return
        if self.failed:
            if not self.lasting or operation.path != self.failed[0].path:
                return
        elif self.spared:
            self.spared -= 1
            return
        self.failed.append(operation)
        if self.parts is not None and operation.length and operation.name != "truncate":
            raise ShortWrite(errno.EIO, written=self.parts.randrange(operation.length))
        raise OSError(errno.EIO, os.strerror(errno.EIO), operation.path)


# -- syncs


async def fail_sync(scene: Scene, rng: random.Random) -> str | None:
    """Of a broker's file, once."""
    with scene.any_of(
        rng, brokers_to_harm(scene), may=lambda each: scene.budget.spend_disk(each, is_lasting=True)
    ) as machine:
        if machine is None:
            return None
        failing = _Failing(("fdatasync",), lambda path: not is_of_quorum(path))
        return await _fail_a_sync(scene, rng, machine, failing, SHORT_S_RANGE)


async def fail_sync_of_controller(scene: Scene, rng: random.Random) -> str | None:
    """Of its journal, its vote, a snapshot or their directory; half of the time the power fails next."""
    active = active_controller(scene.cluster)
    is_active_meant = active is not None and rng.random() < 0.5
    machines = [active] if is_active_meant and active else scene.cluster.controllers
    with scene.any_of(rng, machines) as machine:
        if machine is None:
            return None
        part = rng.choice(_PARTS_OF_QUORUM)
        spared = 0 if part else rng.choice(_SYNCS_SPARED)
        failing = _Failing(
            ("fdatasync", "fsync_directory"), lambda path: is_of_quorum(path) and part in path, spared
        )
        told = await _fail_a_sync(scene, rng, machine, failing, LONG_S_RANGE)
        if told is None or rng.random() < 0.5 or not scene.budget.spend_unsynced(machine):
            return told
        machine.lose_power(rng)
        await scene.rest(rng, MOMENT_S_RANGE)
        return f"{told}, and then the power"


async def fail_sync_of_directory(scene: Scene, rng: random.Random) -> str | None:
    """Of any node; half of the time the power fails next, and takes the names."""
    with scene.any_of(rng, scene.cluster.machines.values(), may=scene.budget.spend_unsynced) as machine:
        if machine is None:
            return None
        spared = rng.choice(_SYNCS_SPARED)
        failing = _Failing(("fsync_directory",), lambda _: True, spared)
        told = await _fail_a_sync(scene, rng, machine, failing, LONG_S_RANGE)
        if told is None or rng.random() < 0.5:
            return told
        machine.lose_power(rng)
        await scene.rest(rng, MOMENT_S_RANGE)
        return f"{told}, and then the power"


async def _fail_a_sync(
    scene: Scene, rng: random.Random, machine: SimMachine, failing: _Failing, rest_s: tuple[float, float]
) -> str | None:
    """None: nothing was synced in that time. Else the process has ended."""
    machine.disk.fault_hook = failing
    try:
        await scene.rest(rng, rest_s)
    finally:
        machine.disk.fault_hook = None
    if not failing.failed:
        return None
    path = failing.failed[0].path
    if not await _ends(scene, machine):
        raise Violation(f"{machine.name} goes on after a sync of {path} has failed", check="failed-sync")
    return f"a sync of {path} failed at {machine.name}"


async def _ends(scene: Scene, machine: SimMachine) -> bool:
    """Nobody starts it again while it is held."""
    clock = scene.cluster.clock
    ends_at = clock.monotonic() + _ENDS_WITHIN_S
    while machine.is_running and clock.monotonic() < ends_at:
        await clock.sleep(_LOOK_EVERY_S)
    return not machine.is_running


# -- everything else


async def fail_read(scene: Scene, rng: random.Random) -> str | None:
    return await _fail_at_any(scene, rng, _READS)


async def fail_write(scene: Scene, rng: random.Random) -> str | None:
    """Of some nothing was written, of others a part."""
    return await _fail_at_any(scene, rng, _WRITES)


async def fail_rename(scene: Scene, rng: random.Random) -> str | None:
    return await _fail_at_any(scene, rng, _RENAMES)


async def _fail_at_any(scene: Scene, rng: random.Random, names: Collection[str]) -> str | None:
    """Of a node that runs, or while one starts."""
    with scene.any_of(rng, scene.cluster.machines.values(), may=scene.budget.spend_disk) as machine:
        if machine is None:
            return None
        failing = _Failing(
            names,
            lambda _: True,
            spared=rng.randint(0, rng.choice(_SPARED_MAX)),
            lasting=rng.random() < 0.5,
            parts=rng if rng.random() < 0.5 else None,
        )
        is_starting = rng.random() < 0.5
        if is_starting:
            machine.kill()
        with scene.budget.harming(machine, lambda: bool(failing.failed)):
            machine.disk.fault_hook = failing
            try:
                if is_starting:
                    machine.start()
                await scene.rest(rng, rng.choice((SHORT_S_RANGE, LONG_S_RANGE)))
            finally:
                machine.disk.fault_hook = None
            has_ended = not machine.is_running
            if failing.failed and not has_ended:
                await _restart(machine, rng)
        if not failing.failed:
            return None
        first = failing.failed[0]
        how = "which ended" if has_ended else "which was restarted"
        when = " while it started" if is_starting else ""
        return f"{first.name} of {first.path} failed {_times(failing)} at {machine.name}{when}, {how}"


async def _restart(machine: SimMachine, rng: random.Random) -> None:
    """By an operator, of whom nobody knows how patient he is."""
    if rng.random() < 0.5:
        await machine.stop()
    else:
        machine.kill()


def _times(failing: _Failing) -> str:
    count = len(failing.failed)
    return "once" if count == 1 else f"{count} times"
