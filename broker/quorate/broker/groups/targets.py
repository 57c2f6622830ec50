"""What the members of a group are to hold, by what they want and what there is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from quorate.broker.groups.assignors import (
    ASSIGNORS,
    DEFAULT_ASSIGNOR,
    AssignableMember,
    AssignableTopic,
    Assignment,
)
from quorate.broker.groups.group import Group
from quorate.broker.groups.member import Member
from quorate.broker.groups.records import TopicIdPartition
from quorate.broker.groups.topics import TopicCatalog
from quorate.core.ids import PartitionId, TopicId
from quorate.v1.group_pb2 import GroupSubscription

__all__ = ["assignor_of", "compute_targets", "is_alike", "is_up_to_date"]


def compute_targets(members: Mapping[str, Member], topics: TopicCatalog) -> Assignment:
    assignable = [
        AssignableMember(
            member.member_id, _topics_of(member, topics), member.subscription.rack, member.target
        )
        for member in members.values()
    ]
    are_racks_known = any(member.rack for member in assignable)
    wanted = {
        topic_id: AssignableTopic(
            topics.partition_count(topic_id), topics.racks(topic_id) if are_racks_known else ()
        )
        for topic_id in _distinct(member.topic_ids for member in assignable)
    }
    return ASSIGNORS[assignor_of(members.values())](assignable, wanted)


def assignor_of(members: Collection[Member]) -> str:
    """What most of those want who want any; of two, the default comes first."""
    votes = Counter(member.subscription.assignor for member in members)
    del votes[""]
    return min(
        votes, key=lambda name: (-votes[name], name != DEFAULT_ASSIGNOR, name), default=DEFAULT_ASSIGNOR
    )


def is_alike(one: GroupSubscription, other: GroupSubscription) -> bool:
    """Whether they lead to the same targets; both normalized."""
    return (
        one.topics == other.topics
        and one.pattern == other.pattern
        and one.assignor == other.assignor
        and one.rack == other.rack
    )


def is_up_to_date(group: Group, topics: TopicCatalog) -> bool:
    """Whether the targets cover what the members want, as far as it exists now, and nothing else."""
    counts = {
        topic_id: topics.partition_count(topic_id)
        for topic_id in _distinct(_topics_of(member, topics) for member in group.members.values())
    }
    owners = group.target_owners
    return len(owners) == sum(counts.values()) and all(
        TopicIdPartition(topic_id, PartitionId(partition)) in owners
        for topic_id, count in counts.items()
        for partition in range(count)
    )


def _topics_of(member: Member, topics: TopicCatalog) -> tuple[TopicId, ...]:
    return topics.subscribed(member.topic_names, member.subscription.pattern)


def _distinct(wishes: Iterable[tuple[TopicId, ...]]) -> list[TopicId]:
    """Sorted. Most members want the same, so each wish is looked into once."""
    return sorted({topic_id for topic_ids in dict.fromkeys(wishes) for topic_id in topic_ids})
