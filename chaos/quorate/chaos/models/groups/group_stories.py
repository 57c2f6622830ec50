"""What random walks through the model of groups come to too rarely."""

from __future__ import annotations

from quorate.broker.groups import offset_decisions
from quorate.chaos.models.groups.group_world import GROUP, World, at
from quorate.v1.group_pb2 import CommitOffsetsRequest, OffsetToCommit

__all__ = ["an_epoch_is_given_once"]


def an_epoch_is_given_once() -> None:
    """A member is removed and comes back under its name; between, nobody is there, and all is cleared up."""
    world = World(topics={"orders": 1})
    (partition,) = at("orders", 0)
    before = world.heartbeat("a", topics=["orders"]).member_epoch
    world.remove("a")
    world.carry_out(offset_decisions.expired_offsets(world.group, now_ms=world.now_ms, retention_ms=0))
    world.heartbeat("a", topics=["orders"])
    late = CommitOffsetsRequest(
        group=GROUP,
        member_id="a",
        member_epoch=before,
        offsets=[OffsetToCommit(topic_id=partition.topic_id, partition=partition.partition, offset=1)],
    )
    decision = offset_decisions.commit(
        world.groups, late, topics=world.topics, settings=world.settings, now_ms=world.now_ms
    )
    assert not decision.records, "from before it was removed"
