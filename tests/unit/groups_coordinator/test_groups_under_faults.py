"""Groups while brokers die, stand still and come back, connections break, and members come and go.

Every member reads as readers do: it asks how far the group has come in what it was given, and commits one
more, again and again. Whatever happens, an acknowledged commit is never followed by one that begins before
it: that would be a member that the group had given up, a coordinator that was not one any more, or an
offset that was forgotten.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from quorate.broker.groups.invariants import validate
from quorate.broker.groups.records import TopicIdPartition
from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.sim.clock import Simulation, run_simulation
from quorate.core.config import GroupConfig
from quorate.errors import QuorateError
from quorate.v1.group_pb2 import FetchOffsetsRequest
from tests.unit.groups_coordinator.group_cluster import (
    GROUP,
    GroupClient,
    TestMember,
    commit_request,
    coordinator_of,
    create_topic,
    offsets_in,
    partition,
    shard_of,
)

PARTITIONS = 4
#: in each partition: more than is ever committed
RECORDS = 300
#: so short that some of it happens in the time of a test
TIMES = GroupConfig(session_timeout_ms=3_000, heartbeat_interval_ms=500, reconnect_grace_ms=200)
REJOIN = {"UNKNOWN_MEMBER_ID", "FENCED_MEMBER_EPOCH"}


class Progress:
    """What was acknowledged, in the order of time."""

    def __init__(self) -> None:
        #: the highest offset of each partition that was acknowledged
        self.acknowledged: dict[TopicIdPartition, int] = {}
        self.commits = 0

    def begin(self, offsets: dict[TopicIdPartition, int]) -> dict[TopicIdPartition, int]:
        """What was acknowledged when the commit was sent."""
        return {each: self.acknowledged.get(each, -1) for each in offsets}

    def end(self, each: TopicIdPartition, offset: int, acknowledged_before: int) -> None:
        assert offset > acknowledged_before, f"{each}: {offset} after {acknowledged_before}"
        self.acknowledged[each] = max(offset, self.acknowledged.get(each, -1))
        self.commits += 1


class Reader:
    """One process after the other, under names of their own."""

    def __init__(self, cluster: SimCluster, number: int, progress: Progress) -> None:
        self._cluster = cluster
        self._number = number
        self._progress = progress
        self._lives = 0
        self._positions: dict[TopicIdPartition, int] = {}
        self.member = self._new_member()

    def _new_member(self) -> TestMember:
        self._lives += 1
        self._positions = {}
        return TestMember(GroupClient(self._cluster), f"reader-{self._number}-{self._lives}")

    async def run(self) -> None:
        while True:
            try:
                await self.member.beat(max_wait_ms=50)
                await self._read_on()
            except QuorateError as error:
                if error.code in REJOIN:
                    self.member = self._new_member()
                elif not error.retriable:
                    raise
            await asyncio.sleep(0.02)

    async def _read_on(self) -> None:
        member = self.member
        self._positions = {each: at for each, at in self._positions.items() if each in member.owned}
        new = sorted(member.owned - self._positions.keys())
        if new:
            request = FetchOffsetsRequest(group=GROUP, member_id=member.name, member_epoch=member.epoch)
            committed = offsets_in(await member.client.call("FetchOffsets", request))
            self._positions |= {each: committed.get(each, 0) for each in new}
        if self._positions:
            await self._commit({each: at + 1 for each, at in sorted(self._positions.items())})

    async def _commit(self, offsets: dict[TopicIdPartition, int]) -> None:
        member = self.member
        before = self._progress.begin(offsets)
        request = commit_request(offsets, member_id=member.name, member_epoch=member.epoch)
        try:
            address = await member.client.find()
            response = await member.client.ask(address, "CommitOffsets", request, timeout_s=5)
        except QuorateError:
            # Whether it was done is not known, or it was refused: asked again before anything else.
            self._positions.clear()
            raise
        for (each, offset), result in zip(offsets.items(), response.results, strict=True):
            if result.HasField("error"):
                self._positions.pop(each, None)
            else:
                self._progress.end(each, offset, before[each])
                self._positions[each] = offset


async def do_harm(cluster: SimCluster, rng: random.Random, readers: list[Reader]) -> None:
    """One thing at a time, and two brokers stay well."""
    victim = rng.choice([coordinator_of(cluster), rng.choice(cluster.brokers)])
    reader = rng.choice(readers)
    kind = rng.choice(["kill", "stop", "pause", "break", "cut", "die"])
    if kind == "kill":
        victim.kill()
        await asyncio.sleep(rng.uniform(0.1, 3))
        victim.start()
        await victim.ready()
    elif kind == "stop":
        await victim.stop()
        victim.start()
        await victim.ready()
    elif kind == "pause":
        victim.pause()
        await asyncio.sleep(rng.uniform(0.1, 5))
        victim.resume()
    elif kind == "break":
        cluster.network.break_connections(reader.member.client.machine, victim.name)
    elif kind == "cut":
        cluster.network.partition([reader.member.client.machine], [each.name for each in cluster.brokers])
        await asyncio.sleep(rng.uniform(0.1, 5))
        cluster.network.heal()
    else:
        cluster.network.break_all_connections(reader.member.client.machine)
        reader.member = reader._new_member()
    await asyncio.sleep(rng.uniform(0.1, 1.5))


@pytest.mark.parametrize("seed", range(1, 7))
def test_no_acknowledged_commit_is_forgotten_or_overtaken(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        cluster = SimCluster(simulation, settings={"groups": TIMES})
        await cluster.start()
        await create_topic(cluster, "t", partitions=PARTITIONS, records=RECORDS)
        rng, progress = random.Random(seed), Progress()
        readers = [Reader(cluster, number, progress) for number in range(3)]
        await readers[0].member.client.find()
        running = [asyncio.create_task(reader.run()) for reader in readers]
        try:
            for _ in range(6):
                await do_harm(cluster, rng, readers)
                for each in running:
                    assert not each.done(), each.exception()
            await come_to_rest(cluster, readers)
        finally:
            for each in running:
                each.cancel()
            await asyncio.gather(*running, return_exceptions=True)
        assert progress.commits > 20
        fetched = await GroupClient(cluster).fetch()
        for number in range(PARTITIONS):
            read = partition(cluster, number)
            assert fetched.get(read, 0) >= progress.acknowledged.get(read, 0)

    run_simulation(main, seed=seed, time_limit_s=600)


async def come_to_rest(cluster: SimCluster, readers: list[Reader]) -> None:
    """Every partition has one reader, who knows it, and nobody else thinks so."""

    def is_at_rest() -> bool:
        shard: Any = shard_of(coordinator_of(cluster))
        group = None if shard is None else shard.groups.get(GROUP)
        if group is None:
            return False
        validate(group)
        held = {reader.member.name: reader.member.owned for reader in readers}
        return {name: set(member.assigned) for name, member in group.members.items()} == held and sum(
            map(len, held.values())
        ) == PARTITIONS

    await cluster.until(is_at_rest, within_s=60)
