"""The controller under random registrations, failures, elections, ISR changes and moves.

`make test` takes the same walks every time. For more, and others:

    QUORATE_CONTROLLER_WALKS=5000 QUORATE_CONTROLLER_SEED=1000 pytest -k whatever tests/unit/controller
"""

from __future__ import annotations

import os
from collections import Counter
from typing import Final

from quorate.chaos.models.controller.controller_model import walk

_WALKS: Final = int(os.environ.get("QUORATE_CONTROLLER_WALKS", "60"))
_FIRST_SEED: Final = int(os.environ.get("QUORATE_CONTROLLER_SEED", "0"))
_STEPS: Final = 400

#: each must have happened so often for every hundred walks, or the walks have proved little
_FLOORS: Final = {
    "commits": 2_000,
    "registered": 1_000,
    "registered: DUPLICATE_BROKER_REGISTRATION": 100,
    "registered: UNEXPECTED_BROKER_EPOCH": 20,
    "process crashes": 300,
    "power losses": 100,
    "replicas that lost entries": 50,
    "lost disks": 30,
    "restored copies": 10,
    "damaged replicas": 50,
    "fenced": 500,
    "pieces of a fencing": 100,
    "pieces of a registration": 20,
    "missing leaders": 1,
    "unfenced": 1_000,
    "controlled shutdowns": 40,
    "alter: accepted": 1_000,
    "alter: FENCED_LEADER_EPOCH": 100,
    "alter: INVALID_UPDATE_VERSION": 300,
    "alter: INELIGIBLE_REPLICA": 100,
    "altered: STALE_BROKER_EPOCH": 20,
    "MinISR": 150,
    "reassigned": 100,
    "moves completed": 50,
    "cancelled": 100,
    "moved back": 20,
    "drained": 30,
    "durability": 100,
    "synced": 30,
    "recovered": 5,
}


def test_no_acknowledged_record_is_lost_whatever_happens_within_the_fault_model() -> None:
    counts: Counter[str] = Counter()
    for seed in range(_FIRST_SEED, _FIRST_SEED + _WALKS):
        counts += walk(seed, steps=_STEPS).counts
    too_rare = {name: counts[name] for name, floor in _FLOORS.items() if counts[name] * 100 < floor * _WALKS}
    assert not too_rare
