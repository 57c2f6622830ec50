"""Each network fault does what its name says, one direction at a time, by namespaces and by proxies."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from quorate.chaos.faults.network import CLIENTS, LocalNetwork, NetworkKind
from quorate.chaos.faults.switch.links import Links
from quorate.errors import UnsupportedOperation
from quorate.node.cluster_file import ClusterFile
from quorate.node.local_cluster import LocalCluster
from quorate.node.process_identity import ProcessIdentity

ECHO_NODE = Path(__file__).with_name("echo_node.py")
#: long enough for every answer that comes
PATIENCE_S = 30.0
#: nothing is expected in it
SILENCE_S = 0.4


class Echo:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def ask(self, order: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(order.encode() + b"\n")
        return (await self._process.stdout.readline()).decode().strip()

    async def reaches(self, address: str, *, within_s: float = PATIENCE_S) -> bool:
        return (await self.ask(f"call {address} {within_s}")).startswith("answered")

    async def round_trip_ms(self, address: str) -> float:
        return float((await self.ask(f"call {address} {PATIENCE_S}")).removeprefix("answered "))


class World:
    """Echoes in the places of nodes a, b and c, and one among the clients."""

    def __init__(self, cluster: LocalCluster, network: LocalNetwork, echoes: dict[str, Echo]) -> None:
        self.network = network
        self.echoes = echoes
        self.addresses = {node.name: node.address for node in cluster.nodes}

    async def reaches(self, source: str, target: str) -> bool:
        return await self.echoes[source].reaches(self.addresses[target])

    async def is_silent(self, source: str, target: str) -> bool:
        return not await self.echoes[source].reaches(self.addresses[target], within_s=SILENCE_S)

    async def arrived(self, name: str) -> int:
        return int(await self.echoes[name].ask("count"))


A, B, C = "node-1", "node-2", "node-3"


@asynccontextmanager
async def echo(address: str, launcher: tuple[str, ...] = ()) -> AsyncIterator[Echo]:
    process = await asyncio.create_subprocess_exec(
        *launcher,
        sys.executable,
        "-S",
        str(ECHO_NODE),
        address,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"ready\n"
    try:
        yield Echo(process)
    finally:
        process.kill()
        await process.wait()


@pytest.fixture(params=["namespaces", "proxy"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    kind: NetworkKind = request.param
    cluster = LocalCluster.create(str(tmp_path), brokers=3, is_combined=True)
    try:
        network = await LocalNetwork.open(cluster, seed=1, kind=kind)
    except UnsupportedOperation as error:
        pytest.skip(str(error))
    async with AsyncExitStack() as stack:
        stack.push_async_callback(network.close)
        echoes = {CLIENTS: await stack.enter_async_context(echo("127.0.0.1:0"))}
        for node in cluster.nodes:
            each = await stack.enter_async_context(echo(node.listens_on, node.launcher))
            echoes[node.name] = each
            remember_process(cluster, node.name, each._process.pid)
        yield World(cluster, network, echoes)


def remember_process(cluster: LocalCluster, name: str, pid: int) -> None:
    """As when the cluster itself has started it: proxies look there for who connects."""
    file = ClusterFile(cluster.directory)
    with file.locked():
        state = file.read()
        file.write(state.with_node(replace(state.node(name), process=ProcessIdentity.of(pid))))


async def test_block_is_one_way(world: World) -> None:
    assert await world.reaches(A, B)
    assert await world.reaches(B, A)
    await world.network.block(A, B)
    before = await world.arrived(B)
    assert await world.is_silent(A, B)
    assert await world.arrived(B) == before, "what A sends does not arrive"
    before = await world.arrived(A)
    assert await world.is_silent(B, A)
    assert await world.arrived(A) == before + 1, "what B sends arrives, and the answer is lost"
    assert await world.reaches(A, C)
    assert await world.reaches(CLIENTS, B)

    await world.network.heal()
    assert await world.reaches(A, B), "over the connection it had"
    assert await world.reaches(B, A)
    assert await world.arrived(B) == before + 3, "nothing that TCP has taken is lost for good"


async def test_partition_separates_its_sides_and_nobody_else(world: World) -> None:
    for source, target in ((A, B), (C, A), (CLIENTS, A), (CLIENTS, B)):
        assert await world.reaches(source, target)
    await world.network.partition([A, CLIENTS], [B])
    for source, target in ((A, B), (B, A), (CLIENTS, B)):
        assert await world.is_silent(source, target), "over connections they have, and over new ones"
    for source, target in ((A, C), (C, B), (B, C), (CLIENTS, A)):
        assert await world.reaches(source, target)
    await world.network.heal()
    assert await world.reaches(B, A)

    await world.network.isolate(C)
    for source, target in ((A, C), (C, A), (C, B), (CLIENTS, C)):
        assert await world.is_silent(source, target)
    assert await world.reaches(A, B)


async def test_delay_and_loss_slow_one_link_and_lose_nothing(world: World) -> None:
    assert await world.reaches(A, B)
    await world.network.delay(A, B, delay_ms=120, jitter_ms=20)
    assert await world.echoes[A].round_trip_ms(world.addresses[B]) >= 100
    assert await world.reaches(A, C)
    await world.network.delay(A, B, delay_ms=0)
    await world.network.loss(A, B, percent=50)
    arrived = await world.arrived(B)
    times = [await world.echoes[A].round_trip_ms(world.addresses[B]) for _ in range(8)]
    assert max(times) >= 150, "TCP has waited and sent something again"
    assert await world.arrived(B) == arrived + 8


def test_links_lose_the_share_they_are_told() -> None:
    links = Links(random.Random(1))
    links.lose("a", "b", 0.3)
    lost = sum(links.is_lost("a", "b") for _ in range(10_000))
    assert 2_700 < lost < 3_300
    assert not any(links.is_lost("b", "a") for _ in range(100))
    links.heal()
    assert not any(links.is_lost("a", "b") for _ in range(100))
