"""docs/evidence/drills.jsonl: a line for each recorded drill, and drills.md, which is written from it.

Lines are only ever added, and the page is a function of them alone, so that it can be checked against them.
"""

from __future__ import annotations

import platform
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from quorate.chaos.evidence.checkout import commit_of
from quorate.chaos.evidence.record_lines import EVIDENCE_DIRECTORY, append_line, read_lines
from quorate.chaos.evidence.sources import current_sources
from quorate.chaos.report.drill_report import DrillReport

__all__ = ["DRILLS_FILE", "DrillRecord", "append_record", "read_records", "record_of"]

DRILLS_FILE: Final = f"{EVIDENCE_DIRECTORY}/drills.jsonl"


@dataclass(frozen=True, slots=True)
class DrillRecord:
    """One line."""

    drill: str
    seed: int
    command: str
    began: str
    seconds: float
    commit: str | None
    is_clean: bool
    #: digest of what decides about records, see evidence/sources.py
    sources: str
    #: how often, by kind
    faults: dict[str, int]
    outcomes: dict[str, int]
    #: None: nobody noted when something was acknowledged
    longest_gap_s: float | None
    #: by check: how much was examined, and how much was wrong
    examined: dict[str, int]
    found: dict[str, int]
    figures: dict[str, str]
    network: str
    python: str
    #: of what is gone through over several runs: what this run came to, and how many there are
    covered: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def violations(self) -> int:
        """How many checks have found something."""
        return len(self.found)


def record_of(root: Path, report: DrillReport) -> DrillRecord:
    commit, availability = commit_of(root), report.availability
    return DrillRecord(
        drill=report.drill,
        seed=report.seed,
        command=report.command,
        began=report.began,
        seconds=round(report.seconds, 1),
        commit=commit.name,
        is_clean=commit.is_clean,
        sources=current_sources(root),
        faults=dict(report.fault_counts),
        outcomes=dict(report.outcomes),
        longest_gap_s=round(availability.longest_gap_s, 3) if availability.times_s else None,
        examined={verdict.check: verdict.examined for verdict in report.verdicts},
        found={verdict.check: max(verdict.found, 1) for verdict in report.verdicts if not verdict.passed},
        figures=dict(report.figures),
        network=report.surroundings.get("network faults by", ""),
        python=platform.python_version(),
        covered={name: {"given": list(each.given), "of": each.of} for name, each in report.covered.items()},
    )


def append_record(root: Path, record: DrillRecord) -> None:
    append_line(root / DRILLS_FILE, asdict(record))


def read_records(root: Path) -> list[DrillRecord]:
    return read_lines(root / DRILLS_FILE, lambda document: DrillRecord(**document))
