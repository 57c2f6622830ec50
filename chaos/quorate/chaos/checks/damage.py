"""Stored bytes that were changed behind a broker's back are noticed, each time and in each replica (rule 44).

One broker that notices speaks for no other, and one damage that is noticed for no other one: whoever looks
for a single detection is content with a reader that compares checksums now and then.

What was overwritten, cut off or deleted before anybody could read it cannot be noticed and does not count.
That it was, whoever has done the damage must have seen: nobody is given the benefit of the doubt.

That damaged bytes are never served, and repaired from other replicas, is what the checks of values and of
replicas say.
"""

from __future__ import annotations

from typing import Final

from quorate.chaos.checks.case import Case
from quorate.chaos.checks.verdict import Findings, Verdict

__all__ = ["NAME", "check"]

NAME: Final = "undetected-damage"


def check(case: Case) -> Verdict:
    findings = Findings()
    counting = [each for each in case.final.damages if each.detections > 0 or not each.is_gone]
    for damage in counting:
        if damage.detections == 0:
            findings.add(f"{damage.replica}: {damage.what}, and its broker has not noticed")
    figures = {
        "damage_done": len(counting),
        "damage_detected": len(counting) - findings.count,
        "damage_gone_unread": len(case.final.damages) - len(counting),
    }
    return findings.verdict(NAME, examined=len(counting), figures=figures)
