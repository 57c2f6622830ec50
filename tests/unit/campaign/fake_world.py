"""A world in which what becomes of a plan can be told from its seed; workers load it by its name."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from quorate.chaos.campaign.outcome import Failure, RunOutcome
from quorate.chaos.campaign.world import PlanDocument

__all__ = ["DYING", "EVENTS", "FAILING", "FAKE_WORLD", "FICKLE", "STUCK", "FakeWorld"]

FAKE_WORLD = "tests.unit.campaign.fake_world:FakeWorld"

EVENTS = list(range(12))
#: fails whenever events 2 and 7 are among those that are left
FAILING = range(1000, 2000)
#: never ends
STUCK = 2000
#: takes the process with it
DYING = 2001
#: fails, and not when it is traced
FICKLE = 2002


class FakeWorld:
    def draw(self, seed: int) -> PlanDocument:
        return {"seed": seed, "events": EVENTS}

    def events(self, plan: PlanDocument) -> Sequence[int]:
        return list(plan["events"])

    def without(self, plan: PlanDocument, events: Sequence[int]) -> PlanDocument:
        return {**plan, "events": [number for number in plan["events"] if number not in events]}

    def describe(self, plan: PlanDocument) -> Sequence[str]:
        return [f"event {number}" for number in plan["events"]]

    def run(self, plan: PlanDocument) -> RunOutcome:
        seed, events = plan["seed"], plan["events"]
        counters = {"runs": 1, "pid": os.getpid()}
        if seed == STUCK:
            while True:
                pass
        if seed == DYING:
            os._exit(9)
        if seed in FAILING and not {2, 7} <= set(events):
            # Fails as well, but in another way, which shrinking must not mistake for the first.
            return RunOutcome(seed, Failure("other", "not what was looked for"), counters)
        if seed in FAILING or seed == FICKLE:
            return RunOutcome(seed, Failure("lost-write", f"offset {seed} is gone"), counters)
        return RunOutcome(seed, None, counters, digest=f"{seed:08x}")

    def trace(self, plan: PlanDocument, write: Callable[[str], object]) -> RunOutcome:
        write(f"trace of {plan['seed']} with {plan['events']}")
        return RunOutcome(FICKLE) if plan["seed"] == FICKLE else self.run(plan)
