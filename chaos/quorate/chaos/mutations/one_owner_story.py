"""A partition is nobody else's for as long as a member may still be at work on it (rule 62).

An application has been handed records of all partitions, and takes its time. Meanwhile another one comes, and
is to have one of them. It waits: until the first has come back it may commit what it is at work on, and is
right to, for nobody has told it anything else. So whoever had begun there already would process the same
records, and would then be taken back by that commit to where it has been.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

from quorate.chaos.cluster.cluster import SimCluster
from quorate.client.consumer.async_consumer import AsyncConsumer
from quorate.core.ids import TopicPartition

__all__ = ["a_partition_waits_for_who_is_at_work_on_it"]

_GROUP: Final = "g"
_TOPIC: Final = "t"
_PARTITIONS: Final = 2
#: of each partition, both before and after the other one comes
_RECORDS: Final = 10
#: that the application takes: several heartbeats, and less than anybody is removed for
_AT_WORK_S: Final = 5.0
_WITHIN_S: Final = 60.0


class _Handed(NamedTuple):
    """What a member of the group was given to process, each time that it was."""

    consumer: AsyncConsumer
    times: Counter[tuple[int, int]]

    async def poll(self) -> None:
        for record in await self.consumer.poll(timeout=0.1):
            self.times[record.partition, record.offset] += 1


async def a_partition_waits_for_who_is_at_work_on_it(cluster: SimCluster) -> None:
    async with cluster.admin() as admin:
        await admin.create_topic(_TOPIC, partitions=_PARTITIONS, replication_factor=3)
    async with cluster.consumer(group=_GROUP) as first, cluster.consumer(group=_GROUP) as second:
        at_work, newcomer = _Handed(first, Counter()), _Handed(second, Counter())
        await _write(cluster)
        first.subscribe([_TOPIC])
        await _poll_until_handed(cluster, at_work, count=_RECORDS)
        await _write(cluster)
        second.subscribe([_TOPIC])
        await _come_while_it_is_at_work(cluster, newcomer)
        before = await _committed(cluster)
        # It is told of nothing before it polls.
        await first.commit()
        after = await _committed(cluster)
        for partition, offset in before.items():
            assert after[partition] >= offset, f"{partition} was taken back: {offset} to {after[partition]}"
        await _poll_until_handed(cluster, at_work, newcomer, count=2 * _RECORDS)
        twice = sorted(each for each, times in (at_work.times + newcomer.times).items() if times > 1)
        assert not twice, f"handed out twice: {twice}"
        assert second.assignment(), "the newcomer was never given anything"


async def _come_while_it_is_at_work(cluster: SimCluster, newcomer: _Handed) -> None:
    """Whatever it is handed it processes, and commits."""
    until = cluster.clock.monotonic() + _AT_WORK_S
    while cluster.clock.monotonic() < until:
        await newcomer.poll()
    assert newcomer.consumer.membership() is not None, "the newcomer is no member"
    await newcomer.consumer.commit()


async def _poll_until_handed(cluster: SimCluster, *members: _Handed, count: int) -> None:
    """So many records of each partition, to any of them."""
    deadline_s = cluster.clock.monotonic() + _WITHIN_S
    while len({each for member in members for each in member.times}) < _PARTITIONS * count:
        assert cluster.clock.monotonic() < deadline_s, f"{[len(each.times) for each in members]} were handed"
        for member in members:
            await member.poll()


async def _committed(cluster: SimCluster) -> dict[TopicPartition, int]:
    async with cluster.admin() as admin:
        found = await admin.list_group_offsets(_GROUP)
    return {partition: each.offset for partition, each in found.items()}


async def _write(cluster: SimCluster) -> None:
    async with cluster.producer() as producer:
        for partition in range(_PARTITIONS):
            for number in range(_RECORDS):
                await (await producer.send(_TOPIC, b"%d" % number, partition=partition))
