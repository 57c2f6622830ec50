"""Traces as people read them."""

from __future__ import annotations

from quorate.chaos.campaign.outcome import STUCK, Failure, failure_of
from quorate.chaos.campaign.trace_text import render_trace
from quorate.chaos.checks.violation import Violation
from quorate.chaos.cluster.plan import Plan
from quorate.chaos.cluster.trace import TraceLine
from quorate.chaos.sim.loop import SimulationStuck

PLAN = Plan.draw(7)


def test_what_broke_stands_first_and_last() -> None:
    lines = list(render_trace(PLAN, [], Failure("lost-write", "t0-0: offset 3\nis gone")))
    assert lines[:3] == ["what broke: lost-write", "  t0-0: offset 3", "  is gone"]
    assert lines[-3:] == lines[:3]


def test_the_plan_is_told_with_all_its_events() -> None:
    text = "\n".join(render_trace(PLAN, [], None))
    assert f"seed 7: {PLAN.brokers} brokers" in text
    for event in PLAN.events:
        assert f"event {event.number}: {event.kind}" in text
    assert "no faults" in "\n".join(
        render_trace(PLAN.without([event.number for event in PLAN.events]), [], None)
    )


def test_a_line_has_time_node_and_what_it_did_and_faults_stand_out() -> None:
    lines = [
        TraceLine(1.25, "nemesis", "fault_begins", "number=0"),
        TraceLine(1.5, "b1#2", "isr_changed", "isr=[1, 3]"),
    ]
    text = list(render_trace(PLAN, lines, None))
    assert ">    1.2500  nemesis  fault_begins number=0" in text
    assert "     1.5000  b1#2     isr_changed isr=[1, 3]" in text


def test_what_is_said_over_and_over_is_counted() -> None:
    lines = [TraceLine(float(number), "-", "metadata_refresh_failed", "") for number in range(100)]
    lines.append(TraceLine(100.0, "b1#1", "node_ready", ""))
    text = [line for line in render_trace(PLAN, lines, None) if "metadata_refresh_failed" in line]
    assert len(text) == 6
    assert text[-1].endswith("metadata_refresh_failed, 95 more up to here")
    assert "99.0000" in text[-1]


def test_a_failure_is_named_by_its_check_and_by_nothing_that_varies() -> None:
    assert failure_of(Violation("offset 3 is gone", check="lost-write")).check == "lost-write"
    assert failure_of(SimulationStuck("deadlock at 3.2 s")).check == STUCK
    assert failure_of(ZeroDivisionError("12")).check == "ZeroDivisionError"


def test_a_violation_is_found_in_whatever_groups_it_was_raised() -> None:
    violation = Violation("offset 3 is gone", check="lost-write")
    group = ExceptionGroup("tasks", [ValueError("aside"), ExceptionGroup("more", [violation])])
    assert failure_of(group) == Failure("lost-write", "offset 3 is gone")
    assert failure_of(ExceptionGroup("tasks", [ValueError("aside")])).check == "ValueError"
