"""`quorate sim mutants` from the command line."""

from __future__ import annotations

import json

import pytest

from quorate.chaos.mutations.registry import MUTATIONS
from quorate.console.main import main

Capsys = pytest.CaptureFixture[str]

ONE = ["--name", "duplicate-is-called-out-of-order", "--jobs", "1"]


def run(*arguments: str) -> int:
    return main(["sim", "mutants", *arguments])


def test_list_names_every_mutation_and_runs_none(capsys: Capsys) -> None:
    assert run("--list") == 0
    listed = capsys.readouterr().out
    assert all(each.name in listed for each in MUTATIONS)


def test_a_rule_that_is_switched_off_is_missed_by_somebody(capsys: Capsys) -> None:
    assert run(*ONE) == 0
    told = capsys.readouterr().out
    assert "check_duplicates_are_told_from_gaps" in told
    assert "1 of 1 mutations were noticed" in told


def test_a_mutation_that_nobody_notices_fails_the_run(
    capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quorate.chaos.mutations.hunting._trial", lambda *_, **__: None)
    assert run(*ONE, "--output", "json") == 1
    [outcome] = json.loads(capsys.readouterr().out)
    assert outcome["caught_by"] is None


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--name", "no-such-mistake"], "there is no mutation"),
        (["--rule", "57"], "it is not implemented"),
        (["--rule", "8", "--record"], "leave the other options out"),
        (["--resume"], "--record --resume"),
    ],
)
def test_what_makes_no_sense_is_refused(capsys: Capsys, arguments: list[str], complaint: str) -> None:
    assert run(*arguments) == 2
    assert complaint in capsys.readouterr().err
