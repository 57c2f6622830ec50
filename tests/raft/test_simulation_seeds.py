"""The quorum under faults, many seeds of it. `make sim` runs as many more as asked.

Seeds are run in chunks, which spread over the workers. Each chunk also shows that its faults happened: a run
in which nothing broke would prove nothing.
"""

from __future__ import annotations

from typing import Final

import pytest

from quorate.chaos.raft.counters import Counters
from tests.seeds import run_seeds

SEEDS: Final = 1020
SEEDS_PER_CHUNK: Final = 30

#: per seed, on average over a chunk
FLOORS: Final = {
    "faults": 200.0,
    "steps": 700.0,
    "elections": 3.0,
    "truncations": 0.2,
    "snapshots_taken": 8.0,
    "snapshots_installed": 1.0,
    "voter_changes": 0.4,
    "transfers": 0.25,
    "recoveries": 0.35,
    "crashes": 3.75,
    "lost_unsynced_writes": 0.5,
    "damaged_tails": 0.5,
    "wipes": 0.15,
    "pauses": 1.0,
    "clock_changes": 0.2,
    "slow_disks": 0.8,
    "partitions": 5.0,
    "alarms": 2.0,
    "messages_cut_off": 25.0,
    "messages_dropped": 4.0,
    "messages_duplicated": 4.0,
    "messages_reordered": 50.0,
    "messages_straggling": 15.0,
    "proposals_acknowledged": 30.0,
    "proposals_refused": 6.0,
    "proposals_unknown": 3.0,
    "reads_checked": 5.0,
}


@pytest.mark.parametrize("first_seed", range(1, SEEDS + 1, SEEDS_PER_CHUNK))
def test_every_invariant_holds_whatever_happens(first_seed: int) -> None:
    total = Counters(**run_seeds("quorum", range(first_seed, first_seed + SEEDS_PER_CHUNK)))
    rare = {
        name: getattr(total, name) / SEEDS_PER_CHUNK
        for name, floor in FLOORS.items()
        if getattr(total, name) < floor * SEEDS_PER_CHUNK
    }
    assert rare == {}, "these hardly ever happened, per seed"


def test_every_counter_has_a_floor() -> None:
    counted = {name.replace(" ", "_") for name, _ in Counters().rows()} - {"faults_in_all"}
    assert counted - {"messages_sent"} == set(FLOORS) - {"faults"}
