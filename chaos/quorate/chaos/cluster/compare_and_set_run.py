"""A simulated run in which nobody is there but clients that compete by conditional appends."""

from __future__ import annotations

from collections.abc import Sequence

from quorate.chaos.cluster.competition import CompetitionReport
from quorate.chaos.cluster.faults.kinds import Fault
from quorate.chaos.cluster.plan import Plan
from quorate.chaos.cluster.run import run_plan

__all__ = ["compete_for_seed"]


def compete_for_seed(seed: int, *, faults: Sequence[Fault] = ()) -> CompetitionReport:
    """``Violation`` (or another AssertionError) if the history is not linearizable."""
    report = run_plan(Plan.draw(seed, kinds=faults).only_competing()).competition
    assert report is not None
    return report
