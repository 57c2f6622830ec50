"""Processes that are killed, paused and stopped. What is in the page cache survives all of it."""

from __future__ import annotations

import random
from typing import Final

from quorate.chaos.cluster.machine import SimMachine
from quorate.chaos.cluster.scene import LONG_S_RANGE, MOMENT_S_RANGE, SHORT_S_RANGE, Scene
from quorate.chaos.cluster.view import active_controller, leaders
from quorate.chaos.sim.disk_faults import Operation, ProcessDied
from quorate.chaos.sim.network import LinkFaults

__all__ = [
    "crash_loop",
    "kill_all_brokers",
    "kill_at_a_disk_operation",
    "kill_broker",
    "kill_broker_and_restart_at_once",
    "kill_controller",
    "kill_everything",
    "kill_leader",
    "kill_one_by_one",
    "pause",
    "pause_leader",
    "stop_cleanly",
]

_OPERATIONS_MAX: Final = 60
_CRASHES_MAX: Final = 4
_REPEATED_SHARE: Final = 0.5
#: what it asks the controllers comes twice, up to some starts later
_REPEATED: Final = LinkFaults(duplicate_probability=0.5, repeated_within_s=1.5)


async def _kill_one(scene: Scene, rng: random.Random, machines: list[SimMachine]) -> str | None:
    with scene.any_of(rng, machines) as machine:
        if machine is None:
            return None
        machine.kill()
        await scene.rest(rng, rng.choice((MOMENT_S_RANGE, SHORT_S_RANGE, LONG_S_RANGE)))
        return f"killed {machine.name}"


async def kill_broker(scene: Scene, rng: random.Random) -> str | None:
    return await _kill_one(scene, rng, scene.cluster.brokers)


async def kill_leader(scene: Scene, rng: random.Random) -> str | None:
    return await _kill_one(scene, rng, leaders(scene.cluster))


async def kill_controller(scene: Scene, rng: random.Random) -> str | None:
    active = active_controller(scene.cluster)
    is_active_meant = active is not None and rng.random() < 0.7
    return await _kill_one(scene, rng, [active] if is_active_meant and active else scene.cluster.controllers)


async def kill_broker_and_restart_at_once(scene: Scene, rng: random.Random) -> str | None:
    with scene.any_of(rng, scene.cluster.brokers) as machine:
        if machine is None:
            return None
        machine.kill()
    return f"killed {machine.name}, back at once"


async def crash_loop(scene: Scene, rng: random.Random) -> str | None:
    """Killed again and again while it starts; a process may be heard of when the next but one is there."""
    with scene.any_of(rng, scene.cluster.brokers) as machine:
        if machine is None:
            return None
        crashes = rng.randint(2, _CRASHES_MAX)
        is_repeated = rng.random() < _REPEATED_SHARE
        controllers = scene.cluster.controllers if is_repeated else []
        to_controllers = [(machine.name, each.name) for each in controllers if each is not machine]
        with scene.worse(to_controllers, _REPEATED):
            for _ in range(crashes):
                if machine.is_running:
                    machine.kill()
                machine.start()
                await scene.rest(rng, rng.choice((MOMENT_S_RANGE, SHORT_S_RANGE)))
        if machine.is_running:
            machine.kill()
        what = ", and repeated what it said" if is_repeated else ""
        return f"killed {machine.name} {crashes + 1} times in a row{what}"


async def _kill_many(scene: Scene, rng: random.Random, machines: list[SimMachine]) -> str | None:
    victims = scene.free(machines)
    if not victims:
        return None
    with scene.holding(victims):
        for machine in victims:
            machine.kill()
        for machine in rng.sample(victims, k=len(victims)):
            await scene.rest(rng, MOMENT_S_RANGE)
            scene.bring_back(machine)
    return f"killed at once: {_names(victims)}"


async def kill_all_brokers(scene: Scene, rng: random.Random) -> str | None:
    return await _kill_many(scene, rng, scene.cluster.brokers)


async def kill_everything(scene: Scene, rng: random.Random) -> str | None:
    return await _kill_many(scene, rng, list(scene.cluster.machines.values()))


async def kill_one_by_one(scene: Scene, rng: random.Random) -> str | None:
    """The ISR shrinks to the last one, and there the power fails. Any of them may be back first."""
    brokers = scene.free(scene.cluster.brokers)
    if not brokers:
        return None
    order = rng.sample(brokers, k=len(brokers))
    *killed, last = order
    with scene.holding(brokers):
        for machine in killed:
            if machine.is_running:
                machine.kill()
            await scene.rest(rng, SHORT_S_RANGE)
        is_power_lost = last.is_running and scene.budget.spend_unsynced(last)
        if is_power_lost:
            last.lose_power(rng)
        elif last.is_running:
            last.kill()
        for machine in rng.sample(brokers, k=len(brokers)):
            await scene.rest(rng, SHORT_S_RANGE)
            scene.bring_back(machine)
    return f"killed one by one: {_names(order)}{', which lost its power' if is_power_lost else ''}"


async def kill_at_a_disk_operation(scene: Scene, rng: random.Random) -> str | None:
    """Before any operation, and of a write any part may have been done."""
    with scene.any_of(rng, scene.cluster.machines.values()) as machine:
        if machine is None:
            return None
        left = rng.randint(1, _OPERATIONS_MAX)
        died_at: list[Operation] = []

        def die(operation: Operation) -> None:
            nonlocal left
            left -= 1
            if left == 0 and machine.is_running:
                died_at.append(operation)
                machine.kill()
                raise ProcessDied(written=rng.randint(0, operation.length))
            if died_at:
                # Python unwinds what a real process would not: it must not touch the disk any more.
                raise ProcessDied

        machine.disk.fault_hook = die
        try:
            await scene.rest(rng, SHORT_S_RANGE)
        finally:
            machine.disk.fault_hook = None
        if not died_at:
            return None
        await scene.rest(rng, MOMENT_S_RANGE)
        return f"killed {machine.name} at {died_at[0].name} of {died_at[0].path}"


async def _pause_one(scene: Scene, rng: random.Random, machines: list[SimMachine]) -> str | None:
    with scene.any_of(rng, machines) as machine:
        if machine is None:
            return None
        machine.pause()
        await scene.rest(rng, rng.choice((SHORT_S_RANGE, LONG_S_RANGE)))
        return f"paused {machine.name}"


async def pause(scene: Scene, rng: random.Random) -> str | None:
    return await _pause_one(scene, rng, list(scene.cluster.machines.values()))


async def pause_leader(scene: Scene, rng: random.Random) -> str | None:
    return await _pause_one(scene, rng, leaders(scene.cluster))


async def stop_cleanly(scene: Scene, rng: random.Random) -> str | None:
    with scene.any_of(rng, scene.cluster.machines.values()) as machine:
        if machine is None:
            return None
        await machine.stop()
        await scene.rest(rng, SHORT_S_RANGE)
        return f"restarted {machine.name}"


def _names(machines: list[SimMachine]) -> str:
    return " ".join(each.name for each in machines)
