"""The client's own `Member` in the model, so that the rules of one owner are those that consumers follow.

`ModelMember` says what a coordinator may rely on. This shows that a consumer is one of those.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

from quorate.broker.groups.records import TopicIdPartition
from quorate.chaos.models.groups.model_member import ModelMember
from quorate.client.consumer.group.member import Hold, Member
from quorate.client.groups.partitions import GroupPartition
from quorate.v1.group_pb2 import GroupHeartbeatRequest, GroupHeartbeatResponse, GroupSubscription

__all__ = ["ClientMember"]


class ClientMember(ModelMember):
    """Its application is told of partitions, or not yet, when it calls: by chance."""

    #: it begins anew as somebody else
    may_keep_its_name = False

    def __init__(
        self, group: str, member_id: str, subscription: GroupSubscription, *, is_ordered: bool = False
    ) -> None:
        super().__init__(group, member_id, subscription, is_ordered=is_ordered)
        self._member = Member(group, subscription, lambda: self.member_id)
        self._member.join()

    def wish(self, topics: Iterable[str], pattern: str) -> None:
        super().wish(topics, pattern)
        self._member.subscribe(self.subscription)

    def call(self, rng: random.Random) -> GroupHeartbeatRequest:
        self.calls += 1
        self._member.began([each for each in self._member.held(Hold.NEW) if rng.random() < 0.5])
        self._member.shown([each for each in self._member.held(Hold.READY) if rng.random() < 0.5])
        return self._without_order(self._member.request(max_wait_ms=0))

    def farewell(self, *, is_away: bool) -> GroupHeartbeatRequest:
        farewell, _ = self._member.leave(is_away=is_away)
        assert farewell is not None
        return self._without_order(farewell)

    def hear_of_departure(self, departure_epoch: int) -> None:
        self._member.departure_epoch = departure_epoch

    def hear(self, request: GroupHeartbeatRequest, response: GroupHeartbeatResponse) -> None:
        is_told = request.HasField("subscription") and request.subscription == self.subscription
        version = self._member.subscription_version if is_told else -1
        self._member.answered(response, asked_in=request.member_epoch, subscription_version=version)
        self._look()

    def give_up(self, partitions: Iterable[TopicIdPartition]) -> None:
        wanted = set(partitions)
        self._member.given_up(
            [each for each in self._member.held(Hold.REVOKING) if _without_name(each) in wanted]
        )
        self._look()

    def begin_anew(self, member_id: str) -> None:
        super().begin_anew(member_id)
        self._member.leave()
        self._member.join()

    def _without_order(self, request: GroupHeartbeatRequest) -> GroupHeartbeatRequest:
        """As a client says it that has never heard of numbers, if it is to be one."""
        if not self.is_ordered:
            request.ClearField("call_number")
            request.ClearField("departure_epoch")
        return request

    def _look(self) -> None:
        self.epoch = self._member.epoch
        self.owned = {_without_name(each) for each in self._member.held()}
        self.leaving = {_without_name(each) for each in self._member.held(Hold.REVOKING)}


def _without_name(partition: GroupPartition) -> TopicIdPartition:
    return TopicIdPartition(partition.topic_id, partition.partition)
