"""The records of an idempotent producer stand in the log in the order in which it sent them."""

from __future__ import annotations

from typing import Final

from quorate.chaos.checks.case import Case
from quorate.chaos.checks.verdict import Findings, Verdict
from quorate.chaos.history.entries import Sent
from quorate.core.ids import Offset

__all__ = ["NAME", "check"]

NAME: Final = "nonmonotonic-send"


def check(case: Case) -> Verdict:
    findings, examined = Findings(), 0
    for partition in case.partitions:
        last: dict[str, tuple[Sent, Offset]] = {}
        for sent, place in partition.placed:
            if sent.acks != "all":
                continue
            examined += 1
            before = last.get(sent.producer)
            if before is not None and place < before[1]:
                findings.add(
                    f"{partition.partition}: record {sent.number} of {sent.producer} is at {place}, before "
                    f"its record {before[0].number} at {before[1]}"
                )
            else:
                last[sent.producer] = (sent, place)
    return findings.verdict(NAME, anomaly="nonmonotonic-send", examined=examined)
