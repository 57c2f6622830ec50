"""The range assignor: what belongs together is read together.

Topics that have equally many partitions and the same subscribers are *co-partitioned*: records of one key
have the same partition number in each, so whoever joins them needs that number of each. Here a *row*, the
partitions of one number in all of these topics, is given as a whole.

1. *Together*: a row has one owner.
2. *Balanced*, topic by topic: the rows that two members have differ by one at most.
3. *Sticky*: rows stay where they are, unless balance takes them away. A row that is torn, as after another
   assignor, goes to whoever has most of it.
4. Rows that are free are dealt in ranges: neighbours go to the same member.

Across topics it is less even than ``uniform``, which is its price. Of the odd rows that are over, the first
go to those who have least so far. Racks are not looked at: for each partition of a row another one would be
near.
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
        for owner, rows in _deal(subscribers, before, loads).items():
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


def _deal(
    subscribers: Sequence[int], before: Sequence[int | None], loads: Sequence[int]
) -> dict[int, list[int]]:
    """Which rows each subscriber gets."""
    rows: dict[int, list[int]] = {number: [] for number in subscribers}
    for row, owner in enumerate(before):
        if owner is not None:
            rows[owner].append(row)
    share, odd = divmod(len(before), len(subscribers))
    # One more for those who have that many already, so that nothing moves; then for those who have least.
    by_right = sorted(subscribers, key=lambda number: (len(rows[number]) <= share, loads[number], number))
    quotas = {number: share + (place < odd) for place, number in enumerate(by_right)}
    for number in subscribers:
        del rows[number][quotas[number] :]
    kept = {row for numbers in rows.values() for row in numbers}
    free = [row for row in range(len(before)) if row not in kept]
    start = 0
    for number in subscribers:
        end = start + quotas[number] - len(rows[number])
        rows[number] += free[start:end]
        start = end
    assert start == len(free)
    return rows
