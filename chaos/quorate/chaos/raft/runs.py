"""One seed in this process, and what to say when it fails. Many at once: quorate.chaos.campaign."""

from __future__ import annotations

import traceback
from dataclasses import dataclass

from quorate.chaos.raft.counters import Counters
from quorate.chaos.raft.invariants import Violation
from quorate.chaos.raft.simulation import Simulation

__all__ = ["Replay", "SeedResult", "failure_report", "replay", "run_seed"]

_EVENTS_PER_NODE = 12


@dataclass(frozen=True, slots=True)
class SeedResult:
    seed: int
    counters: Counters
    #: None: every invariant held. Else what did not
    failure: str | None


@dataclass(frozen=True, slots=True)
class Replay:
    #: what the seed's world was like, what happened, and how it ended
    lines: list[str]
    failure: str | None


def run_seed(seed: int) -> SeedResult:
    simulation = Simulation(seed)
    failure = None
    try:
        simulation.run()
    except Exception as error:  # noqa: BLE001  # whatever the code under test raises is a finding
        failure = describe(error)
    return SeedResult(seed, simulation.counters, failure)


def describe(error: Exception) -> str:
    """A violation says all itself; anything else is a bug that needs its traceback."""
    if isinstance(error, Violation):
        return str(error)
    return f"{type(error).__name__}: {error}\n" + "".join(traceback.format_tb(error.__traceback__, limit=-6))


def replay(seed: int, *, last_per_node: int | None = None) -> Replay:
    """Run the seed, again perhaps, and tell what happened in it."""
    simulation = Simulation(seed, with_trace=True)
    assert simulation.trace is not None
    failure = None
    try:
        simulation.run()
    except Exception as error:  # noqa: BLE001  # as above
        failure = describe(error)
    events = simulation.trace.lines(last_per_node)
    end = failure or "every invariant held"
    return Replay([f"seed {seed}: {simulation.conditions}", *events, end], failure)


def failure_report(result: SeedResult) -> str:
    """For people: what failed, how to see it again, and what came before it."""
    seed = result.seed
    return "\n".join(
        [
            f"seed {seed} failed: {result.failure}",
            f"replay it with: quorate sim replay {seed} --world quorum",
            f"all events of it: add --trace -; the last {_EVENTS_PER_NODE} of each node:",
            *replay(seed, last_per_node=_EVENTS_PER_NODE).lines,
        ]
    )
