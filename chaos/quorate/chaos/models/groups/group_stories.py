"""What random walks through the model of groups come to too rarely."""

from __future__ import annotations

from typing import Any

from quorate.broker.groups import offset_decisions
from quorate.broker.groups.offset_decisions import OffsetsDecision
from quorate.broker.groups.records import TopicIdPartition
from quorate.broker.groups.revisions import Revision
from quorate.chaos.models.groups.group_world import GROUP, World, at
from quorate.errors import GroupError
from quorate.v1.group_pb2 import CommitOffsetsRequest, OffsetToCommit

__all__ = [
    "a_deletion_is_done_however_often_it_is_asked_for",
    "an_application_that_is_started_again_commits",
    "an_epoch_is_given_once",
    "an_epoch_is_given_once_though_its_group_was_deleted",
]


def an_epoch_is_given_once() -> None:
    """A member is removed and comes back under its name; between, nobody is there, and all is cleared up."""
    world = World(topics={"orders": 1})
    (partition,) = at("orders", 0)
    before = world.heartbeat("a", topics=["orders"]).member_epoch
    world.remove("a")
    world.carry_out(offset_decisions.expired_offsets(world.group, now_ms=world.now_ms, retention_ms=0))
    world.heartbeat("a", topics=["orders"])
    decision = _commit(world, partition, member_id="a", member_epoch=before)
    assert not decision.records, "from before it was removed"


def an_epoch_is_given_once_though_its_group_was_deleted() -> None:
    world = World(topics={"orders": 1})
    (partition,) = at("orders", 0)
    before = world.heartbeat("a", topics=["orders"]).member_epoch
    world.heartbeat("a", -1)
    _delete(world)
    world.heartbeat("a", topics=["orders"])
    decision = _commit(world, partition, member_id="a", member_epoch=before)
    assert not decision.records, "from before it left"


def a_deletion_is_done_however_often_it_is_asked_for() -> None:
    """Its answer was lost, or the network delivered it twice: its operator has to hear that it was done."""
    world = World(topics={"orders": 1})
    (partition,) = at("orders", 0)
    world.carry_out(_commit(world, partition, revision=str(world.revision)).records)
    seen = world.revision
    for _ in range(2):
        try:
            _delete(world, seen)
        except GroupError as error:
            raise AssertionError(f"it was deleted, and its operator is told: {error.message}") from error


def an_application_that_is_started_again_commits() -> None:
    """It assigns partitions by itself, and counts from one again."""
    world = World(topics={"orders": 1})
    (partition,) = at("orders", 0)
    for commit_number in (1, 2, 3, 1):
        decision = _commit(world, partition, revision=str(world.revision), commit_number=commit_number)
        world.carry_out(decision.records)
        assert decision.errors == [None], "nobody else commits here"


def _commit(world: World, partition: TopicIdPartition, **fields: Any) -> OffsetsDecision:
    entry = OffsetToCommit(topic_id=partition.topic_id, partition=partition.partition, offset=1)
    request = CommitOffsetsRequest(group=GROUP, offsets=[entry], **fields)
    return offset_decisions.commit(
        world.groups, request, topics=world.topics, settings=world.settings, now_ms=world.now_ms
    )


def _delete(world: World, seen: Revision | None = None) -> None:
    world.carry_out(
        offset_decisions.delete_group(world.groups, GROUP, seen=seen or world.revision, now_ms=world.now_ms)
    )
