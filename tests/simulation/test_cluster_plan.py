"""A plan is drawn before anything runs, and can be stored, replayed and made smaller."""

from __future__ import annotations

import json
from typing import Final

import pytest

from quorate.chaos.cluster.faults.catalogue import FAULTS
from quorate.chaos.cluster.faults.kinds import OPERATIONS, UNPLANNED, Fault
from quorate.chaos.cluster.plan import Plan
from quorate.chaos.cluster.run import run_plan, run_seed
from quorate.core.config import Durability

SEEDS: Final = range(1, 400)


def test_every_kind_of_fault_is_drawn_by_some_seed_and_can_be_inflicted() -> None:
    drawn = {event.kind for seed in SEEDS for event in Plan.draw(seed).events}
    assert drawn == set(Fault) == set(FAULTS)
    assert set(OPERATIONS) | set(UNPLANNED) == set(Fault)


def test_layouts_workloads_and_durabilities_differ_between_seeds() -> None:
    plans = [Plan.draw(seed) for seed in SEEDS]
    assert {plan.brokers for plan in plans} == {3, 4, 5}
    assert {plan.is_combined for plan in plans} == {True, False}
    topics = [topic for plan in plans for topic in plan.topics]
    assert {topic.durability for topic in topics} == set(Durability)
    assert {topic.min_insync_replicas for topic in topics} == {1, 2, 3}
    assert {bool(plan.workload.competitors) for plan in plans} == {True, False}


def test_a_plan_survives_json() -> None:
    plan = Plan.draw(11)
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


def test_what_is_left_of_a_plan_keeps_its_choices() -> None:
    plan = Plan.draw(11)
    left = plan.without({plan.events[0].number})
    assert left.events == plan.events[1:]
    assert (left.topics, left.workload, left.seed) == (plan.topics, plan.workload, plan.seed)


def test_a_seed_is_its_plan() -> None:
    assert run_plan(Plan.draw(5)) == run_seed(5)


@pytest.mark.parametrize("kind", Fault)
def test_every_kind_of_fault_happens_when_it_is_asked_for(kind: Fault) -> None:
    """Some need a layout or a durability that not every seed draws."""
    for seed in range(1, 9):
        if run_seed(seed, faults=[kind], durability=Durability.FSYNC).faults.get(kind, 0):
            return
    pytest.fail(f"{kind} never happened")
