"""One seed decides everything, in any process."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from quorate.chaos.campaign.failure_report import report_failure
from quorate.chaos.campaign.outcome import RunOutcome
from quorate.chaos.campaign.quorum_world import QuorumWorld
from quorate.metadata.raft.elections import Elections

SEED = 7
PRINT_DIGEST = """
import sys, zlib
from quorate.chaos.campaign.quorum_world import QuorumWorld
for seed in map(int, sys.argv[1:]):
    lines = []
    QuorumWorld().trace({"seed": seed}, lines.append)
    print(zlib.crc32("\\n".join(lines).encode()))
"""


def trace_digests(hash_seed: str) -> list[str]:
    program = [sys.executable, "-c", PRINT_DIGEST, "7", "8", "9"]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    return subprocess.run(program, env=environment, capture_output=True, text=True, check=True).stdout.split()


def test_a_seed_takes_the_same_course_in_another_process_with_another_hash_seed() -> None:
    digests = trace_digests("1")
    assert digests == trace_digests("2")
    assert len(set(digests)) == 3


def run_seed(seed: int) -> RunOutcome:
    return QuorumWorld().run({"seed": seed})


def traced(seed: int) -> tuple[RunOutcome, list[str]]:
    lines: list[str] = []
    return QuorumWorld().trace({"seed": seed}, lines.append), lines


def test_keeping_a_trace_does_not_change_the_course() -> None:
    assert traced(SEED)[0] == run_seed(SEED)


def test_a_failing_seed_says_how_to_replay_it_and_fails_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Elections, "_is_log_up_to_date", lambda *_: True)
    outcome = next(outcome for outcome in map(run_seed, range(1, 50)) if outcome.failure is not None)
    assert outcome.failure is not None
    first, *_, last = report_failure(outcome, "quorum")
    assert first == f"seed {outcome.seed} of the quorum world failed: {outcome.failure.check}"
    assert last.endswith(f"quorate sim replay {outcome.seed} --world quorum")
    again, lines = traced(outcome.seed)
    assert again == outcome
    assert lines[-1] == outcome.failure.message


def test_a_bug_that_is_no_violation_is_a_failure_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def forget_how(*_: object) -> bool:
        raise ZeroDivisionError

    monkeypatch.setattr(Elections, "_may_campaign", forget_how)
    failure = run_seed(SEED).failure
    assert failure is not None
    assert failure.check == "ZeroDivisionError"
    assert "elections.py" in failure.message


def test_a_trace_ends_with_what_was_found() -> None:
    outcome, lines = traced(SEED)
    assert outcome.failure is None
    assert lines[-1] == "every invariant held"
