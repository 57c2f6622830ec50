"""Processes that are killed or paused, or lose their power, at any of their turns.

The other faults come at moments of their own, and find their victims asleep: in simulated time whatever can
be done at an instant is done before the next one comes. These come in the middle of an instant, when the
victim has been given something to do and has not done it: a message was delivered, a sync has returned, a
task has handed over to another one. So a process may end at every await, also at those that take no time.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Final

from quorate.chaos.cluster.machine import SimMachine
from quorate.chaos.cluster.scene import LONG_S_RANGE, MOMENT_S_RANGE, SHORT_S_RANGE, Scene
from quorate.chaos.cluster.view import active_controller, leaders

__all__ = ["kill_at_a_turn", "lose_power_at_a_turn", "pause_at_a_turn"]

#: a busy process has some hundred of them in a second
_TURNS_MAX: Final = 150
_WITHIN_S: Final = 1.0


async def kill_at_a_turn(scene: Scene, rng: random.Random) -> str | None:
    def kill(machine: SimMachine) -> bool:
        machine.kill()
        return True

    return await _strike(scene, rng, "killed", kill, (MOMENT_S_RANGE, SHORT_S_RANGE, LONG_S_RANGE))


async def pause_at_a_turn(scene: Scene, rng: random.Random) -> str | None:
    def pause(machine: SimMachine) -> bool:
        machine.pause()
        return True

    return await _strike(scene, rng, "paused", pause, (MOMENT_S_RANGE, SHORT_S_RANGE, LONG_S_RANGE))


async def lose_power_at_a_turn(scene: Scene, rng: random.Random) -> str | None:
    def lose_power(machine: SimMachine) -> bool:
        """By then somebody else may have lost too much."""
        if not scene.budget.spend_unsynced(machine):
            return False
        machine.lose_power(rng)
        return True

    return await _strike(scene, rng, "took the power from", lose_power, (MOMENT_S_RANGE, SHORT_S_RANGE))


async def _strike(
    scene: Scene,
    rng: random.Random,
    what: str,
    strike: Callable[[SimMachine], bool],
    rests_s: tuple[tuple[float, float], ...],
) -> str | None:
    """``strike`` says whether it did something; ``rests_s``: for how long it may last."""
    with scene.any_of(rng, _victims(scene, rng)) as machine:
        if machine is None:
            return None
        turns = rng.randint(1, _TURNS_MAX)
        is_struck: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        with machine.ambushed(turns, lambda: is_struck.set_result(strike(machine))):
            await asyncio.wait([is_struck], timeout=_WITHIN_S)
        if not is_struck.done() or not is_struck.result():
            return None
        await scene.rest(rng, rng.choice(rests_s))
        return f"{what} {machine.name} at turn {turns}"


def _victims(scene: Scene, rng: random.Random) -> list[SimMachine]:
    """Half of the time those on whom most depends."""
    if rng.random() < 0.5:
        return list(scene.cluster.machines.values())
    active = active_controller(scene.cluster)
    return leaders(scene.cluster) + ([] if active is None else [active])
