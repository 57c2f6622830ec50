"""How a group gets from what its members hold to what they are to hold, with one owner at any time.

**The problem.** Members learn what they are to hold from answers, and the coordinator learns what they hold
from calls. Both get lost, come late, and overtake one another. Whoever gives a partition to B because A has
said, some time ago, that it does not have it, gives it to two.

**What a member is.** ``target``: what it is to hold in the end. ``assigned``: what it has been given,
always part of the target. ``revoking``: what it has been given, is to hold no longer, and may still read.
For a member it goes like this, in every decision, for everybody whom the decision concerns:

1. What is assigned and no longer in the target becomes revoking.
2. What is revoking is free once the member has said that it does not have it any more.
3. A member that has nothing revoking is given what is in its target and held by nobody: it gets a *new member
   epoch*, and each partition remembers it as the one in which it was given (rule 62).

So everybody is moved as far as it can be at once, and a call that waits is merely told. What Kafka calls
the states UNREVOKED, UNRELEASED and STABLE follows: something is revoking; something of the target is
missing; neither. A member that keeps what it has, keeps its epoch too, and learns nothing.

**Why one owner.** Of a member's calls the coordinator believes "I do not have P" only if it is in the
member's *current* epoch. That is safe because of two rules, one on each side:

- The coordinator adds partitions only together with a new epoch, which it draws from the group's count of
  changes: so within one epoch, what it answers only becomes less.
- A member takes partitions only from an answer with a *higher* epoch than its own, and takes the epoch and
  *all* of them at once: from then on it says that it holds them, whether it has begun to read or not. From
  an answer of its own epoch it only gives up; one of a lower epoch it ignores. So it does with the answer to
  a join once it has joined, and, when it has begun anew, with answers to calls of before.

So within one epoch what a member holds only becomes less too. A call that comes late says too much, never
too little: at worst a partition stays revoking until the next call. A call of an earlier epoch proves
nothing, for the answer that gives P may be on its way; it gets the same answer again. And while anything is
revoking the epoch does not change, so that the word the coordinator waits for is never too old when it
comes.

A static member that is away reads nothing. It keeps its partitions, so that its successor finds them; those
that it is to lose are free at once.

Rejected: Kafka's way of moving a member only when it calls itself. Each step would wait for a call, targets
and holdings would be written in different batches, and a partition that has become free would be given a
round trip later. And Kafka's growing of an assignment within one epoch, with which the argument above
fails: a call that was made before the partition came is taken for one made after it went.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from quorate.broker.groups.group import Group
from quorate.broker.groups.member import Member
from quorate.broker.groups.records import GroupRecord, TopicIdPartition, group_record, member_record
from quorate.v1.group_records_pb2 import GroupValue

__all__ = ["Draft"]


class Draft:
    """A group as a decision is about to leave it; the group itself stays as it is."""

    def __init__(self, group: Group) -> None:
        self._group = group
        #: None: removed
        self._changed: dict[str, Member | None] = {}
        #: held by nobody once the decision is made, unless it gives them away itself
        self._freed: set[TopicIdPartition] = set()
        #: for whom there may be something to get
        self._hopeful: set[str] = set()
        self._group_epoch = group.group_epoch
        self._assignment_epoch = group.assignment_epoch
        self._departure_epoch = group.departure_epoch

    @property
    def members(self) -> dict[str, Member]:
        """By their ids, sorted."""
        ids = sorted({*self._group.members, *self._changed})
        return {member_id: member for member_id in ids if (member := self.member(member_id)) is not None}

    def member(self, member_id: str) -> Member | None:
        if member_id in self._changed:
            return self._changed[member_id]
        return self._group.members.get(member_id)

    def has_changed(self, member_id: str) -> bool:
        return self.member(member_id) != self._group.members.get(member_id)

    def next_epoch(self) -> int:
        """The group's next epoch, the same for everything in this decision."""
        self._group_epoch = self._group.group_epoch + 1
        return self._group_epoch

    def put(self, member: Member) -> None:
        """A new one, or one that differs in something else than in what it holds."""
        self._changed[member.member_id] = member

    def remove(self, member_id: str) -> None:
        """All that it held is free."""
        member = self._known(member_id)
        self._freed.update(member.assigned, member.revoking)
        self._changed[member_id] = None
        self._departure_epoch = self.next_epoch()

    def succeed(self, former: Member, successor: Member) -> None:
        """The successor has what the former one had: nothing moves, and nothing is free in between."""
        assert former.is_away
        assert former.assigned == successor.assigned
        self._changed[former.member_id] = None
        self._changed[successor.member_id] = successor
        # The former one may have been about to get what this decision has freed.
        self._hopeful.add(successor.member_id)
        self._departure_epoch = self.next_epoch()

    def step_away(self, member_id: str) -> Member:
        """It reads nothing any more: what it was to give up, it has."""
        member = self._known(member_id)
        self._freed.update(member.revoking)
        self._hopeful.add(member_id)
        away = self._changed[member_id] = replace(member, is_away=True, revoking={})
        return away

    def release(self, member_id: str, owned: Collection[TopicIdPartition]) -> None:
        """It has said, in its current epoch, that it holds ``owned`` and nothing else."""
        member = self._known(member_id)
        given_up = [partition for partition in member.revoking if partition not in owned]
        if not given_up:
            return
        self._freed.update(given_up)
        self._hopeful.add(member_id)
        still = {each: since for each, since in member.revoking.items() if each in owned}
        self._changed[member_id] = replace(member, revoking=still)

    def retarget(self, targets: Mapping[str, frozenset[TopicIdPartition]]) -> None:
        """One target for each member. What somebody holds and is to hold no longer, it is told to give up."""
        self._assignment_epoch = self.next_epoch()
        for member_id, member in self.members.items():
            target = targets[member_id]
            if target != member.target:
                self._changed[member_id] = self._towards(member, target)
            if not member.assigned.keys() >= target:
                self._hopeful.add(member_id)

    def assign_free(self) -> None:
        """Give what is free to whom it is meant for. The last step of every decision."""
        for partition in self._freed:
            owner = self._group.target_owner_of(partition)
            # Where targets are new, whoever misses something is among the hopeful already.
            if owner is not None:
                self._hopeful.add(owner)
        for member_id in sorted(self._hopeful):
            member = self.member(member_id)
            if member is None or member.revoking:
                continue
            gained = [each for each in member.target if each not in member.assigned and self._is_free(each)]
            if gained:
                self._changed[member_id] = self._given(member, gained)

    def records(self, *, now_ms: int) -> list[GroupRecord]:
        """What makes it so, sorted; to be written as one batch."""
        records = []
        # Whoever comes or goes raises the epoch.
        if self._group_epoch != self._group.group_epoch:
            value = GroupValue(
                group_epoch=self._group_epoch,
                assignment_epoch=self._assignment_epoch,
                departure_epoch=self._departure_epoch,
                empty_since_ms=0 if self.members else now_ms,
            )
            records.append(group_record(self._group.name, value))
        for member_id in sorted(self._changed):
            if self.has_changed(member_id):
                member = self._changed[member_id]
                value_of_member = None if member is None else member.to_value()
                records.append(member_record(self._group.name, member_id, value_of_member))
        return records

    def _towards(self, member: Member, target: frozenset[TopicIdPartition]) -> Member:
        kept = {each: since for each, since in member.assigned.items() if each in target}
        lost = {each: since for each, since in member.assigned.items() if each not in target}
        if member.is_away:
            self._freed.update(lost)
            lost = {}
        return replace(member, target=target, assigned=kept, revoking={**member.revoking, **lost})

    def _given(self, member: Member, gained: Iterable[TopicIdPartition]) -> Member:
        epoch = self.next_epoch()
        return replace(
            member,
            member_epoch=epoch,
            assigned={**member.assigned, **dict.fromkeys(gained, epoch)},
        )

    def _is_free(self, partition: TopicIdPartition) -> bool:
        """Targets have nothing in common: no two are given the same in one decision."""
        return partition in self._freed or self._group.holder_of(partition) is None

    def _known(self, member_id: str) -> Member:
        member = self.member(member_id)
        assert member is not None
        return member
