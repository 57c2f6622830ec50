"""What one check says of one run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from quorate.chaos.checks.violation import Violation

__all__ = ["FINDINGS_MAX", "Findings", "Verdict", "raise_violations"]

#: Of the findings of one check so many are told; a thousand lost records are told by a few and their number.
FINDINGS_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class Verdict:
    check: str
    #: Jepsen's name for what is looked for; None: it has none
    anomaly: str | None
    #: what was found, the first few in words; empty: the promise held
    findings: tuple[str, ...]
    #: how many things were looked at; 0: the check says nothing
    examined: int
    #: how many findings there were in all
    found: int = 0
    #: what was counted or measured on the way, for reports
    figures: Mapping[str, float] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        return not self.findings

    @staticmethod
    def of(violation: Violation) -> Verdict:
        """Somebody has found it before any check could."""
        return Verdict(violation.check, None, (str(violation),), 1, found=1)


class Findings:
    """Collects for a verdict."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.count = 0

    def add(self, finding: str) -> None:
        self.count += 1
        if len(self.told) < FINDINGS_MAX:
            self.told.append(finding)

    def verdict(
        self,
        check: str,
        *,
        anomaly: str | None = None,
        examined: int,
        figures: Mapping[str, float] | None = None,
    ) -> Verdict:
        return Verdict(check, anomaly, tuple(self.told), examined, self.count, figures or {})


def raise_violations(verdicts: Iterable[Verdict]) -> None:
    """The first that did not pass names the violation; the message tells of all."""
    failed: Sequence[Verdict] = [each for each in verdicts if not each.passed]
    if failed:
        raise Violation("\n".join(map(_told, failed)), check=failed[0].check)


def _told(verdict: Verdict) -> str:
    more = verdict.found - len(verdict.findings)
    ending = f"; and {more} more" if more > 0 else ""
    return f"{verdict.check}: {'; '.join(verdict.findings)}{ending}"
