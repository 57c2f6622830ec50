"""A node whose clients take every place: what the nodes need of each other goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import pytest

from quorate.chaos.cluster import machine as machine_module
from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.sim.clock import run_simulation
from quorate.chaos.sim.transport import SimTransport
from quorate.core.transport import Channel, methods_of
from quorate.errors import Overloaded
from quorate.v1 import admin_pb2, broker_pb2

_ADMIN: Final = methods_of(admin_pb2.DESCRIPTOR.services_by_name["AdminService"])
_BROKER: Final = methods_of(broker_pb2.DESCRIPTOR.services_by_name["BrokerService"])
_TIMEOUT_S: Final = 90.0
#: longer than anything here takes
_FETCH_WAIT_MS: Final = 60_000
_LED_BY_FIRST: Final = "t"

Limit = Callable[[int], None]


@pytest.fixture
def limit_requests(monkeypatch: pytest.MonkeyPatch) -> Limit:
    """As queued.max.requests does to the transport of a real node."""

    def limit(requests_max: int) -> None:
        transport = partial(SimTransport, requests_max=requests_max)
        monkeypatch.setattr(machine_module, "SimTransport", transport)

    return limit


def simulate(scenario: Callable[[SimCluster], Awaitable[None]], *, brokers: int) -> None:
    """One controller, in the process of the first broker."""
    run_simulation(
        lambda simulation: scenario(
            SimCluster(simulation, controllers=1, brokers=brokers, is_combined=True)
        ),
        seed=1,
    )


async def create_topic(channel: Channel, name: str) -> None:
    """On the first broker."""
    assignments = [admin_pb2.ReplicaAssignment(partition=0, replicas=[1])]
    request = admin_pb2.CreateTopicRequest(name=name, assignments=assignments)
    await channel.call(_ADMIN["CreateTopic"], request, timeout_s=_TIMEOUT_S)


def test_administration_of_a_combined_node_needs_one_place(limit_requests: Limit) -> None:
    """It forwards to the controller in its own process, which is one more call to the same server."""
    limit_requests(1)

    async def scenario(cluster: SimCluster) -> None:
        await cluster.start()
        channel = cluster.client_transport().connect(cluster.machine("b1").address)
        await create_topic(channel, "t")
        described = await channel.call(
            _ADMIN["DescribeTopic"], admin_pb2.DescribeTopicRequest(name="t"), timeout_s=_TIMEOUT_S
        )
        assert described.topic.name == "t"
        await channel.close()

    simulate(scenario, brokers=1)
