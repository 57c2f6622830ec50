"""What leaders tell of their logs never goes back (rules 13, 17).

Not even from one leader to the next: a new one does not answer before it knows that it is up to date. So a
high watermark reaches everything that was acknowledged or read before it was asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from quorate.chaos.checks.case import Case, PartitionCase
from quorate.chaos.checks.verdict import Findings, Verdict
from quorate.core.ids import Offset

__all__ = ["NAME", "check"]

NAME: Final = "nonmonotonic-watermark"


def check(case: Case) -> Verdict:
    findings, examined = Findings(), 0
    for partition in case.partitions:
        examined += len(partition.watermarks)
        if partition.watermarks:
            _check_high_watermarks(partition, findings)
            _check_log_starts(partition, findings)
    return findings.verdict(NAME, examined=examined)


def _check_high_watermarks(partition: PartitionCase, findings: Findings) -> None:
    seen = [(each.begun_s, each.high_watermark) for each in partition.watermarks]
    for told, known in _gone_back(seen, partition.ends_known):
        findings.add(
            f"{partition.partition}: high watermark {told}, after the log was known to reach {known}"
        )
    highest = max(map(partition.left_of_watermark, partition.watermarks))
    if partition.final.high_watermark < highest:
        findings.add(
            f"{partition.partition}: the high watermark was {highest} and ended at "
            f"{partition.final.high_watermark}"
        )


def _check_log_starts(partition: PartitionCase, findings: Findings) -> None:
    told = [each for each in partition.watermarks if each.log_start_offset is not None]
    begun = [(each.begun_s, each.log_start_offset or Offset(0)) for each in told]
    ended = sorted((each.ended_s, each.log_start_offset or Offset(0)) for each in told)
    for later, before in _gone_back(begun, ended):
        findings.add(f"{partition.partition}: log start offset {later}, after {before}")


def _gone_back(
    begun: list[tuple[float, Offset]], known: list[tuple[float, Offset]]
) -> Iterable[tuple[Offset, Offset]]:
    """(told, known before it was asked for) where it is less. ``known`` is sorted by time."""
    next_known, highest = 0, Offset(0)
    for begun_s, told in sorted(begun):
        while next_known < len(known) and known[next_known][0] < begun_s:
            highest = max(highest, known[next_known][1])
            next_known += 1
        if told < highest:
            yield told, highest
