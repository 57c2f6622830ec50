"""What the members of one group were given, read and committed, and what must be true of it.

- *zombie-commit*: a member's commit is acknowledged although the partition had become another's before it
  asked (rule 62).
- *commit-lost*: whoever gets a partition begins no earlier than at the last commit that was acknowledged
  before (rule 63).
- *group-gap*: while a member holds a partition it is handed every record, in order, once (rule 66).
- *group-skipped*: in the end every record was handed to somebody: at least once.

A member that was suspended may hold a partition that is another's by now, and read it: no client can know.
What it commits of it is another matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from quorate.chaos.checks.violation import Violation
from quorate.core.ids import Offset, PartitionId, TopicName, TopicPartition
from quorate.core.records import ConsumerRecord

__all__ = ["Commit", "GroupHistory", "Holding"]


@dataclass(slots=True)
class Holding:
    """One member has one partition, from when it is told until it is told otherwise."""

    #: one process: the next one is another member
    member: str
    partition: TopicPartition
    begun_s: float
    offsets: list[Offset] = field(default_factory=list)

    @property
    def next_offset(self) -> Offset | None:
        """Behind what was handed out; None: nothing was."""
        return Offset(self.offsets[-1] + 1) if self.offsets else None


@dataclass(slots=True)
class Commit:
    holding: Holding
    offset: Offset
    begun_s: float
    #: None: not acknowledged
    ended_s: float | None = None


class GroupHistory:
    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self.holdings: list[Holding] = []
        self.commits: list[Commit] = []
        self._held: dict[tuple[str, TopicPartition], Holding] = {}

    # -- what has happened

    def given(self, member: str, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            holding = Holding(member, partition, self._now_s())
            self.holdings.append(holding)
            self._held[member, partition] = holding

    def taken(self, member: str, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            del self._held[member, partition]

    def handed_out(self, member: str, records: Iterable[ConsumerRecord]) -> None:
        for record in records:
            holding = self._held[
                member, TopicPartition(TopicName(record.topic), PartitionId(record.partition))
            ]
            offset = Offset(record.offset)
            due = holding.next_offset
            if due is not None and offset != due:
                raise Violation(
                    f"{holding.partition}: {member} got {offset}, {due} was due", check="group-gap"
                )
            holding.offsets.append(offset)

    def committing(self, member: str) -> list[Commit]:
        """All that it was handed of what it holds."""
        begun = [
            Commit(holding, holding.next_offset, self._now_s())
            for (name, _), holding in self._held.items()
            if name == member and holding.next_offset is not None
        ]
        self.commits += begun
        return begun

    def committed(self, commits: Iterable[Commit]) -> None:
        for commit in commits:
            commit.ended_s = self._now_s()

    # -- the verdict

    def is_all_handed_out(self, records: Mapping[TopicPartition, Iterable[Offset]]) -> bool:
        return all(not self._missing(partition, offsets) for partition, offsets in records.items())

    def check(self, records: Mapping[TopicPartition, Iterable[Offset]]) -> None:
        """``records``: what the logs hold in the end. ``Violation`` if a promise was broken."""
        for commit in self.commits:
            self._check_no_zombie(commit)
        for holding in self.holdings:
            self._check_begins_where_the_group_stood(holding)
        for partition, offsets in records.items():
            missing = self._missing(partition, offsets)
            if missing:
                raise Violation(f"{partition}: nobody was handed {missing[:10]}", check="group-skipped")

    def _missing(self, partition: TopicPartition, offsets: Iterable[Offset]) -> list[Offset]:
        handed_out = {
            offset
            for holding in self.holdings
            if holding.partition == partition
            for offset in holding.offsets
        }
        return sorted(set(offsets) - handed_out)

    def _check_no_zombie(self, commit: Commit) -> None:
        if commit.ended_s is None:
            return
        holding = commit.holding
        for other in self.holdings:
            is_later = holding.begun_s < other.begun_s < commit.begun_s
            if other.partition == holding.partition and other.member != holding.member and is_later:
                raise Violation(
                    f"{holding.partition}: {holding.member} committed {commit.offset} at "
                    f"{commit.begun_s:.4f}, it was {other.member}'s since {other.begun_s:.4f}",
                    check="zombie-commit",
                )

    def _check_begins_where_the_group_stood(self, holding: Holding) -> None:
        if not holding.offsets:
            return
        for commit in self.commits:
            is_before = commit.ended_s is not None and commit.ended_s < holding.begun_s
            is_of_it = commit.holding.partition == holding.partition
            if is_of_it and is_before and commit.offset > holding.offsets[0]:
                raise Violation(
                    f"{holding.partition}: {holding.member} began at {holding.offsets[0]}, {commit.offset} "
                    f"was committed by {commit.holding.member} before",
                    check="commit-lost",
                )
