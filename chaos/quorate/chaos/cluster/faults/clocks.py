"""Clocks that are wrong.

Wall clocks may jump anywhere: they only stamp what people read, and what retention by age goes by.
Monotonic clocks may run at different rates, as far as the lease assumes (rule 37): it must have ended on the
broker's clock before the session ends on the controller's. A lease is at most two thirds of a session, so a
broker's clock may run a third slower than a controller's. Five per cent each way is far more than real clocks
drift, and inside that.
"""

from __future__ import annotations

import random
from typing import Final

from quorate.chaos.cluster.scene import LONG_S_RANGE, Scene

__all__ = ["drift", "jump_wall_clock"]

_RATE_RANGE: Final = (0.95, 1.05)
_JUMP_MS: Final = 6 * 3_600_000


async def jump_wall_clock(scene: Scene, rng: random.Random) -> str | None:
    machine = rng.choice(list(scene.cluster.machines.values()))
    by_ms = rng.randint(-_JUMP_MS, _JUMP_MS)
    machine.clock.jump_wall(by_ms)
    return f"the wall clock of {machine.name} jumped by {by_ms} ms"


async def drift(scene: Scene, rng: random.Random) -> str | None:
    machine = rng.choice(list(scene.cluster.machines.values()))
    rate = rng.uniform(*_RATE_RANGE)
    machine.clock.rate = rate
    await scene.rest(rng, LONG_S_RANGE)
    machine.clock.rate = 1.0
    return f"the clock of {machine.name} ran at {rate:.3f}"
