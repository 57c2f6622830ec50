"""A consumer as the coordinator may expect it to be: what it holds, and which answers it follows."""

from __future__ import annotations

import random
from collections.abc import Iterable

from quorate.broker.groups.records import TopicIdPartition, partitions_of, topic_partitions
from quorate.core.member_epochs import AWAY_EPOCH, JOIN_EPOCH, LEAVE_EPOCH
from quorate.v1.group_pb2 import GroupHeartbeatRequest, GroupHeartbeatResponse, GroupSubscription

__all__ = ["ModelMember"]


class ModelMember:
    """Keeps to the member's part of the bargain in ``quorate.broker.groups.reconciliation``, and no more."""

    #: when it begins anew
    may_keep_its_name = True

    def __init__(
        self, group: str, member_id: str, subscription: GroupSubscription, *, is_ordered: bool = False
    ) -> None:
        """``is_ordered``: it numbers its calls, and its joins say what they are based on."""
        self._group = group
        self.member_id = member_id
        self.subscription = subscription
        self.is_ordered = is_ordered
        #: of the group, as far as it knows
        self.departure_epoch = 0
        self.epoch = JOIN_EPOCH
        #: what it reads, or still has work of
        self.owned: set[TopicIdPartition] = set()
        #: part of it: what it has been told to give up
        self.leaving: set[TopicIdPartition] = set()
        #: counts its lives: calls of an earlier one mean nothing to it
        self.life = 0
        #: numbers of calls: the last that it made, and the last that was answered
        self.calls = 0
        self.answered = 0
        #: the group itself is gone, and with it all that was known of this life
        self.is_forgotten = False
        #: has to say it: there is none, or it has changed
        self.has_wish = True

    @property
    def is_static(self) -> bool:
        return bool(self.subscription.instance_id)

    def wish(self, topics: Iterable[str], pattern: str) -> None:
        changed = GroupSubscription()
        changed.CopyFrom(self.subscription)
        del changed.topics[:]
        changed.topics.extend(topics)
        changed.pattern = pattern
        self.subscription = changed
        self.has_wish = True

    def call(self, rng: random.Random) -> GroupHeartbeatRequest:
        self.calls += 1
        owned = sorted(self.owned)
        rng.shuffle(owned)
        return GroupHeartbeatRequest(
            group=self._group,
            member_id=self.member_id,
            member_epoch=self.epoch,
            owned=topic_partitions(owned),
            subscription=self.subscription if self.has_wish or self.epoch == JOIN_EPOCH else None,
            call_number=self.calls if self.is_ordered else 0,
            departure_epoch=self.departure_epoch if self.is_ordered and self.epoch == JOIN_EPOCH else None,
        )

    def farewell(self, *, is_away: bool) -> GroupHeartbeatRequest:
        """It has given up everything when it says so."""
        self.calls += 1
        return GroupHeartbeatRequest(
            group=self._group,
            member_id=self.member_id,
            member_epoch=AWAY_EPOCH if is_away else LEAVE_EPOCH,
            call_number=self.calls if self.is_ordered else 0,
        )

    def hear_of_departure(self, departure_epoch: int) -> None:
        """Its join named another one."""
        self.departure_epoch = departure_epoch

    def hear(self, request: GroupHeartbeatRequest, response: GroupHeartbeatResponse) -> None:
        assignment = partitions_of(response.assignment)
        is_late_welcome = request.member_epoch == JOIN_EPOCH != self.epoch
        if is_late_welcome or response.member_epoch < self.epoch:
            return
        if response.member_epoch > self.epoch:
            self.epoch = response.member_epoch
            assert assignment.isdisjoint(self.leaving), "told to give it up, and given it, before it did"
            self.owned |= assignment
        self.leaving |= self.owned - assignment

    def give_up(self, partitions: Iterable[TopicIdPartition]) -> None:
        self.owned.difference_update(partitions)
        self.leaving.difference_update(partitions)

    def begin_anew(self, member_id: str) -> None:
        """It was told that the group goes on without it."""
        self.member_id = member_id
        self.epoch = JOIN_EPOCH
        self.owned.clear()
        self.leaving.clear()
        self.life += 1
        self.is_forgotten = False
        self.has_wish = True
