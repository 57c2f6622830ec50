"""Power that fails: what was not synced is gone, or torn, or partly there."""

from __future__ import annotations

import random

from quorate.chaos.cluster.scene import MOMENT_S_RANGE, SHORT_S_RANGE, Scene

__all__ = ["lose_power", "lose_power_everywhere"]


async def lose_power(scene: Scene, rng: random.Random) -> str | None:
    with scene.any_of(rng, scene.cluster.machines.values(), may=scene.budget.spend_unsynced) as machine:
        if machine is None:
            return None
        machine.lose_power(rng)
        await scene.rest(rng, SHORT_S_RANGE)
        return f"power failed at {machine.name}"


async def lose_power_everywhere(scene: Scene, rng: random.Random) -> str | None:
    """Where everything is synced. Controllers too: their log always is."""
    machines = scene.free(scene.cluster.machines.values())
    if not machines or not scene.budget.is_everything_synced:
        return None
    with scene.holding(machines):
        for machine in machines:
            machine.lose_power(rng)
        for machine in rng.sample(machines, k=len(machines)):
            scene.bring_back(machine)
            await scene.rest(rng, MOMENT_S_RANGE)
    return "power failed everywhere"
