"""A small cluster and its topic "t", of one partition: scenarios of its leader begin once they are there.

Clients of ours ask whoever leads. Scenarios of leaders that were replaced ask one machine, as a client does
that knows no other leader yet.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.cluster.machine import SimMachine
from quorate.chaos.cluster.view import active_controller
from quorate.chaos.sim.clock import Simulation, run_simulation
from quorate.core.transport import method_of
from quorate.v1 import admin_pb2, broker_pb2, errors_pb2, records_pb2

_SERVICE: Final = broker_pb2.DESCRIPTOR.services_by_name["BrokerService"]
FETCH: Final = method_of(_SERVICE, "Fetch", broker_pb2.FetchRequest, broker_pb2.FetchResponse)
LIST_OFFSETS: Final = method_of(
    _SERVICE, "ListOffsets", broker_pb2.ListOffsetsRequest, broker_pb2.ListOffsetsResponse
)
PRODUCE: Final = method_of(_SERVICE, "Produce", broker_pb2.ProduceRequest, broker_pb2.ProduceResponse)

PLAIN: Final = admin_pb2.CreateTopicRequest(name="t")

Result = TypeVar("Result")


def simulate(
    scenario: Callable[[SimCluster], Awaitable[Result]],
    *,
    seed: int = 1,
    brokers: int = 3,
    settings: Mapping[str, Any] | None = None,
    topic: admin_pb2.CreateTopicRequest = PLAIN,
) -> Result:
    async def main(simulation: Simulation) -> Result:
        cluster = SimCluster(simulation, brokers=brokers, settings=settings)
        await cluster.start()
        async with cluster.connect() as connection:
            await connection.create_topic(topic)
        return await scenario(cluster)

    return run_simulation(main, seed=seed, time_limit_s=600)


async def append(cluster: SimCluster, value: bytes) -> int | None:
    """Its offset, once all replicas in sync have it."""
    async with cluster.producer() as producer:
        return (await (await producer.send("t", value, partition=0))).offset


async def append_at(
    cluster: SimCluster, machine: SimMachine, *, expected_offset: int | None = None
) -> errors_pb2.ErrorDetail:
    """By a call to this machine, whoever leads: its error, without a code if there is none."""
    entry = broker_pb2.ProducePartition(
        topic="t", partition=0, records=[records_pb2.Record(value=b"v")], expected_offset=expected_offset
    )
    request = broker_pb2.ProduceRequest(partitions=[entry])
    channel = cluster.client_transport().connect(machine.address)
    return (await channel.call(PRODUCE, request, timeout_s=60)).partitions[0].error


def is_leading(machine: SimMachine) -> bool:
    """By its own word."""
    broker = machine.broker
    return broker is not None and any(replica.leadership is not None for replica in broker.replicas)


def leader_of(cluster: SimCluster) -> SimMachine:
    return next(each for each in cluster.brokers if not each.is_paused and is_leading(each))


def keep_metadata_from(cluster: SimCluster, machine: SimMachine) -> None:
    """Its heartbeats get through to the active controller; metadata from the others does not come."""
    active = active_controller(cluster)
    for each in cluster.controllers:
        if each is not active:
            cluster.network.block(each.name, machine.name)
