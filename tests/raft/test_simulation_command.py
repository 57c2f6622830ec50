"""``quorate sim run``: what it prints, and what it exits with."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from quorate.chaos.raft.runs import SeedResult, run_seed
from quorate.console.main import main
from quorate.metadata.raft.elections import Elections

Capture = pytest.CaptureFixture[str]


def test_seeds_that_pass_end_in_a_table_of_what_happened(capsys: Capture) -> None:
    assert main(["sim", "run", "--seeds", "1..2", "--jobs", "1"]) == 0
    printed = capsys.readouterr().out
    assert "2 seeds of the quorum world passed" in printed
    assert "lost unsynced writes" in printed


def test_one_seed_as_a_document(capsys: Capture) -> None:
    assert main(["sim", "run", "--seed", "3", "--output", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["world"] == "quorum"
    assert document["seeds_passed"] == 1
    assert document["failed"] is None
    assert document["counters"]["steps"] > 0


def test_a_seed_that_fails_is_told_with_the_way_to_replay_it(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Elections, "_is_log_up_to_date", lambda *_: True)
    assert main(["sim", "run", "--seeds", "1..50", "--jobs", "1"]) == 1
    captured = capsys.readouterr()
    assert "one failed" in captured.out
    assert "replay it with: make sim SEED=" in captured.err


def test_an_interrupted_run_tells_how_many_seeds_had_passed(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted_after_two(_seeds: range, *, jobs: int) -> Iterator[SeedResult]:
        yield from (run_seed(seed) for seed in (1, 2))
        raise KeyboardInterrupt

    monkeypatch.setattr("quorate.chaos.raft.runs.run_seeds", interrupted_after_two)
    assert main(["sim", "run", "--seeds", "1..50", "--jobs", "1"]) == 130
    assert "2 seeds of the quorum world passed, then it was interrupted" in capsys.readouterr().out


def test_a_trace_has_every_event(capsys: Capture) -> None:
    assert main(["sim", "run", "--seed", "3", "--trace"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "every invariant held"
    assert len(lines) > 500


@pytest.mark.parametrize(
    "arguments",
    [
        ["--seeds", "9..1"],
        ["--seeds", "many"],
        ["--seed", "1", "--seeds", "1..2"],
        ["--trace"],
        ["--world", "moon"],
    ],
)
def test_what_makes_no_sense_is_wrong_usage(arguments: list[str], capsys: Capture) -> None:
    assert main(["sim", "run", *arguments]) == 2
    assert "Error:" in capsys.readouterr().err
