"""docs/evidence/drills.md is what docs/evidence/drills.jsonl amounts to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from quorate.chaos.drills.catalogue import STORIES
from quorate.chaos.drills.control import CONTROL_NAME
from quorate.chaos.report.evidence import DRILLS_FILE, DrillRecord, append_record, read_records
from quorate.chaos.report.evidence_page import DRILLS_PAGE, drills_page

_ROOT = Path(__file__).parents[3]


def _record(
    *,
    drill: str = "leader-kill",
    lost: int = 0,
    kind: str = "kill -9 of a leader",
    orders: Sequence[str] = (),
) -> DrillRecord:
    return DrillRecord(
        drill=drill,
        seed=7,
        command=f"quorate drill run {drill} --seed=7",
        began="2026-01-02 03:04:05 UTC",
        seconds=90.0,
        commit="0123456789abcdef",
        is_clean=True,
        sources="d1",
        faults={kind: 4},
        outcomes={"acknowledged": 1_000},
        longest_gap_s=0.5,
        examined={"lost-write": 1_000, "split-brain": 10},
        found={"lost-write": lost} if lost else {},
        figures={},
        network="not used",
        python="3.11",
        covered={"orders": {"given": list(orders), "of": 6}} if orders else {},
    )


def test_runs_of_a_drill_add_up_and_violations_stand_out() -> None:
    page = drills_page([_record(), _record(lost=3), _record(drill="other", kind="another")])
    assert "| `leader-kill` | 2 | 3.0 | 8 | 2,000 | 0.50 s | **1** |" in page
    assert "| kill -9 of a leader | 8 | 2 | 2,000 / **3** |" in page
    assert "| another | 4 | 1 | 1,000 / 0 |" in page


def test_a_gap_is_told_where_it_was_measured() -> None:
    unmeasured = replace(_record(), longest_gap_s=None)
    assert "| 4 | 1,000 | - | 0 |" in drills_page([unmeasured])
    assert "| 8 | 2,000 | 0.50 s | 0 |" in drills_page([unmeasured, _record()])


def test_a_violation_stays_on_record_beside_the_runs_since() -> None:
    fixed = replace(_record(), sources="d2")
    page = drills_page([_record(lost=3), fixed, fixed])
    assert "| **1**, none in 2 runs since |" in page
    assert "| `d1` | **lost-write** (3) | 2 runs of 3.0 minutes, 2 without violations; 2 with other" in page
    assert "**1**, none in" not in drills_page([fixed, _record(lost=3)])


def test_what_runs_have_come_to_adds_up() -> None:
    page = drills_page([_record(orders=["a", "b"]), _record(orders=["b", "c"]), _record()])
    assert "| `leader-kill` | orders | 3 of 6 | 2 |" in page


def test_a_check_that_no_longer_exists_counts_for_what_it_was_about() -> None:
    page = drills_page([replace(_record(), examined={"lost-write": 5, "too-few-copies": 2})])
    assert "- acknowledged is kept: `lost-write`, `too-few-copies` (retired)" in page
    assert "| kill -9 of a leader | 4 | 1 | 7 / 0 |" in page


def test_lines_are_read_as_they_were_written_and_a_damaged_one_is_not_skipped(tmp_path: Path) -> None:
    append_record(tmp_path, _record())
    append_record(tmp_path, _record(lost=1))
    assert read_records(tmp_path) == [_record(), _record(lost=1)]
    with open(tmp_path / DRILLS_FILE, "a") as file:
        file.write('{"drill": "half')
    with pytest.raises(ValueError, match="line 3"):
        read_records(tmp_path)


def test_every_drill_has_run_for_ten_minutes_in_all_and_its_last_run_broke_nothing() -> None:
    """`quorate drill run NAME --minutes 10 --record` makes up for what is missing."""
    seconds: defaultdict[str, float] = defaultdict(float)
    last: dict[str, DrillRecord] = {}
    for record in read_records(_ROOT):
        seconds[record.drill] += record.seconds
        last[record.drill] = record
    drills = [*(story.name for story in STORIES), CONTROL_NAME]
    assert {name: seconds[name] for name in drills if seconds[name] < 600} == {}
    assert [name for name in drills if last[name].violations] == []


def test_what_was_violated_and_what_became_of_it_is_told() -> None:
    told = (_ROOT / "docs/drills.md").read_text(encoding="utf-8").partition("## What they have found")[2]
    for record in read_records(_ROOT):
        assert not record.violations or f"| `{record.drill}` |" in told, record.drill


def test_the_page_is_up_to_date() -> None:
    assert (_ROOT / DRILLS_PAGE).read_text(encoding="utf-8") == drills_page(read_records(_ROOT))
