"""One member of a group, as an immutable value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from quorate.broker.groups.records import (
    TopicIdPartition,
    held_partitions,
    holdings_of,
    partitions_of,
    topic_partitions,
)
from quorate.v1.group_pb2 import GroupSubscription
from quorate.v1.group_records_pb2 import MemberValue

__all__ = ["Member"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    member_id: str
    #: never changed in place
    subscription: GroupSubscription
    #: grows whenever the member is given partitions, and only then
    member_epoch: int
    #: the oldest epoch that it may still speak in, as answers get lost; at most ``member_epoch``
    previous_member_epoch: int
    #: what it is to hold in the end; no other member's target has any of it
    target: frozenset[TopicIdPartition] = frozenset()
    #: what it may read, and the member epoch in which it was given it; part of ``target``
    assigned: Mapping[TopicIdPartition, int] = field(default_factory=dict)
    #: what it has been told to give up and may still be reading; nobody else gets it before it says so
    revoking: Mapping[TopicIdPartition, int] = field(default_factory=dict)
    #: a static member that is not there, and reads nothing
    is_away: bool = False
    #: of its last call that had a subscription, or said that it is away; 0: it does not number them
    call_number: int = 0
    #: of the subscription; getting at them in the message takes longer than all that is done with them
    topic_names: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "topic_names", tuple(self.subscription.topics))

    @property
    def instance_id(self) -> str:
        """Empty: not a static member."""
        return self.subscription.instance_id

    @property
    def is_settled(self) -> bool:
        """It holds what it is to hold, and nothing else."""
        return not self.revoking and len(self.assigned) == len(self.target)

    def holds(self, partition: TopicIdPartition) -> bool:
        """Whether it may be reading it."""
        return partition in self.assigned or partition in self.revoking

    def since_epoch(self, partition: TopicIdPartition) -> int | None:
        """The member epoch in which it was given the partition; None: it does not hold it."""
        since = self.assigned.get(partition)
        return self.revoking.get(partition) if since is None else since

    @classmethod
    def of(cls, member_id: str, value: MemberValue) -> Member:
        return cls(
            member_id=member_id,
            subscription=value.subscription,
            member_epoch=value.member_epoch,
            previous_member_epoch=value.previous_member_epoch,
            target=partitions_of(value.target),
            assigned=holdings_of(value.assigned),
            revoking=holdings_of(value.revoking),
            is_away=value.is_away,
            call_number=value.call_number,
        )

    def to_value(self) -> MemberValue:
        return MemberValue(
            subscription=self.subscription,
            member_epoch=self.member_epoch,
            previous_member_epoch=self.previous_member_epoch,
            target=topic_partitions(self.target),
            assigned=held_partitions(self.assigned),
            revoking=held_partitions(self.revoking),
            is_away=self.is_away,
            call_number=self.call_number,
        )
