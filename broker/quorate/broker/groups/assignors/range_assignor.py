"""The range assignor: what belongs together is read together.

Topics that have equally many partitions and the same subscribers are *co-partitioned*: records of one key
have the same partition number in each, so whoever joins them needs that number of each. Here a *row*, the
partitions of one number in all of these topics, is given as a whole.

1. *Together*: a row has one owner.
2. *Balanced*, topic by topic: the rows that two members have differ by one at most.
3. *Sticky*: rows stay where they are, unless balance takes them away. A row that is torn, as after another
   assignor, goes to whoever has most of it.
4. *Near*: of the rows that are free, those first that have a replica of every partition in the member's rack.
   Nothing moves for that.
5. The other free ones are dealt in ranges: neighbours go to the same member.

Across topics it is less even than ``uniform``, which is its price. Of the odd rows that are over, the first
go to those who have least so far.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from quorate.broker.groups.assignors.problem import AssignableMember, AssignableTopic, Assignment
from quorate.broker.groups.records import TopicIdPartition
from quorate.core.ids import PartitionId, TopicId

__all__ = ["assign_range"]


def assign_range(
    members: Sequence[AssignableMember], topics: Mapping[TopicId, AssignableTopic]
) -> Assignment:
    ordered = sorted(members, key=lambda member: member.member_id)
    owners = {
        partition: number for number, member in enumerate(ordered) for partition in sorted(member.target)
    }
    loads = [0] * len(ordered)
    found: list[list[TopicIdPartition]] = [[] for _ in ordered]
    for (subscribers, row_count), topic_ids in _tables(ordered, topics):
        among = frozenset(subscribers)
        before = [_owner_of_row(topic_ids, row, owners, among) for row in range(row_count)]
        deal = _Deal(subscribers, before, loads)
        deal.give_near(
            {number: ordered[number].rack for number in subscribers},
            [_racks_of_row([topics[each] for each in topic_ids], row) for row in range(row_count)],
        )
        deal.give_ranges()
        for owner, rows in deal.rows.items():
            loads[owner] += len(rows) * len(topic_ids)
            found[owner] += [
                TopicIdPartition(topic_id, PartitionId(row)) for topic_id in topic_ids for row in rows
            ]
    return {member.member_id: frozenset(found[number]) for number, member in enumerate(ordered)}


def _tables(
    members: Sequence[AssignableMember], topics: Mapping[TopicId, AssignableTopic]
) -> list[tuple[tuple[tuple[int, ...], int], list[TopicId]]]:
    """Co-partitioned topics, with their subscribers and the number of rows."""
    subscribers: dict[TopicId, list[int]] = {}
    for number, member in enumerate(members):
        for topic_id in member.topic_ids:
            subscribers.setdefault(topic_id, []).append(number)
    tables: dict[tuple[tuple[int, ...], int], list[TopicId]] = {}
    for topic_id in sorted(subscribers):
        table = (tuple(subscribers[topic_id]), topics[topic_id].partition_count)
        tables.setdefault(table, []).append(topic_id)
    return list(tables.items())


def _owner_of_row(
    topic_ids: Sequence[TopicId],
    row: int,
    owners: Mapping[TopicIdPartition, int],
    subscribers: frozenset[int],
) -> int | None:
    """Who had most of it; None: nobody who still wants it."""
    partitions = (TopicIdPartition(topic_id, PartitionId(row)) for topic_id in topic_ids)
    votes = Counter(owner for each in partitions if (owner := owners.get(each)) in subscribers)
    return min(votes, key=lambda owner: (-votes[owner], owner), default=None)


def _racks_of_row(topics: Sequence[AssignableTopic], row: int) -> frozenset[str]:
    """Where there is a replica of each of its partitions."""
    if not all(topic.racks for topic in topics):
        return frozenset()
    return frozenset.intersection(*(topic.racks[row] for topic in topics))


class _Deal:
    """Which rows of a table each subscriber gets. At first everybody keeps what balance leaves it."""

    def __init__(
        self, subscribers: Sequence[int], before: Sequence[int | None], loads: Sequence[int]
    ) -> None:
        """``before``: the owner of each row."""
        self.rows: dict[int, list[int]] = {number: [] for number in subscribers}
        for row, owner in enumerate(before):
            if owner is not None:
                self.rows[owner].append(row)
        share, odd = divmod(len(before), len(subscribers))
        # One more for those who have that many already, so that nothing moves; then for those who have least.
        by_right = sorted(
            subscribers, key=lambda number: (len(self.rows[number]) <= share, loads[number], number)
        )
        self._quotas = {number: share + (place < odd) for place, number in enumerate(by_right)}
        for number, rows in self.rows.items():
            del rows[self._quotas[number] :]
        kept = {row for rows in self.rows.values() for row in rows}
        self._free = [row for row in range(len(before)) if row not in kept]

    def give_near(self, racks: Mapping[int, str], racks_of_rows: Sequence[frozenset[str]]) -> None:
        """Free rows to those in whose rack they are; first those that are in few others."""
        for number, rack in racks.items():
            near = [row for row in self._free if rack in racks_of_rows[row]]
            near.sort(key=lambda row: len(racks_of_rows[row]))
            self._give(number, near)

    def give_ranges(self) -> None:
        """All that is free."""
        for number in self.rows:
            self._give(number, self._free)
        assert not self._free

    def _give(self, number: int, rows: Sequence[int]) -> None:
        """As many of these as it may still have."""
        given = rows[: self._quotas[number] - len(self.rows[number])]
        self.rows[number] += given
        taken = frozenset(given)
        self._free = [row for row in self._free if row not in taken]
