"""docs/checks.md names every check, with Jepsen's name for what it looks for, and every kind of line."""

from __future__ import annotations

import re
from pathlib import Path

from quorate.chaos.history.entries import Entry
from quorate.chaos.history.ledger_lines import encode_begin, encode_end
from tests.unit.chaos_checks.planted import Case

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/checks.md").read_text()


def rows(heading: str) -> list[list[str]]:
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_page_names_every_check_and_what_jepsen_calls_it() -> None:
    named = {}
    for check, anomaly, *_ in rows("The checks"):
        for name in re.findall(r"`([\w-]+)`", check):
            named[name] = name if anomaly == "the same" else anomaly or None
    assert named == {name: verdict.anomaly for name, verdict in Case().verdicts().items()}


def test_page_names_every_violation_that_ends_a_run() -> None:
    """Of a whole cluster, simulated or not: the Raft simulator calls its own by the names of classes."""
    sources = [path.read_text() for path in (ROOT / "chaos").rglob("*.py") if "raft" not in path.parts]
    raised = {name for text in sources for name in re.findall(r'check="([a-z-]+)"', text)}
    raised |= {name for text in sources for name in re.findall(r'_fail\(\s*"([a-z-]+)"', text)}
    sections = ("The checks", "Found on the way", "The invariants of a simulated cluster")
    named = {
        name for section in sections for row in rows(section) for name in re.findall(r"`([\w-]+)`", row[0])
    }
    assert raised <= named


def test_page_names_every_kind_of_line() -> None:
    history = Case().history
    deletion = history.delete_topic(history.sent[0].partition.topic)
    named = {(begin.strip("`"), end.strip("`") or None) for begin, end, _ in rows("The ledger")}
    with_end: list[Entry] = [
        history.sent[0],
        history.assignments[0],
        history.commits[0],
        history.faults[0],
        deletion,
    ]
    without: list[Entry] = [history.polls[0], history.watermarks[0], history.changes[0]]
    assert named == {
        *((encode_begin(entry)["type"], encode_end(entry)["type"]) for entry in with_end),
        *((encode_begin(entry)["type"], None) for entry in without),
    }
