"""A member of a group, as it sees itself: what it holds, and what it has to say.

Problem: the coordinator says which partitions the member is to hold. The member follows, but not at once: an
application that was handed records of a partition is still at work on them, and must come back before the
partition may go to somebody else. Meanwhile answers get lost, coordinators fail over, and the plan changes
again.

So the member keeps, for each partition that it holds, how far it is with it, and every heartbeat says all of
it:

    NEW        given; where to begin is being found out
    READY      it is known where; the application has not been told of it
    ACTIVE     the application reads it
    REVOKING   to be given up, once the application has come back

Invariants:

- Whatever is held is in every heartbeat's ``owned``, and what is not in it is not read by this member: a
  partition that the application was told of stays there until it has come back and the partition was given
  up.
- **Within one epoch, what is held only becomes less.** The coordinator gives partitions with a new epoch and
  in no other way, and in the current one it believes "I do not have it" (`reconciliation`, on its side). So
  a member that took a partition from an answer of its own epoch, one that was overtaken, would read what has
  been given to somebody else on its word. It takes from answers of a *higher* epoch, all that is in them at
  once; from one of its own it only gives up; one of a lower says nothing. Nor does the answer to a join,
  once it has joined: an old call that is delivered after the group has removed the member makes it a member
  again, which has never held what this one holds.
- So what has to be given up stays so until it was: it comes back only as something new, after the
  coordinator has heard of it.
- A partition that is in the assignment before and after an answer is not touched by it.
- Epochs belong to an incarnation (``generation``, with a name of its own). Whoever was removed begins as a
  new one, and what is still on its way to or from the old one means nothing.
- Every call has a higher number than the one before, and a join names the last departure from the group that
  is known of: so a copy that arrives late is seen to be one (`GroupHeartbeatRequest`).
- ``say`` grows whenever the coordinator should hear something at once.

Plain state without I/O; it belongs to the event loop.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from quorate.client.groups.partitions import GroupPartition, partitions_from, partitions_to
from quorate.core.member_epochs import AWAY_EPOCH, JOIN_EPOCH, LEAVE_EPOCH
from quorate.v1 import group_pb2

__all__ = ["Changes", "Hold", "Identity", "Member", "Tenure"]


class Hold(enum.Enum):
    NEW = "new"
    READY = "ready"
    ACTIVE = "active"
    REVOKING = "revoking"


class Identity(NamedTuple):
    """In whose name something is said."""

    member_id: str
    epoch: int
    generation: int


class Tenure(NamedTuple):
    """One time that a partition is held, from when it was given: another one each time."""

    #: a group that was forgotten and made anew counts its epochs from the beginning
    generation: int
    #: the member epoch that it came with, which no other time in this generation has
    since_epoch: int


@dataclass(slots=True)
class _Holding:
    state: Hold
    #: the member epoch that it came with
    since_epoch: int


class Changes(NamedTuple):
    """What an answer means for the partitions."""

    #: to find out where to begin in
    given: list[GroupPartition]
    #: to stop reading now, and to give up when the application comes back
    revoking: list[GroupPartition]
    #: given and taken away before the application heard of it
    withdrawn: list[GroupPartition]
    #: something has changed, or has to be asked after at once
    is_news: bool


class Member:
    def __init__(
        self, group: str, subscription: group_pb2.GroupSubscription, make_id: Callable[[], str]
    ) -> None:
        self._group = group
        self._subscription = subscription
        self._make_id = make_id
        #: it has joined, or is about to
        self.is_wanted = False
        self.member_id = make_id()
        self.epoch = JOIN_EPOCH
        self.generation = 0
        self.say = 0
        #: the number of the last call
        self.calls = 0
        #: of the group, as far as is known: what a join names
        self.departure_epoch = 0
        self._held: dict[GroupPartition, _Holding] = {}
        #: how often the subscription has changed, and which of them the coordinator knows; -1: none
        self.subscription_version = 0
        self._known_version = -1

    # -- what it holds

    @property
    def is_joined(self) -> bool:
        return self.is_wanted and self.epoch > JOIN_EPOCH

    @property
    def identity(self) -> Identity | None:
        """None: it is not in the group."""
        return Identity(self.member_id, self.epoch, self.generation) if self.is_joined else None

    def is_current(self, identity: Identity) -> bool:
        return identity.generation == self.generation

    def tenure_of(self, partition: GroupPartition, *states: Hold) -> Tenure | None:
        """Another one after it was lost or given up, and given again. None: it is not held, or not so."""
        holding = self._held.get(partition)
        if holding is None or (states and holding.state not in states):
            return None
        return Tenure(self.generation, holding.since_epoch)

    def held(self, *states: Hold) -> list[GroupPartition]:
        """In the order in which they were given; no state: in any."""
        return [each for each, holding in self._held.items() if not states or holding.state in states]

    def began(self, partitions: Iterable[GroupPartition]) -> None:
        """It is known where to begin."""
        self._move(partitions, Hold.NEW, Hold.READY)

    def shown(self, partitions: Iterable[GroupPartition]) -> None:
        """The application has been told of them."""
        self._move(partitions, Hold.READY, Hold.ACTIVE)

    def given_up(self, partitions: Iterable[GroupPartition]) -> None:
        """Nothing of them is read any more, and the application knows, if it was ever told of them."""
        for each in partitions:
            del self._held[each]
        self.say += 1

    def _move(self, partitions: Iterable[GroupPartition], before: Hold, after: Hold) -> None:
        for each in partitions:
            holding = self._held[each]
            assert holding.state is before
            holding.state = after

    # -- coming and going

    def join(self) -> None:
        assert not self.is_wanted
        self.is_wanted = True
        self.say += 1

    def subscribe(self, subscription: group_pb2.GroupSubscription) -> None:
        if subscription != self._subscription:
            self._subscription = subscription
            self.subscription_version += 1
            self.say += 1

    def _begin_anew(self) -> list[GroupPartition]:
        """As somebody else: under its old name a call that is still on its way could make it leave."""
        lost = self.held(Hold.ACTIVE, Hold.REVOKING)
        self._held.clear()
        self.member_id = self._make_id()
        self.epoch = JOIN_EPOCH
        self.generation += 1
        self._known_version = -1
        self.say += 1
        return lost

    def leave(
        self, *, is_away: bool = False
    ) -> tuple[group_pb2.GroupHeartbeatRequest | None, list[GroupPartition]]:
        """By itself, or because the group has removed it.

        What to say, if the coordinator may know it, and the partitions that the application was told of.
        """
        farewell = None
        if self.is_wanted:
            self.calls += 1
            farewell = group_pb2.GroupHeartbeatRequest(
                group=self._group,
                member_id=self.member_id,
                member_epoch=AWAY_EPOCH if is_away else LEAVE_EPOCH,
                call_number=self.calls,
            )
        self.is_wanted = False
        return farewell, self._begin_anew()

    # -- what is said, and heard

    def request(self, *, max_wait_ms: int) -> group_pb2.GroupHeartbeatRequest:
        self.calls += 1
        return group_pb2.GroupHeartbeatRequest(
            group=self._group,
            member_id=self.member_id,
            member_epoch=self.epoch,
            owned=partitions_to(self._held),
            max_wait_ms=max_wait_ms,
            subscription=None if self._known_version == self.subscription_version else self._subscription,
            call_number=self.calls,
            departure_epoch=self.departure_epoch if self.epoch == JOIN_EPOCH else None,
        )

    def answered(
        self, response: group_pb2.GroupHeartbeatResponse, *, asked_in: int, subscription_version: int
    ) -> Changes:
        """``asked_in``, ``subscription_version``: the epoch and the subscription of the request."""
        self._known_version = max(self._known_version, subscription_version)
        if self._is_late_welcome(asked_in):
            return Changes([], [], [], is_news=True)
        if response.member_epoch < self.epoch:
            return Changes([], [], [], is_news=False)  # overtaken by a later answer
        assignment = partitions_from(response.assignment, {each.topic_id: each.topic for each in self._held})
        is_higher = self._is_higher(response.member_epoch)
        self.epoch = response.member_epoch
        revoking, withdrawn = self._take_away(set(assignment))
        given = self._take(assignment) if is_higher else []
        return Changes(given, revoking, withdrawn, is_news=is_higher or bool(revoking or withdrawn))

    def _is_late_welcome(self, asked_in: int) -> bool:
        return asked_in == JOIN_EPOCH != self.epoch

    def _is_higher(self, epoch: int) -> bool:
        return epoch > self.epoch

    def _take_away(
        self, assignment: Collection[GroupPartition]
    ) -> tuple[list[GroupPartition], list[GroupPartition]]:
        """What is to be given up from now on, and what was at once: the application never heard of it."""
        lost = [each for each in self._held if each not in assignment]
        revoking = [each for each in lost if self._held[each].state is Hold.ACTIVE]
        withdrawn = [each for each in lost if self._held[each].state in (Hold.NEW, Hold.READY)]
        self._move(revoking, Hold.ACTIVE, Hold.REVOKING)
        if withdrawn:
            self.given_up(withdrawn)
        return revoking, withdrawn

    def _take(self, assignment: Iterable[GroupPartition]) -> list[GroupPartition]:
        given = [each for each in assignment if each not in self._held]
        for each in given:
            self._held[each] = _Holding(Hold.NEW, self.epoch)
        return given
