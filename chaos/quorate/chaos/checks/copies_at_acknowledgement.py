"""When an acks=all record was acknowledged, MinISR replicas held it (rules 14, 15); where somebody looked."""

from __future__ import annotations

from typing import Final

from quorate.chaos.checks.evidence import Evidence
from quorate.chaos.checks.verdict import Findings, Verdict

__all__ = ["NAME", "check"]

NAME: Final = "too-few-copies"


def check(evidence: Evidence) -> Verdict:
    findings, examined = Findings(), 0
    for partition in evidence.partitions:
        min_isr = partition.final.min_isr
        for sent in partition.sent:
            if sent.copies is None or not sent.is_promised:
                continue
            examined += 1
            if sent.copies < min_isr:
                findings.add(
                    f"{partition.partition}: {sent.value!r} was acknowledged at {sent.offset} with "
                    f"{sent.copies} copies, MinISR is {min_isr}"
                )
    return findings.verdict(NAME, examined=examined)
