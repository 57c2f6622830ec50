"""A coordinator takes a while to read its log, as it does where groups are many.

The logs of a simulated run are small, and a simulated disk answers in no time: without this nobody would ever
meet a coordinator that has taken over and does not know its groups yet (rule 63).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from quorate.broker.groups.shard import GroupShard
from quorate.chaos.sim.patch import Patch

__all__ = ["slow_loading"]

_LOADING_S: Final = (0.0, 0.05, 0.4)


@contextmanager
def slow_loading(rng: random.Random) -> Iterator[None]:
    """While it lasts, of all coordinators."""
    load = GroupShard.load

    async def load_later(shard: GroupShard) -> bool:
        await shard.context.clock.sleep(rng.choice(_LOADING_S))
        return await load(shard)

    with Patch() as patch:
        patch.setattr(GroupShard, "load", load_later)
        yield
