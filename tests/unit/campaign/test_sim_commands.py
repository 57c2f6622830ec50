"""``quorate sim``: what it prints, what it exits with, and what it records."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from quorate.chaos.campaign.evidence import read_records
from quorate.chaos.campaign.outcome import RunOutcome
from quorate.chaos.campaign.recorder import CampaignRecorder
from quorate.chaos.campaign.world import WORLDS
from quorate.console.main import main
from quorate.console.session import Session
from quorate.console.simulating.replaying import print_outcome
from tests.unit.campaign.fake_world import FAILING, FAKE_WORLD
from tests.unit.campaign.small_checkout import make_checkout

ROOT = Path(__file__).parents[3]

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _a_fake_world_in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(WORLDS, "cluster", FAKE_WORLD)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("quorate.chaos.evidence.checkout.find_checkout", lambda: tmp_path)
    return make_checkout(tmp_path)


# -- run


def test_seeds_that_pass_end_in_a_table_of_what_happened(capsys: Capture) -> None:
    assert main(["sim", "run", "--seeds", "1..4", "--jobs", "2"]) == 0
    printed = capsys.readouterr().out
    assert "runs" in printed
    assert "4 seeds of the cluster world passed" in printed


def test_one_seed_as_a_document(capsys: Capture) -> None:
    assert main(["sim", "run", "--seed", "3", "--output", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["world"], document["seeds_passed"], document["failed"]) == ("cluster", 1, None)
    assert document["failures"] == []
    assert document["counters"]["runs"] == 1


def test_a_seed_that_fails_is_told_with_the_way_to_replay_it(capsys: Capture, tmp_path: Path) -> None:
    assert main(["sim", "run", "--seeds", f"{FAILING[0] - 2}..{FAILING[0]}", "--jobs", "1"]) == 1
    captured = capsys.readouterr()
    assert "2 seeds of the cluster world passed, one failed" in captured.out
    assert f"quorate sim replay {FAILING[0]}" in captured.err
    shrunk = f"sim-failures/cluster-{FAILING[0]}/shrunk.json"
    assert f"quorate sim replay {shrunk}" in captured.err
    assert main(["sim", "replay", shrunk]) == 1
    assert "lost-write" in capsys.readouterr().err


def test_failures_as_a_document(capsys: Capture) -> None:
    arguments = ["--seeds", f"{FAILING[0]}..{FAILING[0] + 1}", "--shrink-seconds-max", "0"]
    assert main(["sim", "run", *arguments, "--output", "json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["failed"] in document["failures"]
    assert {failure["seed"] for failure in document["failures"]} == {FAILING[0], FAILING[0] + 1}
    assert document["failures"][0]["check"] == "lost-write"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_tells_and_records_how_many_seeds_had_passed(
    capsys: Capture, checkout: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    seed_done = CampaignRecorder.seed_done

    def interrupt_after_two(recorder: CampaignRecorder, outcome: RunOutcome) -> None:
        seed_done(recorder, outcome)
        if outcome.seed == 2:
            os.kill(os.getpid(), number)

    monkeypatch.setattr(CampaignRecorder, "seed_done", interrupt_after_two)
    assert main(["sim", "run", "--seeds", "1..500", "--jobs", "1", "--record"]) == 130
    assert "2 seeds of the cluster world passed, then it was interrupted" in capsys.readouterr().out
    (record,) = read_records(checkout)
    assert (record.seeds, record.is_interrupted) == ("1..2", True)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--seeds", "9..1"],
        ["--seeds", "many"],
        ["--seed", "1", "--seeds", "1..2"],
        ["--trace"],
        ["--world", "moon"],
        ["--resume"],
        ["--target", "10"],
        ["--resume", "--target", "10", "--seed", "1"],
    ],
)
def test_what_makes_no_sense_is_wrong_usage(arguments: list[str], capsys: Capture) -> None:
    assert main(["sim", "run", *arguments]) == 2
    assert "Error:" in capsys.readouterr().err


# -- replay


def test_a_replayed_seed_tells_its_digest(capsys: Capture) -> None:
    assert main(["sim", "replay", "7"]) == 0
    printed = capsys.readouterr().out
    assert "digest: 00000007" in printed
    assert "seed 7 passed" in printed


def test_a_replayed_seed_tells_what_happened_and_not_what_did_not(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    counters = {
        "records_sent": 3,
        "records_unknown": 0,
        "fault: bridge": 2,
        "event: wiped": 0,
        "event: elected": 4,
        "event: fenced": 1,
    }
    outcome = RunOutcome(seed=7, digest="d", counters=counters, failure=None)
    print_outcome(Session(), outcome)
    told = capsys.readouterr().out.splitlines()
    assert told == [
        "records sent: 3",
        "fault: bridge: 2",
        "kinds of log events: 2 (--output json counts each)",
        "digest: d",
        "seed 7 passed",
    ]


def test_a_trace_goes_where_it_is_asked_for(capsys: Capture, tmp_path: Path) -> None:
    assert main(["sim", "replay", "7", "--trace", "trace.txt"]) == 0
    assert (tmp_path / "trace.txt").read_text().startswith("trace of 7")
    capsys.readouterr()
    assert main(["sim", "run", "--seed", "7", "--trace"]) == 0
    assert capsys.readouterr().out.startswith("trace of 7")


@pytest.mark.parametrize("content", [None, "nonsense", "[]", "{}"])
def test_what_is_neither_a_seed_nor_a_plan_is_wrong_usage(
    content: str | None, capsys: Capture, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / "plan.json").write_text(content)
    assert main(["sim", "replay", "plan.json"]) == 2
    assert "neither a seed nor a plan" in capsys.readouterr().err


def test_a_run_of_the_quorum_is_the_same_in_a_worker_and_here(capsys: Capture) -> None:
    assert main(["sim", "run", "--seed", "3", "--world", "quorum", "--output", "json"]) == 0
    in_worker = json.loads(capsys.readouterr().out)["counters"]
    assert main(["sim", "replay", "3", "--world", "quorum", "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["counters"] == in_worker
    assert in_worker["steps"] > 0


def test_a_trace_of_the_quorum_has_every_event(capsys: Capture) -> None:
    assert main(["sim", "run", "--seed", "3", "--world", "quorum", "--trace"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "every invariant held"
    assert len(lines) > 500


# -- evidence


def test_resumed_runs_add_up_to_the_target(capsys: Capture, checkout: Path) -> None:
    assert main(["sim", "run", "--seeds", "3..4", "--record"]) == 0
    assert main(["sim", "run", "--record", "--resume", "--target", "6"]) == 0
    assert [record.seeds for record in read_records(checkout)] == ["3..4", "1..2,5..6"]
    assert main(["sim", "status", "--target", "6", "--output", "json"]) == 0
    capsys.readouterr()
    assert main(["sim", "run", "--record", "--resume", "--target", "6"]) == 0
    assert "0 seeds of the cluster world passed" in capsys.readouterr().out
    assert len(read_records(checkout)) == 2


def test_status_tells_what_stands_for_the_sources_as_they_are(capsys: Capture, checkout: Path) -> None:
    main(["sim", "run", "--seeds", "1..4", "--record"])
    assert main(["sim", "status"]) == 0
    assert "4 seeds stand: 1..4" in capsys.readouterr().out
    assert main(["sim", "status", "--target", "5"]) == 1
    (checkout / "broker/quorate/broker/module.py").write_text("x = 2\n")
    assert main(["sim", "status"]) == 0
    assert "0 seeds stand" in capsys.readouterr().out


def test_status_fails_while_a_recorded_seed_does(capsys: Capture, checkout: Path) -> None:
    main(["sim", "run", "--seed", str(FAILING[0]), "--record", "--shrink-seconds-max", "0"])
    capsys.readouterr()
    assert main(["sim", "status", "--write"]) == 1
    assert f"seed {FAILING[0]} failed: lost-write" in capsys.readouterr().out
    assert f"{FAILING[0]} (lost-write)" in (checkout / "docs/evidence/simulation.md").read_text()


@pytest.mark.parametrize("arguments", [["run", "--record"], ["run", "--resume", "--target", "2"], ["status"]])
def test_outside_a_checkout_there_is_no_evidence_to_keep(
    arguments: list[str], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quorate.chaos.evidence.checkout.find_checkout", lambda: None)
    assert main(["sim", *arguments]) == 1
    assert "source checkout" in capsys.readouterr().err
