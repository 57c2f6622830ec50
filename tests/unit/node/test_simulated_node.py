"""A whole node on simulated time, disk and network: the composition touches the world through the seams."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NoReturn

import pytest

from quorate.broker.controller_link.session import BrokerSession
from quorate.chaos.sim.clock import Simulation, run_simulation
from quorate.chaos.sim.disk import SimDisk
from quorate.chaos.sim.network import SimNetwork
from quorate.chaos.sim.transport import SimTransport
from quorate.client.impatient_admin import ImpatientAdmin
from quorate.core.config import HostPort, NodeConfig
from quorate.core.ids import BrokerId
from quorate.core.transport import method_of
from quorate.errors import CannotListen, NotLeaderOrFollower, Unavailable
from quorate.node.node import Node, Surroundings
from quorate.v1 import admin_pb2, broker_pb2, records_pb2

PRODUCE = method_of(
    broker_pb2.DESCRIPTOR.services_by_name["BrokerService"],
    "Produce",
    broker_pb2.ProduceRequest,
    broker_pb2.ProduceResponse,
)

CONFIG = NodeConfig(node_id=BrokerId(1), data_dir="/data", listeners=(HostPort("node", 9092),))


def _fatal(reason: str) -> NoReturn:
    raise AssertionError(reason)


class RunningNode:
    def __init__(self, node: Node) -> None:
        self.node = node
        self._stop_requested = asyncio.Event()
        self._is_ready = asyncio.Event()
        self.running = asyncio.create_task(node.run(self._stop_requested, on_ready=self._is_ready.set))

    async def ready(self) -> None:
        waiting = asyncio.create_task(self._is_ready.wait())
        await asyncio.wait([waiting, self.running], return_when=asyncio.FIRST_COMPLETED)
        if self.running.done():
            waiting.cancel()
            await self.running

    async def stop(self) -> bool:
        """As a signal does; True: the next start need not recover anything."""
        self._stop_requested.set()
        await self.running
        return await self.node.stop()


class Machine:
    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.disk = SimDisk()
        self.network = SimNetwork(simulation.loop, simulation.rng)

    async def start(self, config: NodeConfig = CONFIG) -> RunningNode:
        """Returns once it serves."""
        surroundings = Surroundings(
            clock=self.simulation.clock,
            disk=self.disk,
            transport=SimTransport(self.network, "node"),
            random_bytes=self.simulation.rng.randbytes,
            on_fatal=_fatal,
        )
        running = RunningNode(await Node.start(config, surroundings))
        await running.ready()
        return running

    def connect(self) -> ImpatientAdmin:
        simulation = self.simulation
        transport = SimTransport(self.network, "client")
        return ImpatientAdmin(transport, ["node:9092"], clock=simulation.clock, rng=simulation.rng)


def simulate(scenario: Callable[[Machine], Awaitable[object]], *, seed: int = 1) -> object:
    return run_simulation(lambda simulation: scenario(Machine(simulation)), seed=seed)


async def produce(machine: Machine, value: bytes) -> int:
    """By the call itself: nothing of a client takes part."""
    entry = broker_pb2.ProducePartition(topic="t", records=[records_pb2.Record(value=value)])
    request = broker_pb2.ProduceRequest(partitions=[entry])
    channel = SimTransport(machine.network, "client").connect("node:9092")
    while True:
        [result] = (await channel.call(PRODUCE, request, timeout_s=10.0)).partitions
        if not result.HasField("error"):
            await channel.close()
            return result.base_offset
        # A node serves a moment before it hears that it leads.
        assert result.error.code == NotLeaderOrFollower.code
        await asyncio.sleep(0.01)


def test_node_serves_stops_cleanly_and_serves_again() -> None:
    async def scenario(machine: Machine) -> None:
        for start in range(3):
            node = await machine.start()
            assert node.node.addresses == ["node:9092"]
            async with machine.connect() as connection:
                if start == 0:
                    await connection.create_topic(admin_pb2.CreateTopicRequest(name="t"))
                assert await produce(machine, b"v") == start
            assert await node.stop()
            assert machine.disk.open_paths == []

    simulate(scenario)


@pytest.mark.parametrize("is_stalled", [False, True])
def test_leaders_are_moved_soon_also_where_the_device_stalls(
    is_stalled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last number of the device witness is waited for, not for ever: meanwhile the broker leads on."""
    asked: list[tuple[float, int | None]] = []
    shut_down = BrokerSession.shut_down

    async def watched(self: BrokerSession, timeout_s: float) -> bool:
        asked.append((self._clock.monotonic(), self._device_witness()))
        return await shut_down(self, timeout_s)

    async def scenario(machine: Machine) -> None:
        node = await machine.start()
        async with machine.connect() as connection:
            await connection.create_topic(admin_pb2.CreateTopicRequest(name="t"))
            assert await produce(machine, b"v") == 0
        # The first was told when the broker began to serve.
        machine.disk.sync_delay_s = 20.0 if is_stalled else 0.2
        began = machine.simulation.clock.monotonic()
        assert await node.stop()
        [(asked_at, number)] = asked
        assert asked_at - began < 2
        assert number == (1 if is_stalled else 2)

    monkeypatch.setattr(BrokerSession, "shut_down", watched)
    simulate(scenario)


def test_log_that_no_metadata_speaks_of_is_left_alone() -> None:
    async def scenario(machine: Machine) -> None:
        disk = machine.disk
        node = await machine.start()
        async with machine.connect() as connection:
            await connection.create_topic(admin_pb2.CreateTopicRequest(name="t"))
            await produce(machine, b"v")
        await node.stop()
        [own] = [name for name in disk.list("/data") if name.startswith("t-0.")]
        stranger = f"/data/t-0.{'A' * 22}"
        disk.make_directory(stranger)
        for name in disk.list(f"/data/{own}"):
            await disk.write_file(f"{stranger}/{name}", disk.read_file(f"/data/{own}/{name}"))
        before = {name: disk.read_file(f"{stranger}/{name}") for name in disk.list(stranger)}

        node = await machine.start()
        # Beyond the delay after which something that is to go is deleted.
        await machine.simulation.clock.sleep(2 * CONFIG.file_delete_delay_ms / 1000)
        await node.stop()
        segments = [name for name in before if name.endswith(".log")]
        assert segments
        assert all(disk.read_file(f"{stranger}/{name}") == before[name] for name in segments)

    simulate(scenario)


def test_node_that_cannot_listen_lets_go_of_its_directory() -> None:
    async def scenario(machine: Machine) -> None:
        elsewhere = NodeConfig(node_id=BrokerId(1), data_dir="/data", listeners=(HostPort("other", 1),))
        with pytest.raises(CannotListen):
            await machine.start(elsewhere)
        assert machine.disk.open_paths == []
        assert await (await machine.start()).stop()

    simulate(scenario)


def test_run_ends_when_a_stop_is_asked_for() -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start()
        await machine.simulation.clock.sleep(60)
        assert not node.running.done()
        await node.stop()
        assert node.running.done()
        async with machine.connect() as connection:
            with pytest.raises(Unavailable):
                await connection.list_topics()

    simulate(scenario)


def test_same_seed_gives_the_same_history() -> None:
    async def scenario(machine: Machine) -> list[object]:
        node = await machine.start()
        async with machine.connect() as connection:
            created = await connection.create_topic(admin_pb2.CreateTopicRequest(name="t"))
            offsets = await asyncio.gather(*(produce(machine, b"%d" % number) for number in range(20)))
        await node.stop()
        return [created.topic_id, offsets, machine.disk.operation_count, machine.simulation.clock.monotonic()]

    assert simulate(scenario, seed=5) == simulate(scenario, seed=5)
    assert simulate(scenario, seed=5) != simulate(scenario, seed=6)
