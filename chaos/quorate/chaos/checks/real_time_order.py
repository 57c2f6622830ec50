"""A record comes to stand behind everything that was known to be in the log when it was sent.

Known is what was acknowledged, read, or below a high watermark that a leader told of, before the send began.
It holds of records with an unknown outcome as well: wherever they are found, they were written later.
"""

from __future__ import annotations

import math
from typing import Final

from quorate.chaos.checks.case import Case, PartitionCase
from quorate.chaos.checks.verdict import Findings, Verdict
from quorate.core.ids import Offset

__all__ = ["NAME", "check"]

NAME: Final = "real-time-order"
#: behind everything that was known
_NEVER: Final = (math.inf, Offset(0))


def check(case: Case) -> Verdict:
    findings, examined = Findings(), 0
    for partition in case.partitions:
        examined += _check_partition(partition, findings)
    return findings.verdict(NAME, examined=examined)


def _check_partition(partition: PartitionCase, findings: Findings) -> int:
    placed = sorted(partition.placed, key=lambda pair: pair[0].begun_s)
    known = iter(partition.ends_known)
    known_s, known_end = next(known, _NEVER)
    end = Offset(0)
    for sent, place in placed:
        while known_s < sent.begun_s:
            end = max(end, known_end)
            known_s, known_end = next(known, _NEVER)
        if place < end:
            findings.add(
                f"{partition.partition}: {sent.value!r} is at {place}; before it was sent, the log was known "
                f"to reach {end}"
            )
    return len(placed)
