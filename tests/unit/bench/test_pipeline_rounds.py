"""Figures of the pipeline rest on lines that are kept, one for each work of each side in each round."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the extra spark is not installed")

from bench.pipeline.rounds import Rounds


def test_each_line_says_what_was_measured_and_under_which_circumstances(tmp_path: Path) -> None:
    path = tmp_path / "evidence" / "pipeline.jsonl"
    first = Rounds(path, {"commit": "abc", "is_clean": True})
    first.add(round=1, work="write", side="kafka", seconds=1.5)
    first.add(round=1, work="write", side="quorate", seconds=0.5)
    Rounds(path, {"commit": "def", "is_clean": False}).add(round=0, work="idle", side="rate", period_ms=10.1)
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        {"commit": "abc", "is_clean": True, "round": 1, "work": "write", "side": "kafka", "seconds": 1.5},
        {"commit": "abc", "is_clean": True, "round": 1, "work": "write", "side": "quorate", "seconds": 0.5},
        {"commit": "def", "is_clean": False, "round": 0, "work": "idle", "side": "rate", "period_ms": 10.1},
    ]


def test_nothing_is_written_where_nothing_is_to_be_recorded(tmp_path: Path) -> None:
    Rounds().add(round=1, work="write", side="kafka", seconds=1.5)
    assert list(tmp_path.iterdir()) == []
