"""Disks that answer with errors, and disks under nodes that are brokers and controllers at once."""

from __future__ import annotations

import dataclasses
from collections import Counter

import pytest

from quorate.chaos.checks.violation import Violation
from quorate.chaos.cluster.faults.kinds import Fault
from quorate.chaos.cluster.plan import Plan
from quorate.chaos.cluster.run import RunReport, run_plan
from quorate.chaos.mutations.registry import find_mutation
from quorate.chaos.sim.patch import Patch
from quorate.core.config import Durability
from quorate.metadata.raft import quorum_directory

#: what can fail or be taken without that an operator has to replace a voter
OF_COMBINED_NODES = (
    Fault.LOSE_POWER,
    Fault.ROT,
    Fault.ROT_JOURNAL,
    Fault.FILL_DISK,
    Fault.FAIL_SYNC,
    Fault.FAIL_SYNC_OF_CONTROLLER,
    Fault.FAIL_SYNC_OF_DIRECTORY,
    Fault.FAIL_READ,
    Fault.FAIL_WRITE,
    Fault.FAIL_RENAME,
)


def plan_of(seed: int, kind: Fault, *, is_combined: bool) -> Plan:
    plan = Plan.draw(seed, kinds=[kind], durability=Durability.FSYNC)
    topics = tuple(
        dataclasses.replace(topic, replication_factor=3, min_insync_replicas=2) for topic in plan.topics
    )
    return dataclasses.replace(plan, brokers=3, is_combined=is_combined, topics=topics)


def run_until_it_happens(kind: Fault, *, is_combined: bool) -> RunReport:
    for seed in range(1, 9):
        report = run_plan(plan_of(seed, kind, is_combined=is_combined))
        if report.faults.get(kind):
            return report
    pytest.fail(f"{kind} never happened")


def first_violation(kind: Fault) -> str | None:
    for seed in range(1, 9):
        try:
            run_plan(plan_of(seed, kind, is_combined=False))
        except Violation as violation:
            return violation.check
    return None


@pytest.mark.parametrize("kind", OF_COMBINED_NODES)
def test_the_disk_of_a_node_that_is_broker_and_controller_fails_as_any_other(kind: Fault) -> None:
    run_until_it_happens(kind, is_combined=True)


def test_syncs_of_journals_votes_and_snapshots_fail() -> None:
    failed: Counter[str] = Counter()
    for seed in range(1, 25):
        report = run_plan(plan_of(seed, Fault.FAIL_SYNC_OF_CONTROLLER, is_combined=seed % 2 == 0))
        for name in (".journal", "hard-state", ".snapshot", "quorum failed"):
            failed[name] += sum(name in line for line in report.story)
        if len(+failed) == 4:
            return
    pytest.fail(f"only syncs of these failed: {dict(failed)}")


def test_a_controller_that_goes_on_after_a_failed_sync_is_found_out() -> None:
    with Patch() as patch:
        find_mutation("controller-goes-on-after-a-failed-sync").apply(patch)
        assert first_violation(Fault.FAIL_SYNC_OF_CONTROLLER) == "failed-sync"


def test_a_process_that_ends_with_a_traceback_is_found_out() -> None:
    with Patch() as patch:
        patch.setattr(quorum_directory, "_cannot_use", lambda _, error: error)
        assert first_violation(Fault.FAIL_READ) == "crashed"
