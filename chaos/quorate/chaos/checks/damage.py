"""Stored bytes that were changed behind a broker's back are noticed (rule 44).

That they are never served, and repaired from other replicas, is what the checks of values and of replicas
say.
"""

from __future__ import annotations

from typing import Final

from quorate.chaos.checks.case import Case
from quorate.chaos.checks.verdict import Findings, Verdict

__all__ = ["NAME", "check"]

NAME: Final = "undetected-damage"


def check(case: Case) -> Verdict:
    findings = Findings()
    done, detected = case.final.damage_done, case.final.damage_detected
    if done > 0 and detected == 0:
        findings.add(f"stored bytes were changed {done} times, and no broker has noticed any")
    figures = {"damage_done": done, "damage_detected": detected}
    return findings.verdict(NAME, examined=done, figures=figures)
