"""A plan is drawn before anything runs, and can be stored, replayed and made smaller."""

from __future__ import annotations

import json
from collections import Counter
from typing import Final

import pytest

from quorate.chaos.cluster.faults.catalogue import FAULTS
from quorate.chaos.cluster.faults.kinds import OPERATIONS, UNPLANNED, Fault
from quorate.chaos.cluster.plan import GROUPED, Plan
from quorate.chaos.cluster.run import run_plan, run_seed
from quorate.core.config import Durability

SEEDS: Final = range(1, 400)

#: what must come of it within a few seeds; of the others it is enough that they happen
EFFECTS: Final = {
    Fault.KILL_LEADER: "elections",
    # One that is killed does not say that it is none any more.
    Fault.KILL_CONTROLLER: "controllers_replaced",
    Fault.KILL_ALL_BROKERS: "offline",
    Fault.KILL_ONE_BY_ONE: "offline",
    Fault.KILL_AT_A_TURN: "process_crash start",
    Fault.KILL_AT_A_DISK_OPERATION: "process_crash start",
    Fault.KILL_WHO_JOINS: "isr_shrinks",
    Fault.CRASH_LOOP: "isr_shrinks",
    Fault.PAUSE: "session_lost",
    Fault.PAUSE_AT_A_TURN: "session_lost",
    Fault.PAUSE_LEADER: "elections",
    Fault.STOP_CLEANLY: "clean start",
    Fault.LOSE_POWER: "files_set_back",
    Fault.LOSE_POWER_AT_A_TURN: "files_set_back",
    Fault.LOSE_POWER_EVERYWHERE: "files_set_back",
    Fault.LOSE_DISK: "isr_shrinks",
    Fault.LOSE_PAGE_CACHE: "lossy start",
    Fault.RESTORE_OLD_COPY: "isr_shrinks",
    Fault.RESTORE_COPY_OF_THIS_RUN: "unknown_directory start",
    Fault.ROT: "replica_damaged",
    Fault.FILL_DISK: "disk_full",
    Fault.FAIL_SYNC: "storage_error",
    Fault.FAIL_SYNC_OF_CONTROLLER: "controller_restarts",
    Fault.FAIL_SYNC_OF_DIRECTORY: "storage_error",
    Fault.FAIL_READ: "storage_error",
    Fault.FAIL_WRITE: "storage_error",
    Fault.FAIL_RENAME: "storage_error",
    Fault.CUT_OFF: "frames_held",
    Fault.CUT_OFF_FOR_LONG: "elections",
    Fault.CUT_ONE_WAY: "frames_held",
    Fault.CUT_LEADER_FROM_CONTROLLERS: "elections",
    Fault.CUT_LEADER_FROM_FOLLOWERS: "isr_shrinks",
    Fault.CUT_LEADER_FROM_CLIENTS: "frames_held",
    Fault.BRIDGE: "frames_held",
    Fault.FLAP: "frames_held",
    Fault.LOSE_ANSWERS: "frames_held",
    Fault.REJECT: "elections",
    Fault.DROP: "frames_dropped",
    Fault.DUPLICATE: "requests_doubled",
    Fault.JUMP_WALL_CLOCK: "wall_clock_jumped",
    Fault.MOVE_REPLICAS: "reassignment_completed",
    Fault.DRAIN: "broker_draining",
    Fault.DECOMMISSION: "broker_decommissioning",
    Fault.ELECT_PREFERRED: "leaders_moved",
    Fault.DELETE_OLD_RECORDS: "log_starts_moved",
    Fault.RECOVER_PARTITION: "acknowledged_and_given_up",
    Fault.TRANSFER_CONTROLLER: "controller_inactive",
    Fault.GROW_PARTITIONS: "partitions_added",
    Fault.CHANGE_MIN_ISR: "configs_changed",
    Fault.CHANGE_DURABILITY: "configs_changed",
    Fault.CHANGE_CONFIG: "configs_changed",
    Fault.CHANGE_REPLICATION_FACTOR: "reassignment_completed",
    Fault.RECREATE_TOPIC: "topic_deleted",
}


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
    assert {bool(plan.workload.members) for plan in plans} == {True, False}
    assert {topic.cleanup_policy for topic in topics} == {"delete", "compact", "compact,delete"}


def test_what_every_record_counts_of_is_not_compacted() -> None:
    for seed in SEEDS:
        for plan in (Plan.draw(seed), Plan.draw(seed).with_compaction(), Plan.draw(seed).only_competing()):
            compacted = {topic.name for topic in plan.topics if topic.is_compacted}
            assert compacted <= {"t0", "t1"}


def test_a_group_or_compaction_can_be_had_with_any_faults() -> None:
    for seed in SEEDS:
        plan = Plan.draw(seed)
        grouped, compacted = plan.with_group(), plan.with_compaction()
        assert grouped.events == compacted.events == plan.events
        assert grouped.workload.members
        assert [topic.name for topic in grouped.topics].count(GROUPED) == 1
        assert any(topic.is_compacted for topic in compacted.topics)


def test_a_plan_from_before_there_was_compaction_is_read() -> None:
    content = Plan.draw(11).to_json()
    for topic in content["topics"]:
        del topic["cleanup_policy"]
    assert not any(topic.is_compacted for topic in Plan.from_json(content).topics)


def test_only_what_an_operator_gives_up_may_be_lost() -> None:
    for seed in SEEDS:
        plan = Plan.draw(seed)
        is_given_up = any(event.kind is Fault.RECOVER_PARTITION for event in plan.events)
        assert [topic.name for topic in plan.topics if topic.may_lose] == (["m"] if is_given_up else [])


@pytest.mark.parametrize("plan", [Plan.draw(11), Plan.draw(1, kinds=[Fault.RECOVER_PARTITION])])
def test_a_plan_survives_json(plan: Plan) -> None:
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
    """And has the effect that it is there for. Some need a layout that not every seed draws."""
    counters: Counter[str] = Counter()
    for seed in range(1, 9):
        report = run_seed(seed, faults=[kind], durability=Durability.FSYNC)
        counters.update({**report.counters, "happened": report.faults.get(kind, 0)})
        counters["controllers_replaced"] += report.counters["controller_active"] - 1
        if counters["happened"] and counters[EFFECTS.get(kind, "happened")]:
            return
    pytest.fail(f"{kind} never happened, or had no effect")
