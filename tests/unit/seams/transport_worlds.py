"""Two ends of a transport, over every implementation of it, for tests of what holds on all of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import uvloop

from quorate.chaos.sim.clock import Simulation, run_simulation
from quorate.chaos.sim.network import SimNetwork
from quorate.chaos.sim.transport import SimTransport
from quorate.core.transport import Channel, Server, Transport
from quorate.rpc.grpcio_transport import GrpcioOptions, GrpcioTransport
from quorate.rpc.lean.transport import LeanOptions, LeanTransport
from tests.unit.seams.echo_service import EchoServer

REQUESTS_MAX = 3
STREAMS_MAX = 2
INTERNAL_CALLS_MAX = 1


@dataclass
class World:
    """Two ends of a transport."""

    client: Transport
    server: Transport
    #: to serve at, with port 0
    address: str

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[tuple[EchoServer, Channel, Server]]:
        echo = EchoServer()
        server = await self.server.serve(self.address, [echo.service, echo.node_service])
        channel = self.client.connect(server.address)
        try:
            yield echo, channel, server
        finally:
            await channel.close()
            await server.stop(0)


Scenario: TypeAlias = Callable[[World], Awaitable[None]]
Run: TypeAlias = Callable[[Scenario], None]


_BOUNDS: Final[dict[str, Any]] = {
    "requests_max": REQUESTS_MAX,
    "streams_max": STREAMS_MAX,
    "internal_calls_max": INTERNAL_CALLS_MAX,
}


def _grpcio() -> Transport:
    return GrpcioTransport(GrpcioOptions(**_BOUNDS))


def _lean() -> Transport:
    return LeanTransport(LeanOptions(**_BOUNDS))


def on_grpcio(scenario: Scenario) -> None:
    asyncio.run(_over(scenario, _grpcio, _grpcio))


def on_grpcio_with_uvloop(scenario: Scenario) -> None:
    _with_uvloop(scenario, _grpcio, _grpcio)


def on_lean(scenario: Scenario) -> None:
    asyncio.run(_over(scenario, _lean, _lean))


def on_lean_with_uvloop(scenario: Scenario) -> None:
    _with_uvloop(scenario, _lean, _lean)


def from_grpcio_to_lean(scenario: Scenario) -> None:
    _with_uvloop(scenario, _grpcio, _lean)


def from_lean_to_grpcio(scenario: Scenario) -> None:
    _with_uvloop(scenario, _lean, _grpcio)


async def _over(scenario: Scenario, client: Callable[[], Transport], server: Callable[[], Transport]) -> None:
    await scenario(World(client(), server(), "127.0.0.1:0"))


def _with_uvloop(
    scenario: Scenario, client: Callable[[], Transport], server: Callable[[], Transport]
) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_over(scenario, client, server))


def on_sim(scenario: Scenario) -> None:
    async def main(sim: Simulation) -> None:
        network = SimNetwork(sim.loop, sim.rng)
        server = SimTransport(
            network,
            "server",
            requests_max=REQUESTS_MAX,
            streams_max=STREAMS_MAX,
            internal_calls_max=INTERNAL_CALLS_MAX,
        )
        await scenario(World(SimTransport(network, "client"), server, "server:0"))

    run_simulation(main, seed=1)


#: every pair of ends that treats an exchange in a way of its own
EXCHANGING: Final[tuple[Run, ...]] = (
    on_grpcio,
    on_lean,
    on_lean_with_uvloop,
    from_grpcio_to_lean,
    from_lean_to_grpcio,
    on_sim,
)
