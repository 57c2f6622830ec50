"""How long records waited for a group: the price of members that come and go.

A record that is acknowledged while a member holds its partition, and keeps it, has nothing to wait for but
that member. One that comes while the partition is on its way from one member to the next waits for that, too.
"""

from __future__ import annotations

from typing import NamedTuple

from quorate.chaos.history.entries import Assignment, Poll
from quorate.chaos.history.history import History
from quorate.core.ids import TopicPartition

__all__ = ["GroupDelays", "group_delays"]


class GroupDelays(NamedTuple):
    """Seconds, the longest."""

    #: of records that became due while their partition was with the member that was handed them
    stayed_s: float = 0.0
    #: which of them, for reports
    stayed: str = "none"
    #: from the last that one member was handed of a partition to the first that the next one was
    moved_s: float = 0.0
    moved: str = "none"


def group_delays(history: History, group: str, *, since_s: float) -> GroupDelays:
    """Of what was handed out since then."""
    acknowledged_s = {sent.value: sent.ended_s for sent in history.sent if sent.is_acknowledged}
    last: dict[TopicPartition, Poll] = {}
    found = GroupDelays()
    polls = [poll for poll in history.polls if poll.assignment.group == group]
    for poll in sorted(polls, key=lambda each: each.at_s):
        assignment, before = poll.assignment, last.get(poll.partition)
        last[poll.partition] = poll
        if poll.at_s < since_s:
            continue
        for _, value in poll.records:
            due_s = acknowledged_s.get(value)
            # What was there before it was given waited for another.
            if due_s is not None and due_s > assignment.begun_s and poll.at_s - due_s > found.stayed_s:
                found = found._replace(
                    stayed_s=poll.at_s - due_s, stayed=_words(poll.partition, assignment, poll.at_s)
                )
        if before is not None and before.assignment is not assignment:
            moved_s = poll.at_s - before.at_s
            if moved_s > found.moved_s:
                found = found._replace(moved_s=moved_s, moved=_words(poll.partition, assignment, poll.at_s))
    return found


def _words(partition: TopicPartition, assignment: Assignment, at_s: float) -> str:
    return f"{partition}, {assignment.reader} at {at_s:.3f}"
