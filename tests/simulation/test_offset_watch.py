"""Whoever asks how far a group has come is never told less than was known before (rule 63)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from quorate.broker.groups.shard import GroupShard
from quorate.chaos.checks.violation import Violation
from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.cluster.offset_watch import OffsetWatch
from quorate.chaos.cluster.slow_loading import slow_loading
from quorate.chaos.history.history import History
from quorate.chaos.sim.clock import Simulation, run_simulation
from quorate.core.ids import Offset, PartitionId, TopicName, TopicPartition

PARTITION = TopicPartition(TopicName("t"), PartitionId(0))


def watching(script: Callable[[SimCluster, History], Awaitable[None]]) -> OffsetWatch:
    """While the script runs, somebody asks. The group has committed 3."""

    async def main(simulation: Simulation) -> OffsetWatch:
        cluster, history = SimCluster(simulation), History(simulation.loop.time)
        await cluster.start()
        async with cluster.admin() as admin:
            await admin.create_topic(PARTITION.topic, partitions=1)
            async with cluster.producer() as producer:
                for number in range(10):
                    await (await producer.send(PARTITION.topic, b"%d" % number))
            await admin.commit_offsets("g", {PARTITION: 3})
        watch = OffsetWatch(cluster, history, "g")
        task = asyncio.create_task(watch.watch())
        await script(cluster, history)
        await cluster.clock.sleep(2)
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.result()
        return watch

    return run_simulation(main, seed=1, time_limit_s=600)


def test_offsets_that_grow_are_all_right() -> None:
    async def script(cluster: SimCluster, _: History) -> None:
        async with cluster.admin() as admin:
            for offset in range(4, 8):
                await cluster.clock.sleep(0.3)
                await admin.commit_offsets("g", {PARTITION: offset})

    assert watching(script).examined > 10


def test_an_offset_that_goes_back_is_found() -> None:
    async def script(cluster: SimCluster, _: History) -> None:
        await cluster.clock.sleep(1)
        async with cluster.admin() as admin:
            await admin.commit_offsets("g", {PARTITION: 2})

    with pytest.raises(Violation, match="had come to 3") as found:
        watching(script)
    assert found.value.check == "commit-lost"


def test_an_acknowledged_commit_that_is_not_there_is_found() -> None:
    async def script(cluster: SimCluster, history: History) -> None:
        await cluster.clock.sleep(1)
        assignment = history.give("g", "member", PARTITION, start=Offset(3))
        history.end_commit(history.begin_commit(assignment, PARTITION, Offset(9)))

    with pytest.raises(Violation, match="by the word of member"):
        watching(script)


def test_a_coordinator_takes_a_while_to_load() -> None:
    """Or nobody would ever be told that it does."""
    before = GroupShard.load

    class Always:
        def choice(self, choices: tuple[float, ...]) -> float:
            return max(choices)

    async def main(simulation: Simulation) -> float:
        cluster = SimCluster(simulation)
        await cluster.start()
        began_s = cluster.clock.monotonic()
        async with cluster.admin() as admin:
            await admin.create_topic(PARTITION.topic, partitions=1)
            await admin.commit_offsets("g", {PARTITION: 0})
        return cluster.clock.monotonic() - began_s

    with slow_loading(Always()):  # type: ignore[arg-type]  # all of it that is used
        assert run_simulation(main, seed=1) > 0.4
    assert GroupShard.load is before
