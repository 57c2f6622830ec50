"""Which member of a group has which partition, and how far it has come, on top of a history.

Members tell when they are given a partition, when it is taken from them, what they are handed of it and what
they commit. Times are now, or what the member's own process says: all processes of a machine have the same
monotonic clock.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from quorate.chaos.history.entries import Assignment, Commit, ReadRecord
from quorate.chaos.history.history import History
from quorate.core.ids import Offset, TopicPartition

__all__ = ["GroupLedger"]


class GroupLedger:
    def __init__(self, history: History, group: str) -> None:
        self.history = history
        self.group = group
        self._held: defaultdict[str, dict[TopicPartition, Assignment]] = defaultdict(dict)
        #: by the serial number of an assignment: behind what was handed out of it
        self._next: dict[int, Offset] = {}
        self._handed_out: defaultdict[TopicPartition, set[Offset]] = defaultdict(set)

    # -- what a member has

    def given(
        self,
        member: str,
        partition: TopicPartition,
        *,
        start: Offset | None = None,
        member_epoch: int | None = None,
        at_s: float | None = None,
    ) -> None:
        """``start``: where it is to begin; None: it says so with its first record."""
        self._held[member][partition] = self.history.give(
            self.group, member, partition, start=start, member_epoch=member_epoch, at_s=at_s
        )

    def taken(self, member: str, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            del self._held[member][partition]

    def gone(self, member: str) -> None:
        """It has left, or its process is dead."""
        self._held.pop(member, None)

    def held_by(self, member: str) -> Sequence[TopicPartition]:
        return list(self._held[member])

    def owners(self) -> Mapping[TopicPartition, str]:
        """Who was given each partition last, of those who have it."""
        given = [
            (assignment.begun_s, partition, member)
            for member, held in self._held.items()
            for partition, assignment in held.items()
        ]
        return {partition: member for _, partition, member in sorted(given)}

    # -- records and commits

    def handed_out(
        self,
        member: str,
        partition: TopicPartition,
        records: Sequence[ReadRecord],
        *,
        at_s: float | None = None,
    ) -> None:
        assignment = self._held[member][partition]
        self._next[assignment.serial] = Offset(records[-1].offset + 1)
        self._handed_out[partition].update(record.offset for record in records)
        self.history.read(assignment, partition, records, at_s=at_s)

    def due(self, member: str) -> dict[TopicPartition, Offset]:
        """What it may commit: all that it was handed of what it has."""
        return {
            partition: self._next[assignment.serial]
            for partition, assignment in self._held[member].items()
            if assignment.serial in self._next
        }

    def committing(
        self, member: str, offsets: Mapping[TopicPartition, Offset], *, at_s: float | None = None
    ) -> list[Commit]:
        held = self._held[member]
        return [
            self.history.begin_commit(held[partition], partition, offset, at_s=at_s)
            for partition, offset in offsets.items()
        ]

    def committed(
        self, commits: Iterable[Commit], error: str | None = None, *, at_s: float | None = None
    ) -> None:
        for commit in commits:
            self.history.end_commit(commit, error, at_s=at_s)

    # -- the end

    def has_handed_out(self, records: Mapping[TopicPartition, Iterable[Offset]]) -> bool:
        """Each of them, to whomever."""
        return all(self._handed_out[partition].issuperset(offsets) for partition, offsets in records.items())

    def has_read_all(self) -> None:
        """Said when nobody writes any more."""
        for held in self._held.values():
            for assignment in held.values():
                self.history.caught_up(assignment)
