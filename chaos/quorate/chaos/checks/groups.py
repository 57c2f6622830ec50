"""What the members of a group were given, read and committed.

A member that was suspended, or cut off, may hold a partition that is another's by now, and read it: no client
can know. What it commits of it is another matter, and so is a partition that two members were given in the
same epoch. That each of them was shown every record in order, from where it began, is what the checks of all
readers say: what a member was given is an assignment like any other.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby
from typing import Final, NamedTuple

from quorate.chaos.checks.case import Case, PartitionCase
from quorate.chaos.checks.verdict import Findings, Verdict
from quorate.chaos.history.entries import Assignment, Commit, Poll
from quorate.core.ids import Offset, TopicPartition

__all__ = ["CHECKS"]


class _Shared(NamedTuple):
    """One partition, as one group has read it."""

    partition: TopicPartition
    #: in the order in which the group gave it to them
    given: Sequence[Assignment]
    polls: Sequence[Poll]
    commits: Sequence[Commit]

    @property
    def acknowledged(self) -> list[Commit]:
        return [commit for commit in self.commits if commit.is_acknowledged]


def _zombie_commit(case: Case) -> Verdict:
    """No commit is acknowledged to a member whose partition had become another's before it asked."""
    findings, examined = Findings(), 0
    for shared in _shared(case):
        replaced_s = _replaced_s(shared.given)
        for commit in shared.acknowledged:
            examined += 1
            since_s, by = replaced_s[commit.assignment.serial]
            if since_s < commit.begun_s:
                findings.add(
                    f"{shared.partition}: {commit.assignment.reader} committed {commit.offset} at "
                    f"{commit.begun_s:.4f}, it was {by}'s since {since_s:.4f}"
                )
    return findings.verdict("zombie-commit", examined=examined)


def _replaced_s(given: Sequence[Assignment]) -> dict[int, tuple[float, str]]:
    """By serial number: when a member that was given the partition later knew of it first, and which."""
    found: dict[int, tuple[float, str]] = {}
    # Of those that come later in the group's order, who knew first; and who did besides that one.
    first: tuple[float, str] = (math.inf, "nobody")
    second = first
    for assignment in reversed(given):
        reader, told = assignment.reader, (assignment.begun_s, assignment.reader)
        found[assignment.serial] = second if first[1] == reader else first
        if first[1] == reader:
            first = min(first, told)
        elif told < first:
            first, second = told, first
        else:
            second = min(second, told)
    return found


def _commit_lost(case: Case) -> Verdict:
    """Whoever gets a partition begins no earlier than at the last commit that was acknowledged before."""
    findings, examined = Findings(), 0
    for shared in _shared(case):
        commits = _Commits(shared)
        firsts = {poll.assignment.serial: poll.records[0].offset for poll in reversed(shared.polls)}
        for assignment in shared.given:
            start = assignment.starts[shared.partition]
            first = firsts.get(assignment.serial) if start is None else start
            known = commits.furthest_before(assignment)
            if first is None or known is None:
                continue
            examined += 1
            if known.offset > first:
                findings.add(
                    f"{shared.partition}: {assignment.reader} began at {first}, {known.offset} was committed "
                    f"by {known.assignment.reader} before"
                )
    return findings.verdict("commit-lost", examined=examined)


class _Commits:
    """Those that were acknowledged, in the order of their acknowledgements."""

    def __init__(self, shared: _Shared) -> None:
        self._commits = sorted(shared.acknowledged, key=lambda each: each.ended_s or 0.0)
        self._ended_s = [commit.ended_s or 0.0 for commit in self._commits]
        self._furthest = list(accumulate(self._commits, _further))
        self._place = {each.serial: place for place, each in enumerate(shared.given)}

    def furthest_before(self, assignment: Assignment) -> Commit | None:
        """Of those whom the group gave the partition later there may be commits, too: they are no concern."""
        before = bisect_left(self._ended_s, assignment.begun_s)
        if before == 0:
            return None
        furthest = self._furthest[before - 1]
        if self._is_no_later(furthest, assignment):
            return furthest
        its_concern = [each for each in self._commits[:before] if self._is_no_later(each, assignment)]
        return max(its_concern, key=lambda each: each.offset, default=None)

    def _is_no_later(self, commit: Commit, assignment: Assignment) -> bool:
        return self._place[commit.assignment.serial] <= self._place[assignment.serial]


def _commit_invented(case: Case) -> Verdict:
    """Nobody is sent to an offset that no member has ever asked to be committed."""
    findings, examined = Findings(), 0
    for shared in _shared(case):
        asked_for = {commit.offset for commit in shared.commits}
        asked_for |= {
            start for each in shared.given[:1] if (start := each.starts[shared.partition]) is not None
        }
        for assignment in shared.given:
            start = assignment.starts[shared.partition]
            if start is None:
                continue
            examined += 1
            if start not in asked_for:
                findings.add(
                    f"{shared.partition}: {assignment.reader} was to begin at {start}, which nobody committed"
                )
    return findings.verdict("commit-invented", examined=examined)


def _further(one: Commit, other: Commit) -> Commit:
    return other if other.offset > one.offset else one


def _two_owners(case: Case) -> Verdict:
    """In one epoch of the group a partition is given to one member."""
    findings, examined = Findings(), 0
    for shared in _shared(case):
        owners: dict[int, str] = {}
        for assignment in shared.given:
            if assignment.member_epoch is None:
                continue
            examined += 1
            owner = owners.setdefault(assignment.member_epoch, assignment.reader)
            if owner != assignment.reader:
                findings.add(
                    f"{shared.partition}: {owner} and {assignment.reader} were given it in epoch "
                    f"{assignment.member_epoch}"
                )
    return findings.verdict("two-owners", examined=examined)


def _skipped(case: Case) -> Verdict:
    """Once a group has read to the end, every record was handed to a member: at least once."""
    findings, examined, repeated = Findings(), 0, 0
    for found in case.partitions:
        for shared in _shared_in(case, found):
            offsets = [offset for poll in shared.polls for offset, _ in poll.records]
            handed_out = set(offsets)
            repeated += len(offsets) - len(handed_out)
            if all(assignment.caught_up_s is None for assignment in shared.given):
                continue
            start = min(assignment.starts[shared.partition] or Offset(0) for assignment in shared.given)
            for offset in found.final.records:
                if offset < start:
                    continue
                examined += 1
                if offset not in handed_out:
                    findings.add(f"{shared.partition}: nobody was handed {offset}")
    return findings.verdict("group-skipped", examined=examined, figures={"handed out again": repeated})


CHECKS: Final = (_skipped, _commit_lost, _commit_invented, _zombie_commit, _two_owners)


def _shared(case: Case) -> Iterator[_Shared]:
    for found in case.partitions:
        yield from _shared_in(case, found)


def _shared_in(case: Case, found: PartitionCase) -> Iterator[_Shared]:
    given = [each for each in case.assignments_of(found.partition) if each.group is not None]
    given.sort(key=lambda each: (each.group, each.begun_s))
    for group, of_group in groupby(given, key=lambda each: each.group):
        yield _Shared(
            found.partition,
            _as_the_group_gave(list(of_group)),
            [poll for poll in found.polls if poll.assignment.group == group],
            [commit for commit in found.commits if commit.assignment.group == group],
        )


def _as_the_group_gave(in_time: list[Assignment]) -> list[Assignment]:
    """By epochs, where all are known: a member may learn of a partition when it is another's already."""
    if any(each.member_epoch is None for each in in_time):
        return in_time
    return sorted(in_time, key=lambda each: each.member_epoch or 0)
