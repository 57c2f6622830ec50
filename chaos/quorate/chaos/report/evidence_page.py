"""docs/evidence/drills.md: fault x check x runs x violations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from quorate.chaos.evidence.checkout import commit_words
from quorate.chaos.evidence.markdown import table, write_page
from quorate.chaos.evidence.record_lines import EVIDENCE_DIRECTORY
from quorate.chaos.report.drill_report import DrillReport
from quorate.chaos.report.evidence import DrillRecord, append_record, read_records, record_of
from quorate.chaos.report.promises import Subject, promise_of

__all__ = ["DRILLS_PAGE", "drills_page", "record_drill"]

DRILLS_PAGE: Final = f"{EVIDENCE_DIRECTORY}/drills.md"

_HEAD: Final = """\
# Evidence: drills on real processes

Written by `quorate drill run NAME --record` from [drills.jsonl](drills.jsonl), which has a line for every
recorded run: commit, seed, command, and for each check how much it examined and found. Do not edit.

"""
_NOTHING: Final = "Nothing is recorded yet.\n"
_CHECKS_HEAD: Final = """
## Faults and checks

Each cell: how many things were examined, and how many of them broke the promise. The checks behind each
column, by Jepsen's names where they have one:

"""
_RUNS_HEAD: Final = """
## The last run of each drill

"""


def record_drill(root: Path, report: DrillReport) -> None:
    append_record(root, record_of(root, report))
    write_page(root, DRILLS_PAGE, drills_page(read_records(root)))


def drills_page(records: Sequence[DrillRecord]) -> str:
    if not records:
        return _HEAD + _NOTHING
    by_drill: dict[str, list[DrillRecord]] = {}
    for record in records:
        by_drill.setdefault(record.drill, []).append(record)
    return "".join(
        (
            _HEAD,
            table(
                ("drill", "runs", "minutes", "faults", "acknowledged", "longest gap", "violations"),
                (_row(name, of_it) for name, of_it in by_drill.items()),
            ),
            _CHECKS_HEAD,
            _checks_by_subject(records),
            "\n",
            table(
                ("fault", "times", "runs", *Subject),
                (_fault_row(kind, records) for kind in _kinds(records)),
            ),
            _RUNS_HEAD,
            table(
                ("drill", "when", "commit", "command", "what it measured"),
                (_last_row(of_it[-1]) for of_it in by_drill.values()),
            ),
        )
    )


def _row(name: str, records: Sequence[DrillRecord]) -> tuple[str, ...]:
    return (
        f"`{name}`",
        str(len(records)),
        f"{sum(each.seconds for each in records) / 60:.1f}",
        f"{sum(sum(each.faults.values()) for each in records):,}",
        f"{sum(each.outcomes.get('acknowledged', 0) for each in records):,}",
        f"{max(each.longest_gap_s for each in records):.2f} s",
        _bold_unless_zero(sum(each.violations for each in records)),
    )


def _kinds(records: Iterable[DrillRecord]) -> list[str]:
    return sorted({kind for record in records for kind in record.faults})


def _fault_row(kind: str, records: Sequence[DrillRecord]) -> tuple[str, ...]:
    """A run with several kinds of faults counts for each of them: all were checked together."""
    runs = [record for record in records if kind in record.faults]
    examined: Counter[Subject] = Counter()
    found: Counter[Subject] = Counter()
    for run in runs:
        for check, count in run.examined.items():
            examined[promise_of(check).subject] += count
        for check, count in run.found.items():
            found[promise_of(check).subject] += count
    cells = [f"{examined[subject]:,} / {_bold_unless_zero(found[subject])}" for subject in Subject]
    return (kind, f"{sum(run.faults[kind] for run in runs):,}", str(len(runs)), *cells)


def _checks_by_subject(records: Sequence[DrillRecord]) -> str:
    checks = list(dict.fromkeys(check for record in records for check in record.examined))
    lines = []
    for subject in Subject:
        of_it = ", ".join(f"`{check}`" for check in checks if promise_of(check).subject is subject)
        lines.append(f"- {subject}: {of_it or 'none'}\n")
    return "".join(lines)


def _last_row(record: DrillRecord) -> tuple[str, ...]:
    measured = "; ".join(f"{name}: {value}" for name, value in record.figures.items())
    commit = commit_words(record.commit, is_clean=record.is_clean)
    return (f"`{record.drill}`", record.began, commit, f"`{record.command}`", measured)


def _bold_unless_zero(count: int) -> str:
    return f"**{count}**" if count else "0"
