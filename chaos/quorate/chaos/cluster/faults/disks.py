"""Disks that are lost, rot, fill up, or are slow.

A voter's disk may be lost too, but only an operator can replace the voter then: see the simulator of the
quorum. Here the disks that are wiped or put back from an old copy are those of brokers that are nothing else.
"""

from __future__ import annotations

import random
from typing import Final

from quorate.broker.directory.device_witness import DEVICE_WITNESS_LAYOUT
from quorate.chaos.cluster.faults.serving import LOOK_EVERY_S, serves_for
from quorate.chaos.cluster.faults.victims import brokers_to_harm, is_of_quorum, mere_brokers
from quorate.chaos.cluster.machine import SimMachine
from quorate.chaos.cluster.scene import LONG_S_RANGE, MOMENT_S_RANGE, SHORT_S_RANGE, Scene
from quorate.chaos.cluster.view import active_controller
from quorate.chaos.sim.disk import DiskSnapshot
from quorate.controller.heard_witnesses import WITNESS_INTERVAL_S
from quorate.storage.data_directory_files import DEVICE_WITNESS_NAME

__all__ = [
    "fill_disk",
    "lose_disk",
    "restore_copy_of_this_run",
    "restore_old_copy",
    "rot",
    "rot_journal",
    "slow_disk",
]

_ROOM_BYTES_RANGE: Final = (0, 20_000)
_SLOW_SYNC_S_RANGE: Final = (0.02, 0.4)


async def lose_disk(scene: Scene, rng: random.Random) -> str | None:
    with scene.any_of(rng, mere_brokers(scene), may=scene.budget.spend_disk) as machine:
        if machine is None:
            return None
        machine.kill()
        machine.wipe()
        await scene.rest(rng, SHORT_S_RANGE)
        return f"killed {machine.name} and wiped its disk"


async def restore_old_copy(scene: Scene, rng: random.Random) -> str | None:
    """A copy of a directory that is in use, and an operator who puts it back after a later start."""
    with scene.any_of(rng, mere_brokers(scene)) as machine:
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


async def restore_copy_of_this_run(scene: Scene, rng: random.Random) -> str | None:
    """A copy of a directory in use is put back before the next start, after a crash or a loss of power.

    Only if the device witness must tell it apart (rule 30): a number is on record that is not in the copy, or
    the process has served for so long since that one has to be. Whether it is, is for the cluster to prove.
    """
    with scene.any_of(rng, mere_brokers(scene)) as machine:
        if machine is None:
            return None
        copy = machine.disk.snapshot()
        if rng.random() < 0.5:
            is_old = await serves_for(scene, machine, _numbered_within_s(machine))
        else:
            is_old = await _gets_a_later_number(scene, machine, copy)
        if not is_old or not machine.is_running or not scene.budget.spend_disk(machine):
            return None
        end = rng.choice(("a crash", "a loss of power"))
        if end == "a crash":
            machine.kill()
        else:
            machine.lose_power(rng)
        machine.disk.restore(copy)
        await _change_controller(scene, rng)
        return f"put back a copy of the same run at {machine.name}, after {end}"


async def _change_controller(scene: Scene, rng: random.Random) -> None:
    """Half of the time the one that has heard the numbers is gone: then it counts what is on record."""
    active = active_controller(scene.cluster)
    hearers = [] if active is None or rng.random() < 0.5 else [active]
    with scene.any_of(rng, hearers) as hearer:
        if hearer is not None:
            hearer.kill()
        await scene.rest(rng, MOMENT_S_RANGE if hearer is None else SHORT_S_RANGE)


def _numbered_within_s(machine: SimMachine) -> float:
    """Two numbers, the second for good; a heartbeat, and what a slow quorum takes to put it on record."""
    return 2 * machine.config.broker_device_witness_interval_ms / 1000 + 3 * WITNESS_INTERVAL_S


async def _gets_a_later_number(scene: Scene, machine: SimMachine, copy: DiskSnapshot) -> bool:
    """On record, than the copy has; in time."""
    content = copy.files.get(f"{machine.config.data_dir}/{DEVICE_WITNESS_NAME}".lstrip("/"))
    number = None if content is None else DEVICE_WITNESS_LAYOUT.number_in(content)
    clock = scene.cluster.clock
    ends_at = clock.monotonic() + _numbered_within_s(machine)
    while clock.monotonic() < ends_at:
        await clock.sleep(LOOK_EVERY_S)
        registered = scene.image().brokers.get(machine.config.node_id)
        if registered is not None and registered.device_witness > (number or 0):
            return True
    return False


async def rot(scene: Scene, rng: random.Random) -> str | None:
    """A bit flips: in any file of a broker that is down, or in a log of one that runs.

    What a broker reads only when it starts would be found by the next start, whoever causes that: see below.
    What is a controller's on the same disk is not touched: see ``rot_journal``.
    """
    is_stopped = rng.random() < 0.5
    with scene.any_of(
        rng, brokers_to_harm(scene), may=lambda each: scene.budget.spend_disk(each, is_lasting=True)
    ) as machine:
        if machine is None:
            return None
        if is_stopped:
            machine.kill()
        flipped = _flip_a_bit(machine, rng, "/" if is_stopped else ".log", is_of_controller=False)
        if flipped is None:
            return None
        path, bit = flipped
        if is_stopped:
            machine.start()
        await scene.rest(rng, SHORT_S_RANGE)
        is_refused = not machine.is_running
        if is_refused and machine.config.is_controller:
            # A voter's directory must not be lost, nor be an old copy: the operator has the bit put right.
            machine.disk.flip_bit(f"/{path}", bit)
        elif is_refused:
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
        flipped = _flip_a_bit(machine, rng, "/", is_of_controller=True)
        if flipped is None:
            return None
        path, _ = flipped
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


def _flip_a_bit(
    machine: SimMachine, rng: random.Random, part: str, *, is_of_controller: bool
) -> tuple[str, int] | None:
    """In a file whose path contains ``part``: which file, and which bit."""
    files = machine.disk.snapshot().files
    paths = [
        path
        for path, content in files.items()
        if content and part in path and is_of_quorum(path) is is_of_controller
    ]
    if not paths:
        return None
    path = rng.choice(paths)
    bit = rng.randrange(8 * len(files[path]))
    machine.disk.flip_bit(f"/{path}", bit)
    return path, bit
