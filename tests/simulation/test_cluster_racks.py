"""Readers are served by the follower in their rack: what it knows to be committed, for as long as it lives.

Two racks of two brokers each; who served a read is noted in the brokers, where a fetch is answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import pytest

from quorate.broker.handlers.fetch import FetchHandler
from quorate.broker.replica.partition import Partition
from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.cluster.view import is_whole
from quorate.chaos.sim.clock import Simulation, run_simulation
from quorate.client.consumer.async_consumer import AsyncConsumer
from quorate.v1 import broker_pb2

RACKS: Final = {1: "north", 2: "north", 3: "south", 4: "south"}
#: of the only partition; the fourth broker has no replica
LEADER, FAR, NEAR = 1, 2, 3
READER_RACK: Final = "south"
#: a replica that does not answer stays in the ISR for the time of a test
LAG_MS_MAX: Final = 60_000
#: until a reader that had trouble with a follower looks for one again, and more
BACK_TO_FOLLOWER_S: Final = 35


@dataclass(frozen=True, slots=True)
class Served:
    """A fetch that was answered with records."""

    broker_id: int
    #: of the partition there, when it was answered
    high_watermark: int
    #: behind the last record of the answer
    next_offset: int


Scenario = Callable[[SimCluster, list[Served]], Awaitable[None]]


def simulate(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[Served] = []
    fetch_into: Any = FetchHandler.fetch_into

    async def noting(
        self: FetchHandler, response: broker_pb2.FetchResponse, request: broker_pb2.FetchRequest
    ) -> Any:
        told = await fetch_into(self, response, request)
        served.extend(
            Served(self._config.node_id, each.high_watermark, each.next_fetch_offset)
            for each in response.partitions
            if each.batches
        )
        return told

    async def main(simulation: Simulation) -> None:
        cluster = SimCluster(simulation, brokers=4, settings={"replica_lag_time_max_ms": LAG_MS_MAX})
        for broker_id, rack in RACKS.items():
            machine = cluster.broker(broker_id)
            machine.config = replace(machine.config, node_rack=rack)
        await cluster.start()
        async with cluster.admin() as admin:
            await admin.create_topic("t", assignments={0: [LEADER, FAR, NEAR]})
        await cluster.until(lambda: is_whole(cluster))
        await scenario(cluster, served)

    monkeypatch.setattr(FetchHandler, "fetch_into", noting)
    run_simulation(main, seed=1, time_limit_s=600)


def reader(cluster: SimCluster, rack: str = READER_RACK) -> AsyncConsumer:
    return AsyncConsumer(
        cluster.bootstrap,
        topics=["t"],
        transport=cluster.client_transport(),
        clock=cluster.clock,
        rng=cluster.client_rng(),
        client_rack=rack,
        metadata_max_age_ms=1_000,
    )


async def write(cluster: SimCluster, numbers: range) -> None:
    """Returns once all are acknowledged."""
    async with cluster.producer() as producer:
        for number in numbers:
            await (await producer.send("t", b"%d" % number, partition=0))


async def read(consumer: AsyncConsumer, count: int) -> list[int]:
    values: list[int] = []
    async with asyncio.timeout(60):
        while len(values) < count:
            values += [int(record.value or b"") for record in await consumer.poll(timeout=1)]
    return values


def replica(cluster: SimCluster, broker_id: int) -> Partition:
    broker = cluster.broker(broker_id).broker
    assert broker is not None
    [found] = broker.replicas
    return found


def test_each_reader_is_served_in_its_own_rack_or_by_the_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(cluster: SimCluster, served: list[Served]) -> None:
        await write(cluster, range(20))
        for rack, expected in (("south", NEAR), ("north", LEADER), ("elsewhere", LEADER)):
            served.clear()
            async with reader(cluster, rack) as consumer:
                assert await read(consumer, 20) == list(range(20))
            assert {each.broker_id for each in served} == {expected}, rack

    simulate(scenario, monkeypatch)


def test_a_follower_serves_no_more_than_it_knows_to_be_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(cluster: SimCluster, served: list[Served]) -> None:
        await write(cluster, range(20))
        leader, far, near = (replica(cluster, each) for each in (LEADER, FAR, NEAR))
        names = {each: cluster.broker(each).name for each in (LEADER, FAR, NEAR)}
        async with reader(cluster) as consumer:
            assert await read(consumer, 20) == list(range(20))

            # The follower nearby has the next record, and another member of the ISR has not.
            cluster.network.block(names[LEADER], names[FAR])
            writing = asyncio.create_task(write(cluster, range(20, 21)))
            await cluster.until(lambda: near.log.log_end_offset == 21)
            assert await consumer.poll(timeout=3) == []
            assert (leader.high_watermark, near.high_watermark) == (20, 20)

            # It is committed, and the follower nearby has not heard so.
            cluster.network.block(names[LEADER], names[NEAR])
            cluster.network.unblock(names[LEADER], names[FAR])
            await writing
            assert await consumer.poll(timeout=3) == []
            assert (leader.high_watermark, far.log.log_end_offset, near.high_watermark) == (21, 21, 20)

            cluster.network.unblock(names[LEADER], names[NEAR])
            assert await read(consumer, 1) == [20]
        assert {each.broker_id for each in served} == {NEAR}
        assert all(each.next_offset <= each.high_watermark for each in served)

    simulate(scenario, monkeypatch)


def test_the_leader_serves_while_the_follower_nearby_is_dead_and_no_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(cluster: SimCluster, served: list[Served]) -> None:
        await write(cluster, range(20))
        async with reader(cluster) as consumer:
            assert await read(consumer, 20) == list(range(20))
            machine = cluster.broker(NEAR)
            machine.kill()
            await write(cluster, range(20, 40))
            assert await read(consumer, 20) == list(range(20, 40))
            assert [each.broker_id for each in served] == sorted(each.broker_id for each in served)[::-1]
            assert {each.broker_id for each in served} == {NEAR, LEADER}

            machine.start()
            await cluster.until(lambda: is_whole(cluster))
            await asyncio.sleep(BACK_TO_FOLLOWER_S)
            served.clear()
            await write(cluster, range(40, 60))
            assert await read(consumer, 20) == list(range(40, 60))
            assert {each.broker_id for each in served} == {NEAR}

    simulate(scenario, monkeypatch)
