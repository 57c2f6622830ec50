"""What was run, and of which sources it is evidence: docs/evidence/simulation.jsonl, a line per recorded run.

Lines are only ever added. What they amount to is computed from all of them (``Standing``): the seeds that
passed on the sources with a given digest. Runs may overlap, be interrupted, and be made on several machines;
a seed counts once. Of a seed that was run more than once on the same sources the last run counts, so that one
that failed through a mistake of the simulator stands again once that is corrected and it has passed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from quorate.chaos.campaign.seed_ranges import parse_seeds
from quorate.chaos.evidence.record_lines import EVIDENCE_DIRECTORY, append_line, read_lines

__all__ = ["RunRecord", "Standing", "append_record", "read_records", "standing"]

_FILE: Final = f"{EVIDENCE_DIRECTORY}/simulation.jsonl"


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One line. ``seeds``: all that were run, as ``1..500,502``; those that failed are in ``failed`` too."""

    recorded_at: str
    world: str
    commit: str | None
    is_clean: bool
    #: digests, see sources.py
    sources: str
    simulator: str
    seeds: str
    seeds_run: int
    #: check by seed
    failed: dict[str, str]
    seconds: float
    jobs: int
    python: str
    is_interrupted: bool

    def __post_init__(self) -> None:
        seeds = parse_seeds(self.seeds)
        if len(seeds) != self.seeds_run:
            raise ValueError(f"{self.seeds} are {len(seeds)} seeds, not {self.seeds_run}")
        if not {int(seed) for seed in self.failed} <= seeds:
            raise ValueError(f"{self.failed} failed, but only {self.seeds} were run")


@dataclass(slots=True)
class Standing:
    """What is known about one state of the sources, in one world."""

    world: str
    sources: str
    passed: set[int] = field(default_factory=set)
    #: check by seed, of those that have not passed since
    failed: dict[int, str] = field(default_factory=dict)
    seconds: float = 0.0
    runs: int = 0
    last: RunRecord | None = None

    def add(self, record: RunRecord) -> None:
        failed = {int(seed): check for seed, check in record.failed.items()}
        passed = parse_seeds(record.seeds) - failed.keys()
        self.passed = (self.passed | passed) - failed.keys()
        self.failed = {seed: check for seed, check in self.failed.items() if seed not in passed} | failed
        self.seconds += record.seconds
        self.runs += 1
        self.last = record

    def seeds_missing(self, target: int) -> list[int]:
        """The first ones to run until ``target`` seeds stand."""
        missing: list[int] = []
        seed = 0
        while len(self.passed) + len(missing) < target:
            seed += 1
            if seed not in self.passed:
                missing.append(seed)
        return missing


def append_record(root: Path, record: RunRecord) -> None:
    append_line(root / _FILE, asdict(record))


def read_records(root: Path) -> list[RunRecord]:
    return read_lines(root / _FILE, lambda document: RunRecord(**document))


def standing(records: Iterable[RunRecord], *, world: str, sources: str) -> Standing:
    found = Standing(world, sources)
    for record in records:
        if record.world == world and record.sources == sources:
            found.add(record)
    return found
