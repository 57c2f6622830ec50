"""Whether a broker serves without a break: what it tells is heard then, and goes on record."""

from __future__ import annotations

from typing import Final

from quorate.chaos.cluster.machine import SimMachine
from quorate.chaos.cluster.scene import Scene
from quorate.chaos.cluster.view import active_controller

__all__ = ["LOOK_EVERY_S", "serves_for"]

LOOK_EVERY_S: Final = 0.05


async def serves_for(scene: Scene, machine: SimMachine, seconds: float) -> bool:
    """Without a break, under one controller: numbers were heard, and are on record."""
    clock = scene.cluster.clock
    term = _term(scene)
    ends_at = clock.monotonic() + seconds
    while clock.monotonic() < ends_at:
        await clock.sleep(LOOK_EVERY_S)
        if not _has_a_lease(machine) or term is None or _term(scene) != term:
            return False
    return True


def _has_a_lease(machine: SimMachine) -> bool:
    broker = machine.broker
    return broker is not None and broker._lease.is_valid  # noqa: SLF001  # a fault sees what nobody is told


def _term(scene: Scene) -> int | None:
    active = active_controller(scene.cluster)
    controller = None if active is None else active.controller
    return None if controller is None else controller.term
