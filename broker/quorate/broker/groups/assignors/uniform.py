"""The uniform assignor: equal numbers for all, and as little movement as that takes.

In this order:

1. *Complete*: every partition that somebody wants has one owner, who wants it.
2. *Balanced*: where all want the same, any two members differ by one at most. Where they want different
   things that may be impossible; then it is as equal as it can be: no handing on of partitions, directly
   or through others, would bring a member closer to one that has at least two less.
3. *Sticky*: a member keeps what it has, unless balance takes it away. Where all want the same, nothing
   moves that need not: as many partitions as somebody has too many, or as somebody lacks, whichever is more.
4. *Near*: of those that come into question equally, one in a rack with a replica. Nothing moves for that.

How: everybody keeps what it had and still wants; what nobody has goes to whoever has least; then partitions
are taken from those who have most. Topics with the same subscribers make up one *kind*, whose partitions
can stand in for one another. Where all want the same there is a single kind, and three passes with a heap
are all. With several kinds, taking directly from the one who has most may come to an end too early: with x
for A and B, y for B and C, A has three of x, B two of y, C one of y. Then the *chain* A, B, C hands on one
each. That no chain is left proves the balance (Harvey et al., Semi-matchings for bipartite graphs and load
balancing).

Rejected: computing everybody's quota first, as Kafka does where all want the same: with different wishes
there is no such number. And moving partitions to where they were nearer: each move stops somebody's
reading.

Everything goes by sorted ids, never by the order of a set: two coordinators must come to the same.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from quorate.broker.groups.assignors.problem import AssignableMember, AssignableTopic, Assignment
from quorate.broker.groups.records import TopicIdPartition
from quorate.core.ids import PartitionId, TopicId

__all__ = ["assign_uniform"]


def assign_uniform(
    members: Sequence[AssignableMember], topics: Mapping[TopicId, AssignableTopic]
) -> Assignment:
    plan = _Plan(sorted(members, key=lambda member: member.member_id), topics)
    plan.keep()
    for kind in plan.kinds:
        plan.deal_what_is_left(kind)
    plan.even_out()
    return plan.result()


class _Kind:
    """Topics with the same subscribers, who are numbers into the sorted list of members."""

    def __init__(self, subscribers: list[int]) -> None:
        self.subscribers = subscribers
        self.topic_ids: list[TopicId] = []
        #: what each one has of this kind; what it had before comes first
        self.held: dict[int, list[TopicIdPartition]] = {number: [] for number in subscribers}

    def holders(self) -> list[int]:
        return [number for number in self.subscribers if self.held[number]]


class _LeastLoaded:
    """Who of a kind's subscribers has least, and who of those in a rack.

    A member is noted again whenever its load changes; notes that are out of date are thrown away when they
    come up. A note is one number, of the load and then of the member, because those are quick to compare.
    """

    def __init__(self, subscribers: Sequence[int], loads: Sequence[int], racks: Sequence[str]) -> None:
        self._loads = loads
        self._racks = racks
        self._count = len(loads)
        self._all = [self._note_of(number) for number in subscribers]
        self._in_rack: dict[str, list[int]] = {}
        for number in subscribers:
            if racks[number]:
                self._in_rack.setdefault(racks[number], []).append(self._note_of(number))
        heapq.heapify(self._all)
        for notes in self._in_rack.values():
            heapq.heapify(notes)

    def note(self, number: int) -> None:
        note = self._note_of(number)
        heapq.heappush(self._all, note)
        if self._racks[number]:
            heapq.heappush(self._in_rack[self._racks[number]], note)

    def first(self, racks: Collection[str] = ()) -> int:
        """The one that has least; of several, one in these racks, else the first."""
        note = self._top(self._all)
        near = self._first_note_in(racks)
        if near is not None and near // self._count == note // self._count:
            note = near
        return note % self._count

    def first_in(self, racks: Collection[str]) -> int | None:
        """The one that has least of those in these racks; None: nobody is."""
        note = self._first_note_in(racks)
        return None if note is None else note % self._count

    def _first_note_in(self, racks: Collection[str]) -> int | None:
        # The smallest of them all: in which order the racks come does not matter.
        return min((self._top(self._in_rack[rack]) for rack in racks if rack in self._in_rack), default=None)

    def _top(self, notes: list[int]) -> int:
        while self._loads[notes[0] % self._count] != notes[0] // self._count:
            heapq.heappop(notes)
        return notes[0]

    def _note_of(self, number: int) -> int:
        return self._loads[number] * self._count + number


class _Plan:
    def __init__(
        self, members: Sequence[AssignableMember], topics: Mapping[TopicId, AssignableTopic]
    ) -> None:
        self._members = members
        self._topics = topics
        self._loads = [0] * len(members)
        self._racks = [member.rack for member in members]
        #: those with the fewest subscribers first: there is least to choose
        self.kinds = _kinds_of(members)
        self._kind_of = {topic_id: kind for kind in self.kinds for topic_id in kind.topic_ids}
        self._kinds_of_wish: dict[tuple[TopicId, ...], list[_Kind]] = {}
        self._taken = {topic_id: bytearray(topics[topic_id].partition_count) for topic_id in self._kind_of}
        self._knows_racks = any(self._racks) and any(topics[topic_id].racks for topic_id in self._kind_of)

    def keep(self) -> None:
        """What members had and still want."""
        wishes = {member.topic_ids: frozenset(member.topic_ids) for member in self._members}
        for number, member in enumerate(self._members):
            wanted = wishes[member.topic_ids]
            for partition in sorted(member.target):
                topic_id, index = partition
                if topic_id not in wanted:
                    continue
                taken = self._taken[topic_id]
                if index < len(taken) and not taken[index]:
                    taken[index] = True
                    # As ``_give`` does: this is where most of the time is spent.
                    self._kind_of[topic_id].held[number].append(partition)
                    self._loads[number] += 1

    def deal_what_is_left(self, kind: _Kind) -> None:
        left = [
            TopicIdPartition(topic_id, PartitionId(index))
            for topic_id in kind.topic_ids
            for index, is_taken in enumerate(self._taken[topic_id])
            if not is_taken
        ]
        if not left:
            return
        takers = _LeastLoaded(kind.subscribers, self._loads, self._racks)
        if self._knows_racks:
            left = list(self._deal_nearby(kind, takers, left))
        for partition in left:
            taker = takers.first(self._racks_of(partition))
            self._give(kind, taker, partition)
            takers.note(taker)

    def even_out(self) -> None:
        """Each move makes the sum of the squares of all loads smaller, so it ends."""
        is_even = False
        while not is_even:
            is_even = True
            for kind in self.kinds:
                if self._even_out_kind(kind):
                    is_even = False
        if len(self.kinds) > 1:
            while chain := self._chain():
                for kind, giver, taker in chain:
                    self._move(kind, giver, taker, kind.held[giver][-1])

    def result(self) -> Assignment:
        found: list[list[TopicIdPartition]] = [[] for _ in self._members]
        for kind in self.kinds:
            for number, partitions in kind.held.items():
                found[number] += partitions
        return {member.member_id: frozenset(found[number]) for number, member in enumerate(self._members)}

    def _deal_nearby(
        self, kind: _Kind, takers: _LeastLoaded, left: Iterable[TopicIdPartition]
    ) -> Iterator[TopicIdPartition]:
        """To members in the right rack, up to what everybody gets at least; yields what remains."""
        left = list(left)
        total = sum(self._loads[number] for number in kind.subscribers) + len(left)
        share = total // len(kind.subscribers)
        for partition in left:
            taker = takers.first_in(self._racks_of(partition))
            if taker is None or self._loads[taker] >= share:
                yield partition
                continue
            self._give(kind, taker, partition)
            takers.note(taker)

    def _even_out_kind(self, kind: _Kind) -> bool:
        """Take from whoever has most and give to whoever has least, while they differ by two; has it?"""
        givers = [(-self._loads[number], number) for number in kind.holders()]
        least = min(self._loads[number] for number in kind.subscribers)
        if not givers or -min(givers)[0] - least < 2:
            return False
        heapq.heapify(givers)
        takers = _LeastLoaded(kind.subscribers, self._loads, self._racks)
        is_sorted: set[int] = set()
        while givers and -givers[0][0] - self._loads[takers.first()] >= 2:
            _, giver = heapq.heappop(givers)
            if giver not in is_sorted:
                is_sorted.add(giver)
                self._put_dearest_first(kind, giver)
            partition = kind.held[giver][-1]
            taker = takers.first(self._racks_of(partition))
            self._move(kind, giver, taker, partition)
            takers.note(giver)
            takers.note(taker)
            # The taker stays below every giver that may still give, so it need not become one.
            if kind.held[giver]:
                heapq.heappush(givers, (-self._loads[giver], giver))
        return True

    def _put_dearest_first(self, kind: _Kind, number: int) -> None:
        """Given away from the end: first what the member never had, then what is far from it."""
        if not self._knows_racks:
            return
        member = self._members[number]
        kind.held[number].sort(
            key=lambda partition: (
                partition not in member.target,
                member.rack not in self._racks_of(partition),
            )
        )

    def _chain(self) -> list[tuple[_Kind, int, int]]:
        """Who hands on a partition of which kind to whom, from one that has two more than the last one.

        Goes backwards from those who have least, to everybody who could hand something on to them. What has
        been come to from one member need not be come to again from another that has more.
        """
        following: dict[int, tuple[_Kind, int] | None] = {}
        kinds_seen: set[_Kind] = set()
        for end in sorted(range(len(self._members)), key=lambda number: (self._loads[number], number)):
            if end in following:
                continue
            following[end] = None
            queue = [end]
            for taker in queue:
                for kind in self._kinds_wanted_by(taker):
                    if kind in kinds_seen:
                        continue
                    kinds_seen.add(kind)
                    for giver in kind.holders():
                        if giver in following:
                            continue
                        following[giver] = (kind, taker)
                        queue.append(giver)
                        if self._loads[giver] - self._loads[end] >= 2:
                            return _links(following, giver)
        return []

    def _kinds_wanted_by(self, number: int) -> list[_Kind]:
        topic_ids = self._members[number].topic_ids
        kinds = self._kinds_of_wish.get(topic_ids)
        if kinds is None:
            kinds = self._kinds_of_wish[topic_ids] = list(
                dict.fromkeys(self._kind_of[topic_id] for topic_id in topic_ids)
            )
        return kinds

    def _move(self, kind: _Kind, giver: int, taker: int, partition: TopicIdPartition) -> None:
        assert kind.held[giver][-1] == partition
        kind.held[giver].pop()
        self._loads[giver] -= 1
        self._give(kind, taker, partition)

    def _give(self, kind: _Kind, taker: int, partition: TopicIdPartition) -> None:
        kind.held[taker].append(partition)
        self._loads[taker] += 1

    def _racks_of(self, partition: TopicIdPartition) -> Collection[str]:
        if not self._knows_racks:
            return ()
        racks = self._topics[partition.topic_id].racks
        return racks[partition.partition] if racks else ()


def _links(following: Mapping[int, tuple[_Kind, int] | None], start: int) -> list[tuple[_Kind, int, int]]:
    links = []
    giver = start
    while (link := following[giver]) is not None:
        kind, taker = link
        links.append((kind, giver, taker))
        giver = taker
    return links


def _kinds_of(members: Sequence[AssignableMember]) -> list[_Kind]:
    """Members with equal wishes are looked at once: they are many as a rule, and the wishes few."""
    alike: dict[tuple[TopicId, ...], list[int]] = {}
    for number, member in enumerate(members):
        alike.setdefault(member.topic_ids, []).append(number)
    wanted_by: dict[TopicId, list[int]] = {}
    crowds = list(alike.items())
    for crowd, (topic_ids, _) in enumerate(crowds):
        for topic_id in topic_ids:
            wanted_by.setdefault(topic_id, []).append(crowd)
    kinds: dict[tuple[int, ...], _Kind] = {}
    for topic_id in sorted(wanted_by):
        crowd_numbers = tuple(wanted_by[topic_id])
        kind = kinds.get(crowd_numbers)
        if kind is None:
            subscribers = sorted(number for crowd in crowd_numbers for number in crowds[crowd][1])
            kind = kinds[crowd_numbers] = _Kind(subscribers)
        kind.topic_ids.append(topic_id)
    return sorted(kinds.values(), key=lambda kind: (len(kind.subscribers), kind.topic_ids))
