"""Retention deletes only what is committed, and only where it is asked to (rule 48)."""

from __future__ import annotations

from typing import Final

from quorate.chaos.checks.case import Case, PartitionCase
from quorate.chaos.checks.verdict import Findings, Verdict

__all__ = ["NAME", "check"]

NAME: Final = "retention"


def check(case: Case) -> Verdict:
    findings, examined = Findings(), 0
    for partition in case.partitions:
        final = partition.final
        examined += 1
        _check_start(partition, final.log_start_offset, final.high_watermark, findings)
        for seen in partition.watermarks:
            if seen.log_start_offset is not None:
                examined += 1
                _check_start(partition, seen.log_start_offset, seen.high_watermark, findings)
    return findings.verdict(NAME, examined=examined)


def _check_start(partition: PartitionCase, start: int, high_watermark: int, findings: Findings) -> None:
    if start > high_watermark:
        findings.add(
            f"{partition.partition}: the log begins at {start}, behind its high watermark {high_watermark}"
        )
    if start > 0 and not partition.final.may_delete:
        findings.add(f"{partition.partition}: the log begins at {start}, and nothing may be deleted")
