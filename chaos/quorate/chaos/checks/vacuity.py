"""What a run was to show did happen: without it, nothing that the other checks say means anything."""

from __future__ import annotations

from typing import Final

from quorate.chaos.checks.evidence import Evidence
from quorate.chaos.checks.verdict import Findings, Verdict

__all__ = ["NAME", "check"]

NAME: Final = "vacuous"


def check(evidence: Evidence) -> Verdict:
    findings = Findings()
    counters = evidence.final.counters
    for name in evidence.final.expected:
        if not counters.get(name, 0):
            findings.add(f"{name} was to happen, and did not")
    if not any(sent.is_acknowledged for sent in evidence.history.sent):
        findings.add("nothing was acknowledged")
    return findings.verdict(NAME, examined=1 + len(evidence.final.expected), figures=dict(counters))
