"""Real clusters: what workers find is what this process finds, and plans can be taken apart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from quorate.chaos.campaign.cluster_world import ClusterWorld
from quorate.chaos.campaign.failing_seed import FailingSeed
from quorate.chaos.campaign.job import Job
from quorate.chaos.campaign.outcome import Failure, RunOutcome
from quorate.chaos.campaign.workforce import Workforce
from quorate.chaos.campaign.world import load_world, world_reference

SEED = 2


def test_a_seed_ends_the_same_in_a_worker_and_here_with_and_without_a_trace(tmp_path: Path) -> None:
    trace_path = tmp_path / "trace.txt"
    with Workforce(world_reference("cluster"), size=2, seconds_max=120.0) as workforce:
        workforce.give(Job(SEED))
        workforce.give(Job(SEED, trace_path=str(trace_path)))
        outcomes = []
        while workforce.is_busy:
            outcomes += [outcome for _, outcome in workforce.wait()]
    here = load_world("cluster").run(load_world("cluster").draw(SEED))
    assert [outcome.digest for outcome in outcomes] == [here.digest, here.digest]
    assert here.failure is None
    assert here.counters["records_acknowledged"] > 0
    lines = trace_path.read_text().splitlines()
    assert lines[0] == lines[-1] == "every check passed"
    assert any("fault_begins" in line for line in lines)


@pytest.mark.parametrize("seed", range(1, 20))
def test_a_plan_can_be_taken_apart_down_to_the_events_that_matter(seed: int, tmp_path: Path) -> None:
    """With a made-up reason to fail: the last event of the plan."""
    world = ClusterWorld()
    failing = FailingSeed(
        RunOutcome(seed, Failure("lost-write", "gone")), world, world_name="cluster", under=tmp_path
    )
    last = world.events(failing.plan)[-1]
    while (candidate := failing.candidate) is not None:
        sent = json.loads(json.dumps(candidate))  # as to a worker
        assert world.without(sent, []) == candidate
        is_there = last in world.events(sent)
        failing.judge(RunOutcome(seed, Failure("lost-write", "gone") if is_there else None))
    assert world.events(failing.smallest) == [last]
