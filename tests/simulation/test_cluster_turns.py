"""Processes end and stand still at any await, also at those that take no time."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest

from quorate.chaos.cluster.faults.kinds import Fault
from quorate.chaos.cluster.run import run_seed
from quorate.chaos.cluster.trace import Trace
from quorate.chaos.sim.process import SimProcess, process_in

SEEDS: Final = range(1, 5)
AT_A_MOMENT: Final = (Fault.KILL_BROKER, Fault.KILL_CONTROLLER, Fault.LOSE_POWER, Fault.PAUSE)
AT_A_TURN: Final = (Fault.KILL_AT_A_TURN, Fault.LOSE_POWER_AT_A_TURN, Fault.PAUSE_AT_A_TURN)


def turns_ready(process: SimProcess) -> int:
    """How many more turns it is to have at this instant, beside the one that has come."""
    loop: Any = asyncio.get_running_loop()
    return sum(not each.cancelled() and process_in(each._context) is process for each in loop._ready)


@pytest.fixture
def victims(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Of each that was killed or paused: how many turns were ready."""
    ready: list[int] = []
    kill, freeze = SimProcess.kill, SimProcess.freeze

    def counting_kill(process: SimProcess) -> None:
        ready.append(turns_ready(process))
        kill(process)

    def counting_freeze(process: SimProcess) -> None:
        ready.append(turns_ready(process))
        freeze(process)

    monkeypatch.setattr(SimProcess, "kill", counting_kill)
    monkeypatch.setattr(SimProcess, "freeze", counting_freeze)
    return ready


def test_a_victim_that_is_hit_at_a_moment_has_nothing_to_do(victims: list[int]) -> None:
    """Which is why there are the others."""
    for seed in SEEDS:
        run_seed(seed, faults=AT_A_MOMENT)
    assert len(victims) > 2 * len(SEEDS)
    assert not any(victims)


@pytest.mark.parametrize("kind", AT_A_TURN)
def test_a_victim_that_is_hit_at_a_turn_is_in_the_middle_of_something(
    kind: Fault, victims: list[int]
) -> None:
    inflicted = 0
    for seed in SEEDS:
        inflicted += run_seed(seed, faults=[kind]).faults.get(kind, 0)
    assert len(victims) >= inflicted >= len(SEEDS)
    assert any(victims)


def test_the_turn_is_the_seeds_choice_and_no_other() -> None:
    stories = [run_seed(seed, faults=AT_A_TURN, trace=Trace()).story for seed in (1, 2, 1)]
    assert stories[0] == stories[2] != stories[1]
    assert len({line.rpartition(" ")[2] for line in stories[0]}) > 1
