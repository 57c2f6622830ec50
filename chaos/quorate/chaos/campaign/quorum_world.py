"""The metadata quorum's Raft core alone, simulated event by event: thousands of steps in a tenth of a second.

It draws its faults while it runs, so a run cannot be taken apart.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from quorate.chaos.campaign.outcome import RunOutcome, failure_of
from quorate.chaos.campaign.world import PlanDocument
from quorate.chaos.raft.simulation import Simulation

__all__ = ["QuorumWorld"]


class QuorumWorld:
    def draw(self, seed: int) -> PlanDocument:
        return {"seed": seed}

    def events(self, plan: PlanDocument) -> Sequence[int]:  # noqa: ARG002  # whatever the plan
        return ()

    def without(self, plan: PlanDocument, events: Sequence[int]) -> PlanDocument:
        assert not events, "a run of the quorum cannot be taken apart"
        return plan

    def describe(self, plan: PlanDocument) -> Sequence[str]:  # noqa: ARG002  # whatever the plan
        return ()

    def run(self, plan: PlanDocument) -> RunOutcome:
        return _run(Simulation(plan["seed"]), plan["seed"])

    def trace(self, plan: PlanDocument, write: Callable[[str], object]) -> RunOutcome:
        simulation = Simulation(plan["seed"], with_trace=True)
        outcome = _run(simulation, plan["seed"])
        assert simulation.trace is not None
        write(f"seed {plan['seed']}: {simulation.conditions}")
        for line in simulation.trace.lines():
            write(line)
        write("every invariant held" if outcome.failure is None else outcome.failure.message)
        return outcome


def _run(simulation: Simulation, seed: int) -> RunOutcome:
    failure = None
    try:
        simulation.run()
    except Exception as error:  # noqa: BLE001  # whatever the code under test raises is a finding
        failure = failure_of(error)
    counters = dataclasses.asdict(simulation.counters)
    return RunOutcome(seed, failure, counters, simulation.digest())
