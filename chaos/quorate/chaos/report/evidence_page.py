"""docs/evidence/drills.md: fault x check x runs x violations."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from quorate.chaos.evidence.checkout import commit_words
from quorate.chaos.evidence.markdown import table, write_page
from quorate.chaos.evidence.record_lines import EVIDENCE_DIRECTORY
from quorate.chaos.report.drill_report import DrillReport
from quorate.chaos.report.evidence import DrillRecord, append_record, read_records, record_of
from quorate.chaos.report.promises import RETIRED, Subject, promise_of

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
_VIOLATIONS_HEAD: Final = """
## Runs with violations

They stay on record, whatever was changed since. What each of them was, and what became of it:
[what drills have found](../drills.md#what-they-have-found).

"""
_COVERED_HEAD: Final = """
## What runs have come to together

Of what is too much for one run: each begins where its seed says, in an order that is the same for all.

"""
_RUNS_HEAD: Final = """
## Every run

*Sources*: a digest of what decides about records ([which](../../chaos/quorate/chaos/evidence/sources.py);
comments do not count). Runs with the same digest put the same code to the test.

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
            *_violations(by_drill),
            *_covered(by_drill),
            _RUNS_HEAD,
            table(
                ("drill", "when", "commit", "sources", "violated", "command", "what it measured"),
                map(_run_row, records),
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
        _longest_gap(records),
        _violation_words(records),
    )


def _longest_gap(records: Sequence[DrillRecord]) -> str:
    """Of runs without any fault on record nobody knows when the gap was, nor whether there was one."""
    gaps_s = [each.longest_gap_s for each in records if each.faults and each.longest_gap_s is not None]
    return f"{max(gaps_s):.2f} s" if gaps_s else "-"


def _violation_words(records: Sequence[DrillRecord]) -> str:
    """Runs since the last violation are told beside it, not instead of it."""
    count = sum(each.violations for each in records)
    since = _runs_since_violation(records)
    return _bold_unless_zero(count) + (f", none in {_runs(since)} since" if count and since else "")


def _runs_since_violation(records: Sequence[DrillRecord]) -> Sequence[DrillRecord]:
    """The last ones without any."""
    return list(itertools.takewhile(lambda each: not each.violations, reversed(records)))


def _runs(records: Sequence[DrillRecord]) -> str:
    return "1 run" if len(records) == 1 else f"{len(records)} runs"


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
        of_it = ", ".join(map(_check_words, (each for each in checks if promise_of(each).subject is subject)))
        lines.append(f"- {subject}: {of_it or 'none'}\n")
    return "".join(lines)


def _check_words(check: str) -> str:
    return f"`{check}` (retired)" if check in RETIRED else f"`{check}`"


def _violations(by_drill: Mapping[str, Sequence[DrillRecord]]) -> Iterator[str]:
    failed = [
        (record, records[number + 1 :])
        for records in by_drill.values()
        for number, record in enumerate(records)
        if record.violations
    ]
    if failed:
        yield _VIOLATIONS_HEAD
        yield table(
            ("drill", "when", "commit", "sources", "violated", "runs of this drill since"),
            (_violation_row(record, later) for record, later in failed),
        )


def _violation_row(record: DrillRecord, later: Sequence[DrillRecord]) -> tuple[str, ...]:
    clean = [each for each in later if not each.violations]
    changed = [each for each in later if each.sources != record.sources]
    minutes = sum(each.seconds for each in later) / 60
    since = (
        f"{_runs(later)} of {minutes:.1f} minutes, {len(clean)} without violations; "
        f"{len(changed)} with other sources"
    )
    return (*_where(record), _violated(record), since if later else "none")


def _covered(by_drill: Mapping[str, Sequence[DrillRecord]]) -> Iterator[str]:
    rows = []
    for drill, records in by_drill.items():
        for name in dict.fromkeys(name for record in records for name in record.covered):
            runs = [record.covered[name] for record in records if name in record.covered]
            given = {each for run in runs for each in run["given"]}
            of = max(run["of"] for run in runs)
            rows.append((f"`{drill}`", name, f"{len(given)} of {of}", str(len(runs))))
    if rows:
        yield _COVERED_HEAD
        yield table(("drill", "of what", "came to", "in runs"), rows)


def _run_row(record: DrillRecord) -> tuple[str, ...]:
    measured = "; ".join(f"{name}: {value}" for name, value in record.figures.items())
    return (*_where(record), _violated(record), f"`{record.command}`", measured)


def _where(record: DrillRecord) -> tuple[str, ...]:
    commit = commit_words(record.commit, is_clean=record.is_clean)
    return (f"`{record.drill}`", record.began, commit, f"`{record.sources}`")


def _violated(record: DrillRecord) -> str:
    return ", ".join(f"**{check}** ({count})" for check, count in record.found.items()) or "none"


def _bold_unless_zero(count: int) -> str:
    return f"**{count}**" if count else "0"
