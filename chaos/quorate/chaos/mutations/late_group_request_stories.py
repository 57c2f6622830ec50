"""Changes of a group's offsets that arrive once more, when others have changed them since (rule 62).

None of them is in a member's name, so there is no epoch that would tell old from new. Each story lets a
request be carried out, lets somebody else have the last word, has every copy delivered that the network has
seen of it, and looks whether that word stands.
"""

from __future__ import annotations

from typing import Final

from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.mutations.held_copies import HeldCopies
from quorate.core.ids import PartitionId, TopicName, TopicPartition

__all__ = [
    "a_late_commit_by_hand_undoes_no_reset",
    "a_late_deletion_of_a_group_leaves_what_was_committed_since",
    "a_late_deletion_of_offsets_leaves_what_was_committed_since",
    "a_late_reset_undoes_no_later_one",
]

_TOPIC: Final = TopicPartition(TopicName("t"), PartitionId(0))
_GROUP: Final = "g"
_RECORDS: Final = 10


async def a_late_commit_by_hand_undoes_no_reset(cluster: SimCluster) -> None:
    """The application has ended before its operator moves the group."""
    copies = HeldCopies(cluster)
    await _begin(cluster)
    async with cluster.consumer(group=_GROUP, enable_auto_commit=False) as consumer:
        consumer.assign([_TOPIC])
        with copies.of("CommitOffsets"):
            await consumer.commit({_TOPIC: 7})
    async with cluster.admin() as admin:
        await admin.reset_offsets(_GROUP, [_TOPIC], to=0)
    await copies.deliver()
    await _stands_at(cluster, 0)


async def a_late_reset_undoes_no_later_one(cluster: SimCluster) -> None:
    copies = HeldCopies(cluster)
    await _begin(cluster)
    async with cluster.admin() as admin:
        with copies.of("CommitOffsets"):
            await admin.reset_offsets(_GROUP, [_TOPIC], to="latest")
        await admin.reset_offsets(_GROUP, [_TOPIC], to="earliest")
    await copies.deliver()
    await _stands_at(cluster, 0)


async def a_late_deletion_of_a_group_leaves_what_was_committed_since(cluster: SimCluster) -> None:
    copies = HeldCopies(cluster)
    await _begin(cluster)
    async with cluster.admin() as admin:
        await admin.commit_offsets(_GROUP, {_TOPIC: 5})
        with copies.of("DeleteGroups"):
            await admin.delete_group(_GROUP)
    await _read_as_a_member(cluster)
    await copies.deliver()
    await _stands_at(cluster, _RECORDS)


async def a_late_deletion_of_offsets_leaves_what_was_committed_since(cluster: SimCluster) -> None:
    copies = HeldCopies(cluster)
    await _begin(cluster)
    async with cluster.admin() as admin:
        await admin.commit_offsets(_GROUP, {_TOPIC: 5})
        with copies.of("DeleteOffsets"):
            await admin.delete_offsets(_GROUP, [_TOPIC])
    await _read_as_a_member(cluster)
    await copies.deliver()
    await _stands_at(cluster, _RECORDS)


async def _begin(cluster: SimCluster) -> None:
    async with cluster.admin() as admin:
        await admin.create_topic(_TOPIC.topic, partitions=1, replication_factor=3)
    async with cluster.producer(acks="all") as producer:
        for number in range(_RECORDS):
            await (await producer.send(_TOPIC.topic, b"record %d" % number, partition=0))


async def _read_as_a_member(cluster: SimCluster) -> None:
    """All that there is; then it leaves, and nobody is in the group."""
    async with cluster.consumer(
        group=_GROUP, auto_offset_reset="earliest", enable_auto_commit=False
    ) as consumer:
        consumer.subscribe([_TOPIC.topic])
        read = 0
        while read < _RECORDS:
            read += len(await consumer.poll(timeout=1.0))
        await consumer.commit()


async def _stands_at(cluster: SimCluster, offset: int) -> None:
    async with cluster.admin() as admin:
        found = await admin.list_group_offsets(_GROUP)
    told = found[_TOPIC].offset if _TOPIC in found else None
    assert told == offset, f"the last that was acknowledged is {offset}, and the group stands at {told}"
