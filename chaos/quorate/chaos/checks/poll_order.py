"""A reader is shown every record in order, once, from where it was told to begin (rule 17).

Four checks over one walk. Jepsen tells what goes wrong within one poll ("int") from what goes wrong between
two. There are no transactions, so that offsets have no gaps but where a topic is compacted, and whoever is
sent elsewhere by retention or by itself has a new assignment: any gap within one is a skip. What a compacted
topic may lack, ``last_word`` says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Final

from quorate.chaos.checks.case import Case, PartitionCase
from quorate.chaos.checks.verdict import Findings, Verdict
from quorate.chaos.history.entries import Poll
from quorate.core.ids import Offset

__all__ = ["CHECKS"]

#: (offset, the one that was due) -> whether it is wrong
_Judge = Callable[[Offset, Offset], bool]


def _is_skipped(offset: Offset, due: Offset) -> bool:
    return offset > due


def _is_backwards(offset: Offset, due: Offset) -> bool:
    return offset < due


def _looked_at(case: Case, is_wrong: _Judge) -> Iterator[PartitionCase]:
    return (each for each in case.partitions if is_wrong is not _is_skipped or each.final.keys is None)


def _int_poll_skip(case: Case) -> Verdict:
    return _within_polls("int-poll-skip", case, _is_skipped)


def _int_nonmonotonic_poll(case: Case) -> Verdict:
    return _within_polls("int-nonmonotonic-poll", case, _is_backwards)


def _poll_skip(case: Case) -> Verdict:
    return _between_polls("poll-skip", case, _is_skipped)


def _nonmonotonic_poll(case: Case) -> Verdict:
    return _between_polls("nonmonotonic-poll", case, _is_backwards)


CHECKS: Final = (_int_poll_skip, _int_nonmonotonic_poll, _poll_skip, _nonmonotonic_poll)


def _within_polls(name: str, case: Case, is_wrong: _Judge) -> Verdict:
    findings, examined = Findings(), 0
    for partition in _looked_at(case, is_wrong):
        for poll in partition.polls:
            examined += len(poll.records)
            first, last = poll.records[0].offset, poll.records[-1].offset
            offsets = [offset for offset, _ in poll.records]
            if offsets == list(range(first, last + 1)):
                continue
            for before, offset in pairwise(offsets):
                if is_wrong(offset, Offset(before + 1)):
                    findings.add(_words(poll, offset, before + 1))
    return findings.verdict(name, anomaly=name, examined=examined)


def _between_polls(name: str, case: Case, is_wrong: _Judge) -> Verdict:
    findings, examined = Findings(), 0
    for partition in _looked_at(case, is_wrong):
        positions: dict[int, Offset] = {}
        for poll in partition.polls:
            assignment = poll.assignment
            first = poll.records[0].offset
            due = positions.get(assignment.serial, assignment.starts.get(partition.partition))
            examined += 1
            if due is not None and is_wrong(first, due):
                findings.add(_words(poll, first, due))
            positions[assignment.serial] = Offset(poll.records[-1].offset + 1)
    return findings.verdict(name, anomaly=name, examined=examined)


def _words(poll: Poll, offset: int, due: int) -> str:
    return f"{poll.partition}: {poll.assignment.reader} read offset {offset}, {due} was due"
