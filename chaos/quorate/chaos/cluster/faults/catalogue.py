"""Which function does what a kind of fault names.

Each takes the scene and a random generator of its own, does its damage, undoes it, and says what it did;
None: there was nothing to do it to, or the fault model does not allow it now.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping
from types import ModuleType
from typing import Final, TypeAlias

from quorate.chaos.cluster.faults import (
    clocks,
    disks,
    failing_disks,
    joining,
    network,
    operations,
    power,
    processes,
    recovery,
    turns,
    volumes,
)
from quorate.chaos.cluster.faults.kinds import Fault
from quorate.chaos.cluster.scene import Scene

__all__ = ["FAULTS", "Inflict"]

Inflict: TypeAlias = Callable[[Scene, random.Random], Awaitable[str | None]]

_FAMILIES: Final[tuple[ModuleType, ...]] = (
    processes,
    joining,
    turns,
    power,
    disks,
    failing_disks,
    volumes,
    network,
    clocks,
    operations,
    recovery,
)


def _collect() -> dict[Fault, Inflict]:
    found: dict[Fault, Inflict] = {
        Fault(name): getattr(family, name) for family in _FAMILIES for name in family.__all__
    }
    assert len(found) == len(Fault), [kind for kind in Fault if kind not in found]
    return found


#: by kind; the functions are named as the kinds are
FAULTS: Final[Mapping[Fault, Inflict]] = _collect()
