"""Whole clusters: real controllers, brokers and clients, each run from a plan that can be taken apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quorate.chaos.campaign.outcome import Failure, RunOutcome, failure_of
from quorate.chaos.campaign.trace_text import describe_plan, render_trace
from quorate.chaos.campaign.world import PlanDocument
from quorate.chaos.cluster.plan import Plan
from quorate.chaos.cluster.run import RunReport, run_plan
from quorate.chaos.cluster.trace import Trace

__all__ = ["ClusterWorld"]


class ClusterWorld:
    def draw(self, seed: int) -> PlanDocument:
        return Plan.draw(seed).to_json()

    def events(self, plan: PlanDocument) -> Sequence[int]:
        return [event["number"] for event in plan["events"]]

    def without(self, plan: PlanDocument, events: Sequence[int]) -> PlanDocument:
        return Plan.from_json(plan).without(events).to_json()

    def describe(self, plan: PlanDocument) -> Sequence[str]:
        return list(describe_plan(Plan.from_json(plan)))

    def run(self, plan: PlanDocument) -> RunOutcome:
        return _run(Plan.from_json(plan), None)

    def trace(self, plan: PlanDocument, write: Callable[[str], object]) -> RunOutcome:
        parsed, trace = Plan.from_json(plan), Trace()
        outcome = _run(parsed, trace)
        for line in render_trace(parsed, trace.lines, outcome.failure):
            write(line)
        return outcome


def _run(plan: Plan, trace: Trace | None) -> RunOutcome:
    failure: Failure
    try:
        report = run_plan(plan, trace=trace)
    except Exception as error:  # noqa: BLE001  # whatever the code under test raises is a finding
        failure = failure_of(error)
        return RunOutcome(plan.seed, failure)
    return RunOutcome(plan.seed, None, _counters(report), report.digest)


def _counters(report: RunReport) -> dict[str, int]:
    """What clients did, then what was done to the cluster, then what happened in it."""
    counters = {
        "records_sent": report.sent,
        "records_acknowledged": report.acknowledged,
        "records_unknown": report.unknown,
        "records_read": report.read,
        "virtual_seconds": round(report.virtual_s),
    }
    counters |= {f"fault: {kind}": count for kind, count in report.faults.items()}
    counters |= {f"event: {name}": count for name, count in report.counters.items()}
    return counters
