"""An idempotent producer's record is in the log once, however often it was sent."""

from __future__ import annotations

from typing import Final

from quorate.chaos.checks.case import Case
from quorate.chaos.checks.verdict import Findings, Verdict
from quorate.core.ids import Offset

__all__ = ["NAME", "check"]

NAME: Final = "duplicate"


def check(case: Case) -> Verdict:
    findings, examined = Findings(), 0
    for partition in case.partitions:
        records = partition.final.records
        examined += len(records)
        if len(partition.offset_of) == len(records):
            continue
        first: dict[bytes, Offset] = {}
        for offset, value in records.items():
            before = first.setdefault(value, offset)
            sent = partition.sent_by_value.get(value)
            if before != offset and sent is not None and sent.acks == "all":
                findings.add(f"{partition.partition}: {value!r} is at {before} and again at {offset}")
    return findings.verdict(NAME, anomaly="duplicate", examined=examined)
