"""One value for each offset: what was acknowledged there, what readers saw there, and what is there now.

An acknowledged record that is nowhere is a lost write, not this.
"""

from __future__ import annotations

from typing import Final

from quorate.chaos.checks.case import Case, PartitionCase
from quorate.chaos.checks.verdict import Findings, Verdict
from quorate.core.ids import Offset

__all__ = ["NAME", "check"]

NAME: Final = "inconsistent-offsets"


def check(case: Case) -> Verdict:
    findings, examined = Findings(), 0
    for partition in case.partitions:
        examined += _check_acknowledged(partition, findings)
        examined += _check_read(partition, findings)
    return findings.verdict(NAME, anomaly="inconsistent-offsets", examined=examined)


def _check_acknowledged(partition: PartitionCase, findings: Findings) -> int:
    examined = 0
    there = partition.offset_of
    records = partition.final.records
    for sent in partition.sent:
        if not sent.is_promised:
            continue
        assert sent.offset is not None
        examined += 1
        is_elsewhere = records.get(sent.offset) != sent.value and sent.value in there
        # One that an operator gave up may be there by an earlier attempt, which was never acknowledged.
        if is_elsewhere and not partition.is_given_up(sent.offset, sent.begun_s):
            findings.add(
                f"{partition.partition}: {sent.value!r} was acknowledged at {sent.offset} and is at "
                f"{there[sent.value]}"
            )
    return examined


def _check_read(partition: PartitionCase, findings: Findings) -> int:
    """Also what retention or compaction has removed since: all readers have seen the same there."""
    examined = 0
    records = partition.final.records
    deleted: dict[Offset, bytes] = {}
    for poll in partition.polls:
        examined += len(poll.records)
        for offset, value in poll.records:
            now = records.get(offset)
            if now is None and (partition.is_deleted(offset) or partition.is_replaced(value, offset)):
                now = deleted.setdefault(offset, value)
            if now != value and not partition.is_given_up(offset, poll.assignment.begun_s):
                findings.add(
                    f"{partition.partition}: {poll.assignment.reader} read {value!r} at {offset}, where "
                    f"{now!r} is"
                )
    return examined
