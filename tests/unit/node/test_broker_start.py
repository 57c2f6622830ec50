"""What a broker takes for true while it starts (rule 36), and which topic a request means (rule 43)."""

from __future__ import annotations

import asyncio
from typing import Any, Final, NoReturn

import pytest

from quorate.broker import broker as broker_module
from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.sim.clock import Simulation, run_simulation
from quorate.core.transport import method_of
from quorate.metadata.changes import changes_between
from quorate.metadata.follower import MetadataFollower
from quorate.metadata.image import EMPTY_IMAGE, MetadataImage
from quorate.v1 import admin_pb2, broker_pb2

_LIST: Final = method_of(
    broker_pb2.DESCRIPTOR.services_by_name["BrokerService"],
    "ListOffsets",
    broker_pb2.ListOffsetsRequest,
    broker_pb2.ListOffsetsResponse,
)


def one_node(simulation: Simulation) -> SimCluster:
    return SimCluster(simulation, controllers=1, brokers=1, is_combined=True)


async def create_topic(cluster: SimCluster) -> str:
    async with cluster.connect() as connection:
        topic = await connection.create_topic(admin_pb2.CreateTopicRequest(name="t"))
    machine = cluster.machine("b1")
    await cluster.until(
        lambda: bool(machine.node and machine.node.broker and machine.node.broker.replicas.led())
    )
    return topic.topic_id


def test_metadata_from_before_its_own_registration_gives_a_broker_no_part_to_play(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It says that the process before this one leads, in an epoch that is over."""
    seen: list[MetadataImage] = []
    led_early: list[int] = []

    async def main(simulation: Simulation) -> None:
        cluster = one_node(simulation)

        class Follower(MetadataFollower):
            def __init__(self, *arguments: Any, on_image: Any, **options: Any) -> None:
                super().__init__(*arguments, on_image=on_image, **options)
                self._tell = on_image

            async def run(self) -> NoReturn:
                if seen:
                    self._tell(seen[0], changes_between(EMPTY_IMAGE, seen[0]))
                    await asyncio.sleep(0.1)
                    node = cluster.machine("b1").node
                    assert node is not None
                    assert node.broker is not None
                    led_early.append(len(list(node.broker.replicas.led())))
                await super().run()

        monkeypatch.setattr(broker_module, "MetadataFollower", Follower)
        await cluster.start()
        await create_topic(cluster)
        machine = cluster.machine("b1")
        assert machine.node is not None
        assert machine.node.controller is not None
        seen.append(machine.node.controller.image)
        machine.kill()
        machine.start()
        await machine.ready()

    run_simulation(main, seed=1)
    assert led_early == [0]


def test_name_and_id_of_a_topic_have_to_agree() -> None:
    """A client that kept the id of a topic must not be served another one of the same name, nor by its id."""

    async def main(simulation: Simulation) -> None:
        cluster = one_node(simulation)
        await cluster.start()
        topic_id = await create_topic(cluster)
        channel = cluster.client_transport().connect(cluster.machine("b1").address)

        async def code_for(name: str, asked_id: str) -> str:
            entry = broker_pb2.ListOffsetsPartition(topic=name, topic_id=asked_id)
            request = broker_pb2.ListOffsetsRequest(partitions=[entry])
            [result] = (await channel.call(_LIST, request, timeout_s=10)).partitions
            return result.error.code

        assert await code_for("t", topic_id) == ""
        assert await code_for("", topic_id) == ""
        assert await code_for("another", topic_id) == "UNKNOWN_TOPIC_OR_PARTITION"
        assert await code_for("t", "x" * 22) == "UNKNOWN_TOPIC_OR_PARTITION"
        assert await code_for("", "") == "INVALID_REQUEST"
        await channel.close()

    run_simulation(main, seed=1)
