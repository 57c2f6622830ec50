"""Revisions of a group's offsets: what a change that is not a member's commit is based on.

Whoever asks how far a group has come is told a revision with the answer, and whoever changes offsets without
being a member gives it back. What has changed since is left as it is. So a copy of a commit, a reset or a
deletion that the network delivers late, or that its caller has given up, undoes nothing that was done after
it; values alone would not tell, for an offset that went forth and back is what it was.

A revision is a place in the log that groups are kept in: the leader epoch and the end that it had when the
answer was made. Each record has such a place as well, and has changed something since if it does not lie
before the revision. Places grow, also over elections, and are kept by compaction, so nothing has to be
written down for it. The epoch counts first: in a log that was cut by an unclean election, offsets are given a
second time.
"""

from __future__ import annotations

from typing import NamedTuple, Self

from quorate.errors import InvalidRequest

__all__ = ["BEFORE_ALL", "Revision"]


class Revision(NamedTuple):
    #: under whom a record was appended, or an answer made
    leader_epoch: int
    #: of the record; of an answer: where the log ended
    offset: int

    def __str__(self) -> str:
        return f"{self.leader_epoch}.{self.offset}"

    @classmethod
    def parse(cls, text: str, *, group: str) -> Self:
        """As a request names it."""
        if not text:
            raise InvalidRequest(
                f"who is not a member of group {group} and changes its offsets names the revision that the "
                "change is based on, which FetchOffsets and DescribeGroups tell: a request that arrives late "
                "must not undo a later one",
                group=group,
            )
        try:
            leader_epoch, offset = map(int, text.split("."))
        except ValueError:
            raise InvalidRequest(
                f"revision {text[:40]!r} is none: give back what FetchOffsets or DescribeGroups told",
                group=group,
            ) from None
        return cls(leader_epoch, offset)

    def is_after(self, place: Self) -> bool:
        """Whoever was told this revision has seen the record at that place."""
        return place < self


#: of what has never been written
BEFORE_ALL = Revision(-1, -1)
