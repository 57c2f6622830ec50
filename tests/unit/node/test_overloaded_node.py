"""A node whose clients take every place: what the nodes need of each other goes on."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final

from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.sim.clock import Simulation, run_simulation
from quorate.core.transport import Channel, methods_of
from quorate.errors import Overloaded
from quorate.v1 import admin_pb2, broker_pb2, records_pb2

_ADMIN: Final = methods_of(admin_pb2.DESCRIPTOR.services_by_name["AdminService"])
_BROKER: Final = methods_of(broker_pb2.DESCRIPTOR.services_by_name["BrokerService"])
_TIMEOUT_S: Final = 90.0
_PLACES: Final = 3
#: The fetches outlast the broker's return.
_FETCH_WAIT_MS: Final = 60_000
_RETURN_S_MAX: Final = 20.0


def simulate(
    scenario: Callable[[SimCluster], Awaitable[None]], *, brokers: int, requests_max: int = 1_000
) -> None:
    """One controller, in the process of the first broker."""

    async def main(simulation: Simulation) -> None:
        settings = {"queued_max_requests": requests_max}
        await scenario(
            SimCluster(simulation, controllers=1, brokers=brokers, is_combined=True, settings=settings)
        )

    run_simulation(main, seed=1)


async def create_topic(channel: Channel, name: str) -> None:
    """On the first broker."""
    assignments = [admin_pb2.ReplicaAssignment(partition=0, replicas=[1])]
    request = admin_pb2.CreateTopicRequest(name=name, assignments=assignments)
    await channel.call(_ADMIN["CreateTopic"], request, timeout_s=_TIMEOUT_S)


async def fill_with_fetches(channel: Channel) -> list[asyncio.Task[broker_pb2.FetchResponse]]:
    """Returns once no other fetch gets in."""
    request = broker_pb2.FetchRequest(
        max_wait_ms=_FETCH_WAIT_MS, partitions=[broker_pb2.FetchPartition(topic="t")]
    )
    fetches = [
        asyncio.create_task(channel.call(_BROKER["Fetch"], request, timeout_s=_TIMEOUT_S))
        for _ in range(_PLACES)
    ]
    with contextlib.suppress(Overloaded):
        while True:
            await asyncio.sleep(0.1)
            await channel.call(_BROKER["Fetch"], broker_pb2.FetchRequest(), timeout_s=_TIMEOUT_S)
    return fetches


def test_administration_of_a_combined_node_needs_one_place() -> None:
    """It forwards to the controller in its own process, which is one more call to the same server."""

    async def scenario(cluster: SimCluster) -> None:
        await cluster.start()
        channel = cluster.client_transport().connect(cluster.machine("b1").address)
        await create_topic(channel, "t")
        described = await channel.call(
            _ADMIN["DescribeTopic"], admin_pb2.DescribeTopicRequest(name="t"), timeout_s=_TIMEOUT_S
        )
        assert described.topic.name == "t"
        await channel.close()

    simulate(scenario, brokers=1, requests_max=1)


def test_broker_that_was_killed_comes_back_while_fetches_occupy_its_controllers_node() -> None:
    async def scenario(cluster: SimCluster) -> None:
        await cluster.start()
        channel = cluster.client_transport().connect(cluster.machine("b1").address)
        await create_topic(channel, "t")
        returning = cluster.machine("b2")
        returning.kill()
        await cluster.clock.sleep(1)
        fetches = await fill_with_fetches(channel)
        returning.start()
        await cluster.until(lambda: returning.is_ready, within_s=_RETURN_S_MAX)
        assert not any(fetch.done() for fetch in fetches), "nobody made room for it"
        for fetch in fetches:
            fetch.cancel()
        await asyncio.wait(fetches)
        await channel.close()

    simulate(scenario, brokers=2, requests_max=_PLACES)


def test_fetches_that_wait_keep_out_no_other_call() -> None:
    async def scenario(cluster: SimCluster) -> None:
        await cluster.start()
        channel = cluster.client_transport().connect(cluster.machine("b1").address)
        await create_topic(channel, "t")
        await cluster.clock.sleep(1)
        fetches = await fill_with_fetches(channel)
        await channel.call(_BROKER["GetMetadata"], broker_pb2.GetMetadataRequest(), timeout_s=_TIMEOUT_S)
        await channel.call(
            _BROKER["InitProducerId"], broker_pb2.InitProducerIdRequest(), timeout_s=_TIMEOUT_S
        )
        entry = broker_pb2.ProducePartition(
            topic="t", records=[records_pb2.Record(value=b"what they wait for")]
        )
        produced = await channel.call(
            _BROKER["Produce"], broker_pb2.ProduceRequest(partitions=[entry]), timeout_s=_TIMEOUT_S
        )
        assert not produced.partitions[0].HasField("error")
        assert all(fetch.partitions[0].batches for fetch in await asyncio.gather(*fetches))
        await channel.close()

    simulate(scenario, brokers=1, requests_max=_PLACES)


def test_services_between_nodes_are_those_that_no_client_calls() -> None:
    async def scenario(cluster: SimCluster) -> None:
        await cluster.start()
        node = cluster.machine("b1").node
        assert node is not None
        assert node.controller is not None
        assert node.broker is not None
        services = [*node.controller.services(), *node.broker.services()]
        assert {service.name: service.is_internal for service in services} == {
            "quorate.v1.AdminService": False,
            "quorate.v1.BrokerService": False,
            "quorate.v1.ControllerService": True,
            "quorate.v1.GroupService": False,
            "quorate.v1.QuorumService": True,
            "quorate.v1.ReplicaService": True,
        }

    simulate(scenario, brokers=1)
