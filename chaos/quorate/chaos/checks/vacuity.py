"""What a run was to show did happen: without it, nothing that the other checks say means anything."""

from __future__ import annotations

from typing import Final

from quorate.chaos.checks.case import Case
from quorate.chaos.checks.verdict import Findings, Verdict

__all__ = ["NAME", "check"]

NAME: Final = "vacuous"


def check(case: Case) -> Verdict:
    findings = Findings()
    counters = case.final.counters
    for name in case.final.expected:
        if not counters.get(name, 0):
            findings.add(f"{name} was to happen, and did not")
    if not any(sent.is_acknowledged for sent in case.history.sent):
        findings.add("nothing was acknowledged")
    return findings.verdict(NAME, examined=1 + len(case.final.expected), figures=dict(counters))
