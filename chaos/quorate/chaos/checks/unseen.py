"""A reader that has read to the end has seen every acknowledged record, or another reader has."""

from __future__ import annotations

from typing import Final

from quorate.chaos.checks.case import Case, PartitionCase
from quorate.chaos.checks.verdict import Findings, Verdict
from quorate.core.ids import Offset

__all__ = ["NAME", "check"]

NAME: Final = "unseen"


def check(case: Case) -> Verdict:
    findings, examined = Findings(), 0
    for partition in case.partitions:
        start = _read_to_the_end_from(case, partition)
        if start is None:
            continue
        seen = {offset for poll in partition.polls for offset, _ in poll.records}
        records = partition.final.records
        for sent in partition.sent:
            if not sent.is_promised or sent.offset is None or sent.offset < start:
                continue
            examined += 1
            # One that is not there is lost, which is worse, and another check's. One that has been replaced
            # may have been removed before the last reader came to it.
            is_there = records.get(sent.offset) == sent.value
            if sent.offset not in seen and is_there and not partition.is_replaced(sent.value, sent.offset):
                findings.add(f"{partition.partition}: nobody has read {sent.value!r} at {sent.offset}")
    return findings.verdict(NAME, anomaly="unseen", examined=examined)


def _read_to_the_end_from(case: Case, partition: PartitionCase) -> Offset | None:
    """None: nobody has read to the end."""
    starts = [
        assignment.starts[partition.partition]
        for assignment in case.assignments_of(partition.partition)
        if assignment.caught_up_s is not None
    ]
    return min((start for start in starts if start is not None), default=None)
