"""Campaigns of made-up runs: failing, stuck and dying seeds, interrupts, and what is kept of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from quorate.chaos.campaign.campaign import Campaign, CampaignResult, CampaignSettings
from quorate.chaos.campaign.failing_seed import FailingSeed, read_plan
from quorate.chaos.campaign.job import Job
from quorate.chaos.campaign.outcome import OUT_OF_TIME, WORKER_DIED, RunOutcome
from quorate.chaos.campaign.worker_process import WorkerProcess
from quorate.chaos.campaign.workforce import Workforce
from tests.unit.campaign.fake_world import DYING, EVENTS, FAILING, FAKE_WORLD, FICKLE, STUCK

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def _workers_find_the_fake_world(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


class Seen:
    """An observer that remembers, and presses Ctrl-C after so many seeds."""

    def __init__(self, interrupt_after: int | None = None) -> None:
        self.seeds: list[int] = []
        self.tries = 0
        self._interrupt_after = interrupt_after

    def seed_done(self, outcome: RunOutcome) -> None:
        self.seeds.append(outcome.seed)
        if len(self.seeds) == self._interrupt_after:
            raise KeyboardInterrupt

    def shrinking(self, failing: FailingSeed) -> None:
        self.tries += 1

    def waiting(self) -> None:
        """Nothing to remember."""


def run(
    seeds: Sequence[int],
    directory: Path,
    *,
    seen: Seen | None = None,
    jobs: int = 1,
    failures_max: int = 5,
    seed_seconds_max: float = 60.0,
    shrink_seconds_max: float = 60.0,
) -> CampaignResult:
    settings = CampaignSettings(
        world=FAKE_WORLD,
        seeds=seeds,
        jobs=jobs,
        failures_max=failures_max,
        seed_seconds_max=seed_seconds_max,
        shrink_seconds_max=shrink_seconds_max,
        failures_dir=directory,
    )
    return Campaign(settings, [seen or Seen()]).run()


def test_every_seed_is_run_once_whatever_the_number_of_workers(tmp_path: Path) -> None:
    seen = Seen()
    result = run(range(1, 31), tmp_path, seen=seen, jobs=2)
    assert sorted(seen.seeds) == list(range(1, 31))
    assert (result.passed, result.failing, result.is_interrupted) == (30, [], False)
    assert result.counters["runs"] == 30
    assert list(tmp_path.iterdir()) == []


def test_a_failing_seed_is_shrunk_and_the_others_are_run(tmp_path: Path) -> None:
    result = run([1, FAILING[0], 2, 3], tmp_path)
    assert result.passed == 3
    (failing,) = result.failing
    assert failing.failure.check == "lost-write"
    assert read_plan(failing.directory / "plan.json")["events"] == EVENTS
    assert read_plan(failing.directory / "shrunk.json")["events"] == [2, 7]
    assert failing.trace_path.read_text() == f"trace of {FAILING[0]} with [2, 7]\n"


def test_a_report_tells_what_broke_and_how_to_replay_it(tmp_path: Path) -> None:
    (failing,) = run([FAILING[0]], tmp_path).failing
    report = failing.report()
    assert report == (failing.directory / "failure.txt").read_text().splitlines()
    assert "lost-write" in report[0]
    assert f"offset {FAILING[0]} is gone" in report[1]
    assert f"quorate sim replay {FAILING[0]}" in report[2]
    assert "with 2 of its 12 events" in report[3]
    assert report[4:6] == ["    event 2", "    event 7"]
    assert str(failing.trace_path) in report[6]


def test_after_so_many_failures_no_more_seeds_are_begun(tmp_path: Path) -> None:
    seen = Seen()
    result = run(FAILING[:50], tmp_path, seen=seen, failures_max=3, shrink_seconds_max=0)
    assert len(result.failing) == 3
    assert len(seen.seeds) == 3


def test_without_time_for_shrinking_there_is_still_a_trace_of_the_whole(tmp_path: Path) -> None:
    seen = Seen()
    (failing,) = run([FAILING[0]], tmp_path, seen=seen, shrink_seconds_max=0).failing
    assert seen.tries == 0
    assert not (failing.directory / "shrunk.json").exists()
    assert str(EVENTS) in failing.trace_path.read_text()


def test_what_an_earlier_run_left_in_the_directory_is_gone(tmp_path: Path) -> None:
    run([FAILING[0]], tmp_path)
    (failing,) = run([FAILING[0]], tmp_path, shrink_seconds_max=0).failing
    assert not (failing.directory / "shrunk.json").exists()


def test_a_stuck_seed_fails_and_says_where_it_stood(tmp_path: Path) -> None:
    result = run([STUCK, 1, 2], tmp_path, seed_seconds_max=1.0, shrink_seconds_max=0)
    assert result.passed == 2
    (failing,) = result.failing
    assert failing.failure.check == OUT_OF_TIME
    assert "fake_world.py" in failing.failure.message


def test_a_seed_that_takes_its_process_with_it_fails_and_the_others_are_run(tmp_path: Path) -> None:
    result = run([1, DYING, 2], tmp_path, shrink_seconds_max=0)
    assert result.passed == 2
    assert result.failing[0].failure.check == WORKER_DIED
    assert "status 9" in result.failing[0].failure.message


def test_a_run_that_ends_otherwise_the_second_time_is_told(tmp_path: Path) -> None:
    (failing,) = run([FICKLE], tmp_path).failing
    assert "run again it ended otherwise" in failing.report()[-1]


def test_an_interrupt_keeps_what_was_done_and_ends_the_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[WorkerProcess] = []
    end = WorkerProcess.end

    def remember(worker: WorkerProcess) -> None:
        end(worker)
        started.append(worker)

    monkeypatch.setattr(WorkerProcess, "end", remember)
    result = run([FAILING[0], 1, 2, 3, 4], tmp_path, seen=Seen(interrupt_after=3))
    assert result.is_interrupted
    assert result.passed == 2
    assert (result.failing[0].directory / "plan.json").exists()
    assert started
    assert all(worker.is_dead for worker in started)


def test_a_worker_that_does_not_even_end_itself_is_killed() -> None:
    worker = WorkerProcess(FAKE_WORLD, seconds_max=60.0)
    worker.give(Job(STUCK))
    _, outcome = worker.kill_for_lateness()
    assert outcome.failure is not None
    assert worker.is_dead
    worker.end()


def test_workers_are_replaced_before_what_runs_leave_behind_adds_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quorate.chaos.campaign.worker_process._JOBS_MAX", 2)
    processes = []
    with Workforce(FAKE_WORLD, size=1, seconds_max=60.0) as workforce:
        for seed in range(1, 6):
            workforce.give(Job(seed))
            while workforce.is_busy:
                processes += [outcome.counters["pid"] for _, outcome in workforce.wait()]
    assert len(processes) == 5
    assert len(set(processes)) == 3
    assert os.getpid() not in processes
