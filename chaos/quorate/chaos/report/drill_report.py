"""Everything that is told about a run. Times are seconds since it began to write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from quorate.chaos.checks.verdict import Verdict
from quorate.chaos.report.availability import Availability

__all__ = ["Coverage", "DrillReport", "Mark", "ReportedFault"]


class Coverage(NamedTuple):
    given: tuple[str, ...]
    #: how many there are
    of: int

    def __str__(self) -> str:
        return f"{len(self.given)} of {self.of}"


@dataclass(frozen=True, slots=True)
class ReportedFault:
    kind: str
    target: str
    begun_s: float
    #: it was undone
    ended_s: float
    #: every replica was in sync again; None: not before the end
    whole_s: float | None
    #: the longest time without any acknowledgement, while it lasted and until all was whole
    gap_s: float


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that the cluster did by itself."""

    at_s: float
    kind: str
    what: str


@dataclass(frozen=True, slots=True)
class DrillReport:
    drill: str
    shows: str
    seed: int
    #: how to see it again
    command: str
    #: in UTC
    began: str
    seconds: float
    rounds: int
    verdicts: Sequence[Verdict]
    availability: Availability
    faults: Sequence[ReportedFault]
    marks: Sequence[Mark]
    #: all kinds of marks that there can be, in the order in which they are drawn
    lanes: Sequence[str]
    #: outcomes of writes, by name
    outcomes: Mapping[str, int]
    records_read: int
    #: what the story measured itself, in words
    figures: Mapping[str, str] = field(default_factory=dict)
    #: how it was run: versions, layout, settings
    surroundings: Mapping[str, str] = field(default_factory=dict)
    #: of what is gone through over several runs: what this run came to
    covered: Mapping[str, Coverage] = field(default_factory=dict)
    #: every operation of every client lies beside the report
    has_history: bool = True
    #: how often, by kind, where nobody noted when
    untimed_faults: Mapping[str, int] = field(default_factory=dict)

    @property
    def fault_counts(self) -> Counter[str]:
        """How often, by kind."""
        return Counter(fault.kind for fault in self.faults) + Counter(self.untimed_faults)

    @property
    def passed(self) -> bool:
        return all(verdict.passed for verdict in self.verdicts)

    @property
    def violations(self) -> int:
        return sum(not verdict.passed for verdict in self.verdicts)
