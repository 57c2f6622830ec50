"""A leader that was paused or cut off, and whom another one has replaced meanwhile (rule 37)."""

from __future__ import annotations

import asyncio
from typing import Final

import pytest

from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.cluster.machine import SimMachine
from quorate.core.transport import Method, Request, Response
from quorate.v1 import broker_pb2, errors_pb2, records_pb2
from tests.simulation.one_topic import (
    FETCH,
    LIST_OFFSETS,
    PRODUCE,
    append,
    is_leading,
    leader_of,
    simulate,
)

#: as the lease demands, or because it has learned already that it does not lead any more
REFUSALS: Final = {"BROKER_FENCED", "NOT_LEADER_OR_FOLLOWER"}

READ: Final = broker_pb2.FetchRequest(
    partitions=[broker_pb2.FetchPartition(topic="t", partition=0, fetch_offset=0)]
)
LATEST: Final = broker_pb2.ListOffsetsRequest(
    partitions=[broker_pb2.ListOffsetsPartition(topic="t", partition=0)]
)


def write(acks: broker_pb2.Acks) -> broker_pb2.ProduceRequest:
    entry = broker_pb2.ProducePartition(topic="t", partition=0, records=[records_pb2.Record(value=b"zombie")])
    return broker_pb2.ProduceRequest(acks=acks, partitions=[entry], timeout_ms=5_000)


class Asker:
    """Calls that are under way while the broker stands still."""

    def __init__(self, cluster: SimCluster, machine: SimMachine) -> None:
        self._channel = cluster.client_transport().connect(machine.address)

    def ask(self, method: Method[Request, Response], request: Request) -> asyncio.Task[Response]:
        return asyncio.create_task(self._channel.call(method, request, timeout_s=60), name=method.name)


async def errors_of(calls: list[asyncio.Task[object]]) -> list[errors_pb2.ErrorDetail]:
    return [(await call).partitions[0].error for call in calls]  # type: ignore[attr-defined]


@pytest.mark.parametrize("seed", range(1, 4))
def test_leader_resumed_from_a_pause_answers_nothing_from_its_old_life(seed: int) -> None:
    async def scenario(cluster: SimCluster) -> None:
        await append(cluster, b"before")
        zombie = leader_of(cluster)
        asker = Asker(cluster, zombie)
        zombie.pause()
        calls = [
            asker.ask(FETCH, READ),
            asker.ask(LIST_OFFSETS, LATEST),
            asker.ask(PRODUCE, write(broker_pb2.ACKS_LEADER)),
            asker.ask(PRODUCE, write(broker_pb2.ACKS_ALL)),
        ]
        assert await append(cluster, b"after") == 1
        zombie.resume()
        errors = await errors_of(calls)  # type: ignore[arg-type]
        assert {error.code for error in errors[:3]} <= REFUSALS
        # acks=all needs no lease; it may have been appended, and must not be acknowledged.
        assert errors[3].code in REFUSALS or errors[3].outcome_unknown
        assert await append(cluster, b"last") == 2

    simulate(scenario, seed=seed)


@pytest.mark.parametrize("seed", range(1, 4))
def test_leader_that_lost_the_controllers_stops_answering_alone_before_another_leads(seed: int) -> None:
    async def scenario(cluster: SimCluster) -> None:
        await append(cluster, b"before")
        zombie = leader_of(cluster)
        asker = Asker(cluster, zombie)
        controllers = [each.name for each in cluster.controllers]
        cluster.network.partition([zombie.name], controllers)
        loop = cluster.simulation.loop
        refused_at = None
        while leader_of_others(cluster, zombie) is None:
            [error] = await errors_of([asker.ask(FETCH, READ)])
            if error.code and refused_at is None:
                refused_at = loop.time()
                assert error.code in REFUSALS
            await asyncio.sleep(0.01)
        assert refused_at is not None
        assert refused_at < loop.time()

    simulate(scenario, seed=seed)


def leader_of_others(cluster: SimCluster, zombie: SimMachine) -> SimMachine | None:
    return next((each for each in cluster.brokers if each is not zombie and is_leading(each)), None)
