"""Changes of a group's offsets that tests ask for, decided and carried out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from quorate.broker.groups import offset_decisions
from quorate.broker.groups.offset_decisions import OffsetsDecision
from quorate.broker.groups.records import GroupRecord, TopicIdPartition
from quorate.broker.groups.revisions import Revision
from quorate.chaos.models.groups.group_world import GROUP, World, at
from quorate.errors import QuorateError
from quorate.v1.group_pb2 import CommitOffsetsRequest, OffsetToCommit

__all__ = ["commit", "delete_group", "one"]


def one(topic: str, number: int) -> TopicIdPartition:
    (partition,) = at(topic, number)
    return partition


def commit(
    world: World,
    partitions: Iterable[TopicIdPartition],
    *,
    member_id: str = "",
    epoch: int = 0,
    offset: int = 5,
    refused: dict[int, QuorateError] | None = None,
    number: int = 0,
    seen: Revision | None = None,
    **entry: Any,
) -> OffsetsDecision:
    """``seen``: None: all that there is."""
    request = CommitOffsetsRequest(
        group=GROUP,
        member_id=member_id,
        member_epoch=epoch,
        offsets=[
            OffsetToCommit(topic_id=each.topic_id, partition=each.partition, offset=offset, **entry)
            for each in partitions
        ],
        commit_number=number,
        revision=str(seen or world.revision),
    )
    decision = offset_decisions.commit(
        world.groups,
        request,
        topics=world.topics,
        settings=world.settings,
        now_ms=world.now_ms,
        refused=refused,
    )
    world.carry_out(decision.records)
    return decision


def delete_group(world: World, seen: Revision | None = None) -> list[GroupRecord]:
    """``seen``: None: all that there is."""
    records = offset_decisions.delete_group(
        world.groups, GROUP, seen=seen or world.revision, now_ms=world.now_ms
    )
    return world.carry_out(records)
