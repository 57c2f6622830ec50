"""Calls of members that arrive once more, when their member has said something else, or has gone.

A member that lives must not notice, and one that has gone must stay away: what it wants now is read, and the
group is as the last word of each has left it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from quorate.broker.groups.records import partition_of_group
from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.cluster.view import newest_image
from quorate.chaos.mutations.held_copies import HeldCopies
from quorate.chaos.sim.patch import Patch
from quorate.client.admin.group_types import GroupDescription
from quorate.client.consumer.async_consumer import AsyncConsumer
from quorate.client.consumer.group.member import Member
from quorate.client.groups.coordinator import GROUP_HEARTBEAT
from quorate.core.topic_names import OFFSETS_TOPIC
from quorate.errors import GroupNotFound, QuorateError
from quorate.v1.group_pb2 import GroupHeartbeatRequest

__all__ = [
    "a_late_call_leaves_the_last_subscription",
    "a_late_call_that_breaks_off_removes_nobody",
    "a_late_join_brings_nobody_back",
]

_GROUP: Final = "g"
_WITHIN_S: Final = 30.0
#: more than a heartbeat interval: a member that was removed finds out when it calls next
_QUIET_S: Final = 5.0
_ARRIVED_S: Final = 0.1


async def a_late_call_leaves_the_last_subscription(cluster: SimCluster) -> None:
    """Else the member would never read what it subscribed to since: it says so once."""
    await _create(cluster, "t", "u")
    copies = HeldCopies(cluster)
    async with cluster.consumer(group=_GROUP) as consumer:
        with copies.of("GroupHeartbeat"):
            consumer.subscribe(["t"])
            await _poll_until_given(cluster, consumer, {"t"})
        consumer.subscribe(["t", "u"])
        await _poll_until_given(cluster, consumer, {"t", "u"})
        await _poll(cluster, consumer, for_s=_QUIET_S)
        before = consumer.membership()
        await copies.deliver()
        await _poll(cluster, consumer, for_s=_QUIET_S)
        assert _topics(consumer) == {"t", "u"}, f"a late call has left {_topics(consumer)}"
        assert consumer.membership() == before


async def a_late_join_brings_nobody_back(cluster: SimCluster) -> None:
    """Else its partitions would wait for nobody, and commits by hand be refused, for a session."""
    await _create(cluster, "t")
    copies = HeldCopies(cluster)
    async with cluster.consumer(group=_GROUP) as consumer:
        with copies.of("GroupHeartbeat"):
            consumer.subscribe(["t"])
            await _poll_until_given(cluster, consumer, {"t"})
    await copies.deliver()
    group = await _described(cluster)
    assert group is None or not group.members, f"{group.members[0].member_id} is dead, and in the group"


async def a_late_call_that_breaks_off_removes_nobody(cluster: SimCluster) -> None:
    """It would take the place of the call that waits, and its end would look like its member's."""
    await _create(cluster, "t")
    calls: list[GroupHeartbeatRequest] = []
    async with cluster.consumer(group=_GROUP) as consumer:
        with Patch() as patch:
            _note_calls(patch, calls)
            consumer.subscribe(["t"])
            await _poll_until_given(cluster, consumer, {"t"})
            # One that is answered before half its time is over is not followed by another at once.
            await _poll(cluster, consumer, for_s=_ARRIVED_S)
        before = consumer.membership()
        channel = cluster.client_transport().connect(_coordinator(cluster))
        # Refused, or it breaks off.
        with suppress(QuorateError):
            await channel.call(GROUP_HEARTBEAT, calls[-1], timeout_s=_ARRIVED_S)
        await _poll(cluster, consumer, for_s=_QUIET_S)
        assert consumer.membership() == before, "a member that lives was removed"


def _note_calls(patch: Patch, calls: list[GroupHeartbeatRequest]) -> None:
    original = Member.request

    def request(self: Member, *, max_wait_ms: int) -> GroupHeartbeatRequest:
        calls.append(original(self, max_wait_ms=max_wait_ms))
        return calls[-1]

    patch.setattr(Member, "request", request)


# -- what they share


async def _create(cluster: SimCluster, *topics: str) -> None:
    async with cluster.admin() as admin:
        for topic in topics:
            await admin.create_topic(topic, partitions=1, replication_factor=3)


async def _poll(cluster: SimCluster, consumer: AsyncConsumer, *, for_s: float) -> None:
    until = cluster.clock.monotonic() + for_s
    while cluster.clock.monotonic() < until:
        await consumer.poll(timeout=0.1)


async def _poll_until_given(cluster: SimCluster, consumer: AsyncConsumer, topics: set[str]) -> None:
    deadline_s = cluster.clock.monotonic() + _WITHIN_S
    while _topics(consumer) != topics:
        assert cluster.clock.monotonic() < deadline_s, f"it was given {_topics(consumer)}"
        await consumer.poll(timeout=0.1)


def _topics(consumer: AsyncConsumer) -> set[str]:
    return {str(each.topic) for each in consumer.assignment()}


async def _described(cluster: SimCluster) -> GroupDescription | None:
    async with cluster.admin() as admin:
        try:
            return await admin.describe_group(_GROUP)
        except GroupNotFound:
            return None


def _coordinator(cluster: SimCluster) -> str:
    image = newest_image(cluster)
    topic = image.topic_named(OFFSETS_TOPIC)
    assert topic is not None
    leader = topic.partitions[partition_of_group(_GROUP, len(topic.partitions))].leader
    return image.brokers[leader].address
