"""From a drill that was run to the report of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from quorate.chaos.checks import lost_write, weak_acks
from quorate.chaos.checks.verdict import Verdict
from quorate.chaos.drills.drill import Drill
from quorate.chaos.drills.options import DrillOptions
from quorate.chaos.drills.story import Story
from quorate.chaos.drills.timeline import EventKind, Timeline
from quorate.chaos.history.entries import Outcome
from quorate.chaos.history.history import History
from quorate.chaos.report.availability import Availability, availability_of, longest_gap
from quorate.chaos.report.drill_report import DrillReport, Mark, ReportedFault
from quorate.chaos.report.this_machine import this_machine
from quorate.chaos.report.this_quorate import this_quorate

__all__ = ["summarise"]


def summarise(
    drill: Drill, story: Story, options: DrillOptions, verdicts: Sequence[Verdict], *, began: datetime
) -> DrillReport:
    timeline, history = drill.timeline, drill.timeline.history
    assert timeline.ended_s is not None
    availability = availability_of(history.sent, began_s=timeline.began_s, ended_s=timeline.ended_s)
    outcomes = history.outcomes()
    return DrillReport(
        drill=story.name,
        shows=story.shows,
        seed=options.seed,
        command=options.command,
        began=began.strftime("%Y-%m-%d %H:%M:%S UTC"),
        seconds=availability.seconds,
        rounds=drill.rounds,
        verdicts=verdicts,
        availability=availability,
        faults=_faults(timeline, availability),
        marks=[Mark(each.at_s - timeline.began_s, each.kind, each.what) for each in timeline.events],
        lanes=[kind.value for kind in EventKind],
        outcomes={outcome.value: outcomes[outcome] for outcome in Outcome},
        records_read=sum(len(poll.records) for poll in history.polls),
        figures={
            **_losses(history, verdicts),
            **{name: str(coverage) for name, coverage in drill.choices.covered.items()},
            **drill.figures,
        },
        covered=drill.choices.covered,
        surroundings=_surroundings(drill, story),
    )


def _losses(history: History, verdicts: Sequence[Verdict]) -> dict[str, str]:
    """What each kind of acknowledgement was worth, where several were asked for."""
    weak = next((verdict.figures for verdict in verdicts if verdict.check == weak_acks.NAME), {})
    promised = sum(sent.is_promised for sent in history.sent)
    lost = sum(verdict.found for verdict in verdicts if verdict.check == lost_write.NAME)
    found = {
        acks: (int(weak[f"acks_{acks}_lost"]), int(weak[f"acks_{acks}_acknowledged"]))
        for acks in ("0", "1")
        if weak.get(f"acks_{acks}_acknowledged")
    }
    if not found:
        return {}
    return {
        f"lost with acks={acks}": f"{lost:,} of {count:,} ({lost / max(count, 1):.2%})"
        for acks, (lost, count) in {**found, "all": (lost, promised)}.items()
    }


def _faults(timeline: Timeline, availability: Availability) -> list[ReportedFault]:
    found = []
    for window in timeline.history.faults:
        begun_s = window.begun_s - timeline.began_s
        ended_s = availability.seconds if window.ended_s is None else window.ended_s - timeline.began_s
        whole_s = timeline.whole_s.get(window.serial)
        whole_s = None if whole_s is None else whole_s - timeline.began_s
        gap_s = longest_gap(availability.times_s, begun_s, ended_s if whole_s is None else whole_s)
        found.append(ReportedFault(window.kind, window.target, begun_s, ended_s, whole_s, gap_s))
    return found


def _surroundings(drill: Drill, story: Story) -> dict[str, str]:
    nodes = ", ".join(f"{node.name} ({' and '.join(node.roles)})" for node in drill.agent.nodes)
    network = drill.agent.network
    topics = "; ".join(
        f"{name}: {', '.join(f'{key}={value}' for key, value in arguments.items())}"
        for name, arguments in story.topics.items()
    )
    return {
        "quorate": this_quorate(),
        **this_machine(),
        "agent": drill.agent.kind,
        "nodes": nodes,
        "topics": topics,
        "network faults by": "not used" if network is None else network.kind,
        **drill.agent.facts,
    }
