"""What fake brokers of every kind share: three of them on a simulated network, and a client's seams."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NoReturn, TypeVar

from quorate.chaos.sim.clock import Simulation, run_simulation
from quorate.chaos.sim.network import SimNetwork
from quorate.chaos.sim.transport import SimTransport
from quorate.core.transport import Call, Handler, Service, methods_of
from quorate.errors import UnsupportedOperation
from quorate.v1 import broker_pb2

T = TypeVar("T")
C = TypeVar("C", bound="SimulatedBrokers")

BROKER_IDS: Final = (1, 2, 3)
BOOTSTRAP: Final = "b1:1,b2:1,b3:1"
_SERVICE: Final = broker_pb2.DESCRIPTOR.services_by_name["BrokerService"]


class SimulatedBrokers:
    """``service_of``: what the broker with that id answers."""

    def __init__(
        self, simulation: Simulation, network: SimNetwork, service_of: Callable[[int], Service]
    ) -> None:
        self.simulation = simulation
        self.network = network
        self._service_of = service_of

    async def start(self) -> None:
        for broker_id in BROKER_IDS:
            await self.start_broker(broker_id)

    async def start_broker(self, broker_id: int) -> None:
        transport = SimTransport(self.network, f"b{broker_id}")
        await transport.serve(f"b{broker_id}:1", [self._service_of(broker_id)])

    def client_seams(self) -> dict[str, Any]:
        """For the constructor of a client."""
        return {
            "transport": SimTransport(self.network, "client"),
            "clock": self.simulation.clock,
            "rng": self.simulation.rng,
        }


def service_of(handlers: Mapping[str, Handler]) -> Service:
    """A BrokerService that has these methods, and refuses all others."""
    return Service(_SERVICE, {**dict.fromkeys(methods_of(_SERVICE), _refuse), **handlers})


async def _refuse(request: Any, call: Call) -> NoReturn:
    raise UnsupportedOperation("not here")


def simulate_with(make: Callable[[Simulation], C], scenario: Callable[[C], Awaitable[T]], *, seed: int) -> T:
    async def run(simulation: Simulation) -> T:
        cluster = make(simulation)
        await cluster.start()
        return await scenario(cluster)

    return run_simulation(run, seed=seed, time_limit_s=3600)
