"""What any tool may ask any node: which services it has, and whether it is up to serving them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health_pb2, health_pb2_grpc  # type: ignore[import-untyped]  # it has no types
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (  # type: ignore[import-untyped]  # as above
    ProtoReflectionDescriptorDatabase,
)

from quorate.node.local_cluster import LocalCluster

TIMEOUT_S = 60

OF_EVERY_NODE = {"grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection"}
OF_A_CONTROLLER = {f"quorate.v1.{name}" for name in ("AdminService", "ControllerService", "QuorumService")}
OF_A_BROKER = {
    f"quorate.v1.{name}" for name in ("AdminService", "BrokerService", "GroupService", "ReplicaService")
}


def services(address: str) -> dict[str, list[str]]:
    """Calls by service, from nothing but reflection."""
    with grpc.insecure_channel(address) as channel:
        database = ProtoReflectionDescriptorDatabase(channel)
        pool = DescriptorPool(database)
        found = {name: pool.FindServiceByName(name) for name in database.get_services()}
        return {name: [method.name for method in service.methods] for name, service in found.items()}


#: gRPC waits a second before it knocks again; a node is up sooner.
KNOCK_OFTEN = [("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 100)]


async def health(address: str) -> AsyncGenerator[str, None]:
    """The whole node's, and again whenever it changes; begins once the node listens."""
    request = health_pb2.HealthCheckRequest(service="")
    async with grpc.aio.insecure_channel(address, options=KNOCK_OFTEN) as channel:
        watch: Any = health_pb2_grpc.HealthStub(channel).Watch(
            request, timeout=TIMEOUT_S, wait_for_ready=True
        )
        async for answer in watch:
            yield health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)


async def check(address: str, service: str) -> str:
    async with grpc.aio.insecure_channel(address) as channel:
        request = health_pb2.HealthCheckRequest(service=service)
        answer = await health_pb2_grpc.HealthStub(channel).Check(request, timeout=TIMEOUT_S)
    return str(health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status))


@pytest.fixture
async def apart(tmp_path: Path) -> AsyncIterator[LocalCluster]:
    """A broker and a controller, neither of them started."""
    cluster = LocalCluster.create(str(tmp_path), brokers=1, controllers=1)
    yield cluster
    await cluster.kill(*cluster.names)


async def test_every_kind_of_node_describes_its_services(apart: LocalCluster, tmp_path: Path) -> None:
    await apart.start()
    [broker], [controller] = apart.broker_addresses, apart.controller_addresses
    of_broker, of_controller = (
        await asyncio.to_thread(services, broker),
        await asyncio.to_thread(services, controller),
    )
    assert set(of_broker) == OF_EVERY_NODE | OF_A_BROKER
    assert set(of_controller) == OF_EVERY_NODE | OF_A_CONTROLLER
    assert {"Produce", "Fetch", "GetMetadata"} <= set(of_broker["quorate.v1.BrokerService"])

    both = LocalCluster.create(str(tmp_path / "both"), brokers=1, is_combined=True)
    try:
        await both.start()
        of_both = await asyncio.to_thread(services, both.bootstrap)
    finally:
        await both.kill(*both.names)
    assert set(of_both) == OF_EVERY_NODE | OF_A_BROKER | OF_A_CONTROLLER


async def test_broker_is_not_serving_until_it_belongs_to_a_cluster(apart: LocalCluster) -> None:
    [broker], [controller] = apart.broker_addresses, apart.controller_addresses
    apart.spawn(["broker-1"])
    states = health(broker)
    async with asyncio.timeout(TIMEOUT_S):
        assert await anext(states) == "NOT_SERVING"
        assert "quorate.v1.BrokerService" in await asyncio.to_thread(services, broker)
        assert await check(broker, "quorate.v1.BrokerService") == "NOT_SERVING"

        apart.spawn([name for name in apart.names if name != "broker-1"])
        assert await anext(states) == "SERVING"
    assert await check(broker, "quorate.v1.BrokerService") == "SERVING"
    assert await check(controller, "quorate.v1.ControllerService") == "SERVING"


async def test_broker_that_stops_says_so_before_it_is_gone(apart: LocalCluster) -> None:
    await apart.start()
    states = health(apart.broker_addresses[0])
    async with asyncio.timeout(TIMEOUT_S):
        assert await anext(states) == "SERVING"
        stopping = asyncio.create_task(apart.stop(["broker-1"]))
        assert await anext(states) == "NOT_SERVING"
        await states.aclose()
        assert await stopping == []


async def test_voter_that_waits_for_the_others_is_not_serving_as_a_broker(tmp_path: Path) -> None:
    """Alone of three, a node with both roles has no quorum to join."""
    cluster = LocalCluster.create(str(tmp_path), brokers=3, is_combined=True)
    first = cluster.nodes[0]
    try:
        cluster.spawn([first.name])
        async with asyncio.timeout(TIMEOUT_S):
            assert await anext(health(first.address)) == "NOT_SERVING"
    finally:
        await cluster.kill(*cluster.names)
