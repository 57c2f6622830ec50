"""The control goes on for its time, and does not end before it was caught unless that takes too long."""

from __future__ import annotations

from itertools import chain, repeat
from pathlib import Path

import pytest

from quorate.chaos.drills.control import run_control
from quorate.chaos.drills.options import DrillOptions
from quorate.chaos.drills.progress import Silence
from quorate.chaos.raft_control.kill_all import Losses
from quorate.chaos.report.drill_report import DrillReport

CLEAN = Losses(kills=5, acknowledged=100, lost=0, diverged=0)
LOSING = Losses(kills=5, acknowledged=100, lost=3, diverged=1)


async def _control(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, seconds: float, caught_first: int | None
) -> DrillReport:
    """Every attempt takes its ten seconds; all before that one lose nothing."""
    pytest.importorskip("pysyncobj")
    clean = repeat(CLEAN) if caught_first is None else repeat(CLEAN, caught_first - 1)
    outcomes = chain(clean, repeat(LOSING))
    now_s = 0.0

    async def attempt(*, for_s: float, seed: int) -> Losses:
        nonlocal now_s
        del seed
        now_s += for_s
        return next(outcomes)

    monkeypatch.setattr("quorate.chaos.drills.control.kill_all_repeatedly", attempt)
    options = DrillOptions(seed=1, seconds=seconds, directory=str(tmp_path), command="")
    return await run_control(options, Silence(), attempt_s=10.0, now_s=lambda: now_s)


async def test_it_goes_on_after_it_was_caught(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    report = await _control(monkeypatch, tmp_path, seconds=95, caught_first=3)
    assert report.passed
    assert report.seconds == 95
    assert report.figures["attempts, each from nothing"] == "10"
    assert report.figures["attempts that were caught"] == "8"
    assert report.fault_counts.total() == 50


async def test_it_has_a_minute_to_be_caught(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    report = await _control(monkeypatch, tmp_path, seconds=0, caught_first=4)
    assert report.passed
    assert report.seconds == 40


async def test_one_that_is_not_caught_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    report = await _control(monkeypatch, tmp_path, seconds=0, caught_first=None)
    assert not report.passed
    assert report.seconds == 60
