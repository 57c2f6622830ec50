"""What was run: docs/evidence/peers.jsonl, a line for each drill of a system. Lines are only ever added."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from quorate.chaos.evidence.record_lines import EVIDENCE_DIRECTORY, append_line, read_lines
from quorate.chaos.peers.peer_drill import PeerReport

__all__ = ["PeerRecord", "append_record", "read_records", "record_of"]

_FILE: Final = f"{EVIDENCE_DIRECTORY}/peers.jsonl"


@dataclass(frozen=True, slots=True)
class CheckRecord:
    examined: int
    found: int
    #: the first few in words
    findings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PeerRecord:
    recorded_at: str
    #: of the checker, and of ourselves where we are the system
    commit: str | None
    is_clean: bool
    #: the machine
    system: str
    name: str
    version: str
    settings: Mapping[str, str]
    seed: int
    rounds: int
    outcomes: Mapping[str, int]
    records_read: int
    committed: int
    seconds: float
    #: by name
    checks: Mapping[str, CheckRecord]

    @property
    def violations(self) -> int:
        return sum(check.found for check in self.checks.values())


def record_of(
    report: PeerReport, *, recorded_at: str, commit: str | None, is_clean: bool, system: str
) -> PeerRecord:
    return PeerRecord(
        recorded_at=recorded_at,
        commit=commit,
        is_clean=is_clean,
        system=system,
        name=report.name,
        version=report.version,
        settings=report.settings,
        seed=report.seed,
        rounds=report.rounds,
        outcomes=report.outcomes,
        records_read=report.records_read,
        committed=report.committed,
        seconds=round(report.seconds, 1),
        checks={
            verdict.check: CheckRecord(verdict.examined, verdict.found, verdict.findings)
            for verdict in report.verdicts
        },
    )


def append_record(root: Path, record: PeerRecord) -> None:
    append_line(root / _FILE, asdict(record))


def read_records(root: Path) -> list[PeerRecord]:
    return read_lines(root / _FILE, _parse)


def _parse(document: dict[str, Any]) -> PeerRecord:
    checks = {
        name: CheckRecord(each["examined"], each["found"], tuple(each["findings"]))
        for name, each in document.pop("checks").items()
    }
    return PeerRecord(**document, checks=checks)
