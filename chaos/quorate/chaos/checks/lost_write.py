"""What was acknowledged with acks=all is in the log, unless retention or an operator has given it up.

Or unless compaction has removed it, because of something newer: whether that is there, ``last_word`` says.
"""

from __future__ import annotations

from typing import Final

from quorate.chaos.checks.case import Case, PartitionCase
from quorate.chaos.checks.verdict import Findings, Verdict
from quorate.chaos.history.entries import Sent

__all__ = ["NAME", "check"]

NAME: Final = "lost-write"


def check(case: Case) -> Verdict:
    findings, examined, given_up = Findings(), 0, 0
    for partition in case.partitions:
        there = partition.offset_of
        for sent in partition.sent:
            if not sent.is_promised:
                continue
            assert sent.offset is not None
            examined += 1
            if sent.value in there or partition.is_deleted(sent.offset):
                continue
            if partition.is_replaced(sent.value, sent.offset):
                continue
            if partition.is_given_up(sent.offset, sent.begun_s):
                given_up += 1
            else:
                findings.add(_words(partition, sent))
    figures = {"acknowledged_and_given_up": given_up} if given_up else {}
    return findings.verdict(NAME, anomaly="lost-write", examined=examined, figures=figures)


def _words(partition: PartitionCase, sent: Sent) -> str:
    assert sent.offset is not None
    found = partition.final.records.get(sent.offset)
    return (
        f"{partition.partition}: {sent.value!r} was acknowledged at {sent.offset} and is nowhere; "
        f"{found!r} is there"
    )
