"""Disks that are lost, rot, fill up, fail to sync, or are slow.

A voter's disk may be lost too, but only an operator can replace the voter then: see the simulator of the
quorum. Here the disks that are wiped or put back from an old copy are those of brokers that are nothing else.
"""

from __future__ import annotations

import errno
import os
import random
from typing import Final

from quorate.chaos.cluster.machine import SimMachine
from quorate.chaos.cluster.scene import LONG_S_RANGE, MOMENT_S_RANGE, SHORT_S_RANGE, Scene
from quorate.chaos.sim.disk_faults import Operation

__all__ = [
    "fail_sync",
    "fill_disk",
    "lose_disk",
    "restore_old_copy",
    "rot",
    "rot_journal",
    "slow_disk",
]

_ROOM_BYTES_RANGE: Final = (0, 20_000)
_SLOW_SYNC_S_RANGE: Final = (0.02, 0.4)


async def lose_disk(scene: Scene, rng: random.Random) -> str | None:
    with scene.any_of(rng, _mere_brokers(scene), may=scene.budget.spend_disk) as machine:
        if machine is None:
            return None
        machine.kill()
        machine.wipe()
        await scene.rest(rng, SHORT_S_RANGE)
        return f"killed {machine.name} and wiped its disk"


async def restore_old_copy(scene: Scene, rng: random.Random) -> str | None:
    """A copy of a directory that is in use, and an operator who puts it back after a later start.

    Within one run of the process nothing would tell it from what a crash leaves: see the fault model.
    """
    with scene.any_of(rng, _mere_brokers(scene)) as machine:
        if machine is None:
            return None
        copy = machine.disk.snapshot()
        machine.kill()
        machine.start()
        await scene.rest(rng, LONG_S_RANGE)
        if not machine.is_ready or not scene.budget.spend_disk(machine):
            return None
        machine.kill()
        machine.disk.restore(copy)
        await scene.rest(rng, MOMENT_S_RANGE)
        return f"put back an old copy of the disk of {machine.name}"


async def rot(scene: Scene, rng: random.Random) -> str | None:
    """A bit flips: in any file of a broker that is down, or in a log of one that runs.

    What a broker reads only when it starts would be found by the next start, whoever causes that: see below.
    """
    is_stopped = rng.random() < 0.5
    with scene.any_of(
        rng, _mere_brokers(scene), may=lambda each: scene.budget.spend_disk(each, is_lasting=True)
    ) as machine:
        if machine is None:
            return None
        if is_stopped:
            machine.kill()
        path = _flip_a_bit(machine, rng, "/" if is_stopped else ".log")
        if path is None:
            return None
        if is_stopped:
            machine.start()
        await scene.rest(rng, SHORT_S_RANGE)
        is_refused = not machine.is_running
        if is_refused:
            # It does not know any more whose disk it has: the operator gives it a new one.
            machine.wipe()
        how = (", which was down" if is_stopped else "") + (" and refused to start" if is_refused else "")
        return f"a bit of {path} rotted at {machine.name}{how}"


async def rot_journal(scene: Scene, rng: random.Random) -> str | None:
    """Of a voter that is down. It starts, and has to catch up, or refuses to; then the bit is put right."""
    with scene.any_of(rng, scene.cluster.controllers) as machine:
        if machine is None:
            return None
        machine.kill()
        before = machine.disk.snapshot()
        path = _flip_a_bit(machine, rng, "/quorum/")
        if path is None:
            return None
        machine.start()
        await scene.rest(rng, SHORT_S_RANGE)
        is_refused = not machine.is_running
        if is_refused:
            machine.disk.restore(before)
        return f"a bit of {path} rotted at {machine.name}{', which refused to start' if is_refused else ''}"


async def fill_disk(scene: Scene, rng: random.Random) -> str | None:
    with scene.any_of(rng, scene.cluster.machines.values()) as machine:
        if machine is None:
            return None
        machine.disk.capacity_bytes = machine.disk.used_bytes + rng.randint(*_ROOM_BYTES_RANGE)
        try:
            await scene.rest(rng, rng.choice((SHORT_S_RANGE, LONG_S_RANGE)))
        finally:
            machine.disk.capacity_bytes = None
        return f"the disk of {machine.name} was full"


async def fail_sync(scene: Scene, rng: random.Random) -> str | None:
    """Once. What it should have made durable is in the cache, and will never be on the device."""
    with scene.any_of(
        rng, _mere_brokers(scene), may=lambda each: scene.budget.spend_disk(each, is_lasting=True)
    ) as machine:
        if machine is None:
            return None
        failed: list[str] = []

        def fail(operation: Operation) -> None:
            if operation.name == "fdatasync" and not failed:
                failed.append(operation.path)
                raise OSError(errno.EIO, os.strerror(errno.EIO), operation.path)

        machine.disk.fault_hook = fail
        try:
            await scene.rest(rng, SHORT_S_RANGE)
        finally:
            machine.disk.fault_hook = None
        return f"a sync of {failed[0]} failed at {machine.name}" if failed else None


async def slow_disk(scene: Scene, rng: random.Random) -> str | None:
    with scene.any_of(rng, scene.cluster.machines.values()) as machine:
        if machine is None:
            return None
        usual = machine.disk.sync_delay_s
        machine.disk.sync_delay_s = rng.uniform(*_SLOW_SYNC_S_RANGE)
        try:
            await scene.rest(rng, rng.choice((SHORT_S_RANGE, LONG_S_RANGE)))
        finally:
            machine.disk.sync_delay_s = usual
        return f"the disk of {machine.name} was slow"


def _mere_brokers(scene: Scene) -> list[SimMachine]:
    return [each for each in scene.cluster.brokers if not each.config.is_controller]


def _flip_a_bit(machine: SimMachine, rng: random.Random, part: str) -> str | None:
    """In a file whose path contains ``part``."""
    files = machine.disk.snapshot().files
    paths = [path for path, content in files.items() if content and part in path]
    if not paths:
        return None
    path = rng.choice(paths)
    machine.disk.flip_bit(f"/{path}", rng.randrange(8 * len(files[path])))
    return path
