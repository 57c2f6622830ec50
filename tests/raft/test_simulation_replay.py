"""One seed decides everything, in any process."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from quorate.chaos.raft.runs import failure_report, replay, run_seed
from quorate.chaos.raft.simulation import Simulation
from quorate.metadata.raft.elections import Elections

SEED = 7
PRINT_DIGEST = """
import sys, zlib
from quorate.chaos.raft.runs import replay
for seed in map(int, sys.argv[1:]):
    print(zlib.crc32("\\n".join(replay(seed).lines).encode()))
"""


def trace_digests(hash_seed: str) -> list[str]:
    program = [sys.executable, "-c", PRINT_DIGEST, "7", "8", "9"]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    return subprocess.run(program, env=environment, capture_output=True, text=True, check=True).stdout.split()


def test_a_seed_takes_the_same_course_in_another_process_with_another_hash_seed() -> None:
    digests = trace_digests("1")
    assert digests == trace_digests("2")
    assert len(set(digests)) == 3


def test_keeping_a_trace_does_not_change_the_course() -> None:
    traced = Simulation(SEED, with_trace=True)
    traced.run()
    assert run_seed(SEED).counters == traced.counters


def test_a_failing_seed_says_how_to_replay_it_and_what_came_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Elections, "_is_log_up_to_date", lambda *_: True)
    result = next(result for result in map(run_seed, range(1, 50)) if result.failure is not None)
    report = failure_report(result)
    assert result.failure is not None
    assert report.startswith(f"seed {result.seed} failed: {result.failure}")
    assert f"quorate sim replay {result.seed} --world quorum" in report
    assert report.endswith(result.failure), "the second run failed in another way"
    assert any(line.split()[1] == "node" for line in report.splitlines()[4:])


def test_a_bug_that_is_no_violation_is_a_failure_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def forget_how(*_: object) -> bool:
        raise ZeroDivisionError

    monkeypatch.setattr(Elections, "_may_campaign", forget_how)
    failure = run_seed(SEED).failure
    assert failure is not None
    assert failure.startswith("ZeroDivisionError")
    assert "elections.py" in failure


def test_a_trace_ends_with_what_was_found() -> None:
    assert replay(SEED).failure is None
    assert replay(SEED).lines[-1] == "every invariant held"
