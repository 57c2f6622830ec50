"""What the figures of groups are made of: pauses, costs of commits, and who is served again when."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bench.cluster.comparison import compare
from bench.groups.commits import CommitCost
from bench.groups.failover import first_sent_after
from bench.groups.many_groups import merged, offsets_bytes
from bench.groups.rebalance import COMPARISONS, measures_of
from bench.groups.timeline import Observed


def observed(
    *, stayed: dict[int, float], quiet: dict[int, float], resumed: dict[int, float] | None = None
) -> Observed:
    return Observed(stayed, quiet, resumed or {}, resumed or {})


def test_the_worst_partition_speaks_for_a_change() -> None:
    found = [
        observed(stayed={0: 0.05, 1: 0.08}, quiet={0: 0.06, 1: 0.04}),
        observed(stayed={0: 0.07}, quiet={0: 0.05}),
    ]
    measures = measures_of({"join": found})
    assert measures["join: stayed"] == pytest.approx([80.0, 70.0])
    assert measures["join: stayed, median"] == pytest.approx([75.0])
    assert measures["join: quiet"] == pytest.approx([60.0, 50.0])


def test_a_bad_moment_before_one_change_hides_no_pause_of_another() -> None:
    found = [
        observed(stayed={0: 0.05}, quiet={0: 0.9}),
        observed(stayed={0: 0.25}, quiet={0: 0.05}),
        observed(stayed={0: 0.06}, quiet={0: 0.05}),
    ]
    measures = measures_of({"leave": found})
    # What cannot be told apart is told as a millisecond.
    assert measures["leave: longer"] == pytest.approx([1.0, 200.0, 10.0])
    results = {each.comparison.name: each for each in compare(COMPARISONS, measures, {})}
    assert results["leave: pause of what stays, longest"].passed is False
    assert results["leave: pause of what stays, median"].passed is True


def test_a_change_after_which_nobody_stayed_has_no_pause() -> None:
    measures = measures_of({"kill": [observed(stayed={}, quiet={}, resumed={0: 0.6})]})
    assert measures["kill: longer"] == []
    assert measures["kill: resumed"] == [0.6]


@pytest.mark.parametrize(("resumed", "passed"), [([0.2, 0.9], True), ([0.2, 1.1], False)])
def test_every_partition_that_a_call_moves_has_to_resume_in_time(resumed: list[float], passed: bool) -> None:
    found = [observed(stayed={9: 0.05}, quiet={9: 0.05}, resumed=dict(enumerate(resumed)))]
    results = {each.comparison.name: each for each in compare(COMPARISONS, measures_of({"join": found}), {})}
    assert results["join: what moves resumes, longest"].passed is passed
    assert results["join: pause of what stays, longest"].passed is True


def test_the_cost_of_a_commit_is_what_all_brokers_take_for_it() -> None:
    cost = CommitCost(
        seconds=10.0,
        commits=5_000,
        failed=0,
        refusal="",
        p50_ms=1.0,
        p99_ms=2.0,
        broker_share=[0.3, 0.1, 0.1],
        idle_share=[0.02] * 3,
        sizes=[(0.0, [10, 20]), (1.0, [90, 20]), (2.0, [30, 40])],
    )
    assert cost.microseconds_a_commit == pytest.approx(1_000.0)
    assert cost.largest_bytes == 90
    assert cost.last_bytes == 40


def test_answers_of_several_processes_stand_one_after_the_other() -> None:
    answers = [{"latencies_ms": [1.0], "failed": 1}, {"latencies_ms": [2.0, 3.0], "failed": 0}]
    assert merged(answers) == {"latencies_ms": [1.0, 2.0, 3.0], "failed": [1, 0]}


def test_the_topic_of_offsets_is_weighed_partition_by_partition(tmp_path: Path) -> None:
    for name, size in (("__consumer_offsets-0.id", 10), ("__consumer_offsets-1.id", 20), ("other-0.id", 40)):
        (tmp_path / "topics" / name).mkdir(parents=True)
        (tmp_path / "topics" / name / "0.log").write_bytes(os.urandom(size))
    assert sorted(offsets_bytes(str(tmp_path))) == [10, 20]


def test_a_commit_that_was_under_way_when_the_coordinator_died_proves_nothing() -> None:
    lines = "1.0 1.1\n1.9 4.0\n4.1 4.2\n4.3 4.4\n"
    assert first_sent_after(lines, 2.0) == 4.2


def test_a_line_that_is_being_written_is_not_read() -> None:
    assert first_sent_after("1.0 1.1\n4.1 4.", 2.0) is None
