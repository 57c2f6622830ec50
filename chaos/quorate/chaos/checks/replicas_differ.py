"""All replicas hold the same bytes below the high watermark (rule 1: log matching).

Retention runs on each replica by itself, so that one may begin later than another: they are compared from
where all of them begin.
"""

from __future__ import annotations

from typing import Final

from quorate.chaos.checks.case import Case
from quorate.chaos.checks.final_state import CopyOfLog
from quorate.chaos.checks.verdict import Findings, Verdict
from quorate.core.ids import Offset

__all__ = ["NAME", "check"]

NAME: Final = "replicas-differ"


def check(case: Case) -> Verdict:
    findings, examined = Findings(), 0
    for partition in case.partitions:
        copies = sorted(partition.final.copies.items())
        examined += len(copies)
        for broker, copy in copies:
            for fault in copy.faults:
                findings.add(f"{partition.partition} on {broker}: {fault}")
        for broker, copy in copies[1:]:
            first_broker, first = copies[0]
            offset = _first_difference(first, copy)
            if offset is not None:
                findings.add(
                    f"{partition.partition}: {first_broker} and {broker} differ from {offset} on, below the "
                    f"high watermark {partition.final.high_watermark}"
                )
    return findings.verdict(NAME, examined=examined)


def _first_difference(one: CopyOfLog, other: CopyOfLog) -> Offset | None:
    if one.batches == other.batches:
        return None
    start = max(min(copy.batches, default=Offset(0)) for copy in (one, other))
    offsets = {offset for copy in (one, other) for offset in copy.batches if offset >= start}
    return min(
        (offset for offset in offsets if one.batches.get(offset) != other.batches.get(offset)), default=None
    )
