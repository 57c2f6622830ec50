"""One simulated run of clients that compete by conditional appends, from a seed to a verdict."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from quorate.chaos.cluster.checks import Violation
from quorate.chaos.cluster.compare_and_set import CompareAndSetClients
from quorate.chaos.cluster.compare_and_set_history import EMPTY_LOG, CompareAndSetHistory, log_step
from quorate.chaos.cluster.linearizability import Stuck, linearize
from quorate.chaos.cluster.nemesis import Fault
from quorate.chaos.cluster.scenario import Scenario
from quorate.chaos.sim.clock import Simulation, run_simulation

__all__ = ["CompareAndSetReport", "compete_for_seed"]

_CLIENTS: Final = 4
_FAULTS_S: Final = 8.0
_TIME_LIMIT_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class CompareAndSetReport:
    seed: int
    story: tuple[str, ...]
    appended: int
    mismatches: int
    unknown: int
    refused: int
    virtual_s: float


def compete_for_seed(seed: int, *, faults: Sequence[Fault] = ()) -> CompareAndSetReport:
    """``Violation`` (or another AssertionError) if the history is not linearizable."""

    async def main(simulation: Simulation) -> CompareAndSetReport:
        scenario = await Scenario.start(simulation, partitions=1)
        return await _run(simulation, scenario, faults)

    return run_simulation(main, seed=seed, time_limit_s=_TIME_LIMIT_S)


async def _run(simulation: Simulation, scenario: Scenario, faults: Sequence[Fault]) -> CompareAndSetReport:
    history = CompareAndSetHistory()
    (partition,) = scenario.partitions
    clients = CompareAndSetClients(scenario.cluster, history, partition)
    tasks = [
        asyncio.create_task(clients.compete(f"c{number}"), name=f"client-{number}")
        for number in range(_CLIENTS)
    ]
    await scenario.suffer(_FAULTS_S, faults)
    clients.end()
    await asyncio.gather(*tasks)
    await scenario.until_quiet()
    committed = scenario.committed()[partition]
    history.holds_at_the_end([committed[offset] for offset in sorted(committed)])
    try:
        linearize(history.operations, EMPTY_LOG, log_step)
    except Stuck as stuck:
        raise Violation(f"{partition} is not linearizable: {stuck}") from stuck
    return CompareAndSetReport(
        seed=simulation.seed,
        story=tuple(scenario.story),
        appended=history.appended,
        mismatches=history.mismatches,
        unknown=history.unknown,
        refused=history.refused,
        virtual_s=scenario.cluster.clock.monotonic(),
    )
