"""A trace of a simulated cluster as people read it: what was planned, what each node did, how it ended."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Final

from quorate.chaos.campaign.outcome import Failure
from quorate.chaos.cluster.plan import Plan
from quorate.chaos.cluster.trace import TraceLine

__all__ = ["describe_plan", "render_trace"]

#: events with such names are done to the cluster, not by it; they stand out
_FAULT: Final = "fault_"
#: in a row, from one node
_SAME_MAX: Final = 5


def render_trace(plan: Plan, lines: Iterable[TraceLine], failure: Failure | None) -> Iterator[str]:
    """What broke stands at both ends: who opens the file wants it first, who reads through it last."""
    yield from _how_it_ended(failure)
    yield ""
    yield from describe_plan(plan)
    yield ""
    yield f"  {'second':>9}  {'node':<8} what it did"
    yield from _lines(lines)
    yield ""
    yield from _how_it_ended(failure)


def _lines(lines: Iterable[TraceLine]) -> Iterator[str]:
    """One for each, but for what a node says many times over: then the first few, and how many more."""
    for (machine, event), group in itertools.groupby(lines, key=lambda line: (line.machine, line.event)):
        for line in itertools.islice(group, _SAME_MAX):
            margin = ">" if event.startswith(_FAULT) else " "
            yield f"{margin} {line.at_s:9.4f}  {machine:<8} {event} {line.facts}".rstrip()
        more = list(group)
        if more:
            yield f"  {more[-1].at_s:9.4f}  {machine:<8} {event}, {len(more)} more up to here"


def describe_plan(plan: Plan) -> Iterator[str]:
    layout = "the first of them controllers too" if plan.is_combined else "controllers apart"
    yield f"seed {plan.seed}: {plan.brokers} brokers, {layout}"
    for topic in plan.topics:
        yield (
            f"  topic {topic.name}: {topic.partitions} partitions of {topic.replication_factor} replicas, "
            f"min.insync.replicas {topic.min_insync_replicas}, durability {topic.durability}"
        )
    clients = " ".join(f"{name}={count}" for name, count in asdict(plan.workload).items())
    yield f"  clients: {clients}"
    if not plan.events:
        yield "  no faults"
    for event in plan.events:
        yield f"  event {event.number}: {event.kind}, {event.pause_s:.3f} s after the one before"


def _how_it_ended(failure: Failure | None) -> Iterator[str]:
    if failure is None:
        yield "every check passed"
        return
    yield f"what broke: {failure.check}"
    for line in failure.message.splitlines():
        yield f"  {line}"
