"""A simulated cluster: machines on one network, each with a real node."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from quorate.chaos.cluster.machine import SimMachine
from quorate.chaos.sim.clock import SimClock, Simulation
from quorate.chaos.sim.network import SimNetwork
from quorate.chaos.sim.transport import SimTransport
from quorate.client.admin import AsyncAdmin
from quorate.client.consumer.async_consumer import AsyncConsumer
from quorate.client.impatient_admin import ImpatientAdmin
from quorate.client.producer.async_producer import AsyncProducer
from quorate.core.config import HostPort, NodeConfig, NodeRole, VoterAddress
from quorate.core.ids import BrokerId

__all__ = ["SimCluster"]

_PORT: Final = 9092
_FIRST_CONTROLLER_ID: Final = 101
_POLL_S: Final = 0.01


class SimCluster:
    """``settings``: of every node, by attribute of NodeConfig."""

    def __init__(
        self,
        simulation: Simulation,
        *,
        controllers: int = 3,
        brokers: int = 3,
        is_combined: bool = False,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.simulation = simulation
        self.network = SimNetwork(simulation.loop, simulation.rng)
        self.clock = SimClock(simulation.loop)
        broker_names = {number: f"b{number}" for number in range(1, brokers + 1)}
        if is_combined:
            voters = {number: broker_names[number] for number in range(1, min(brokers, controllers) + 1)}
        else:
            first = _FIRST_CONTROLLER_ID
            voters = {number: f"c{number}" for number in range(first, first + controllers)}
        self._voters = tuple(VoterAddress(number, HostPort(name, _PORT)) for number, name in voters.items())
        names = broker_names | voters
        #: how often a process of any machine began or ended, or a disk was harmed: whoever looks on compares
        #: one number instead of all machines
        self.changes_of_machines = 0
        self.machines = {
            name: SimMachine(
                simulation,
                self.network,
                name,
                self._config(number, name, settings or {}),
                on_change=self._machine_changed,
            )
            for number, name in names.items()
        }
        #: names of their machines
        self.clients: list[str] = []

    def _config(self, number: int, name: str, settings: Mapping[str, Any]) -> NodeConfig:
        is_voter = any(voter.node_id == number for voter in self._voters)
        roles = [NodeRole.CONTROLLER] if is_voter else []
        if number < _FIRST_CONTROLLER_ID:
            roles.append(NodeRole.BROKER)
        config = NodeConfig(
            node_id=BrokerId(number),
            data_dir="/data",
            node_roles=tuple(roles),
            listeners=(HostPort(name, _PORT),),
            controller_voters=self._voters,
        )
        return replace(config, **settings)

    def _machine_changed(self) -> None:
        self.changes_of_machines += 1

    # -- who is there

    def machine(self, name: str) -> SimMachine:
        return self.machines[name]

    @property
    def brokers(self) -> list[SimMachine]:
        return [each for each in self.machines.values() if each.config.is_broker]

    @property
    def controllers(self) -> list[SimMachine]:
        return [each for each in self.machines.values() if each.config.is_controller]

    @property
    def bootstrap(self) -> list[str]:
        return [each.address for each in self.brokers]

    def broker(self, broker_id: int) -> SimMachine:
        return next(each for each in self.brokers if each.config.node_id == broker_id)

    # -- what happens

    async def start(self) -> None:
        """Returns once every node is ready."""
        for machine in self.machines.values():
            machine.start()
        await self.until(lambda: all(each.is_ready for each in self.machines.values()), within_s=60.0)

    async def until(self, condition: Callable[[], bool], *, within_s: float = 30.0) -> float:
        """How long it took, in virtual seconds; AssertionError if it has not come true by then."""
        loop = self.simulation.loop
        began = loop.time()
        while not condition():
            for machine in self.machines.values():
                assert machine.failure is None, (machine.name, machine.failure)
            assert loop.time() < began + within_s, f"not so after {within_s} s"
            await asyncio.sleep(_POLL_S)
        return loop.time() - began

    # -- clients

    def client_transport(self) -> SimTransport:
        """Of a machine of its own."""
        self.clients.append(f"client{len(self.clients) + 1}")
        return SimTransport(self.network, self.clients[-1])

    def client_rng(self) -> random.Random:
        return random.Random(self.simulation.rng.getrandbits(64))

    def connect(self) -> ImpatientAdmin:
        return ImpatientAdmin(
            self.client_transport(), self.bootstrap, clock=self.clock, rng=self.simulation.rng
        )

    def admin(
        self,
        *,
        transport: SimTransport | None = None,
        rng: random.Random | None = None,
        bootstrap: Sequence[str] = (),
    ) -> AsyncAdmin:
        """``transport``: of the machine that it runs on; none: of a machine of its own."""
        return AsyncAdmin(bootstrap or self.bootstrap, **self._seams(transport, rng))

    def producer(self, *, transport: SimTransport | None = None, **options: Any) -> AsyncProducer:
        """``options``: of ``AsyncProducer``."""
        return AsyncProducer(self.bootstrap, **self._seams(transport), **options)

    def consumer(self, *, transport: SimTransport | None = None, **options: Any) -> AsyncConsumer:
        """``options``: of ``AsyncConsumer``."""
        return AsyncConsumer(self.bootstrap, **self._seams(transport), **options)

    def _seams(
        self, transport: SimTransport | None = None, rng: random.Random | None = None
    ) -> dict[str, Any]:
        return {
            "transport": self.client_transport() if transport is None else transport,
            "clock": self.clock,
            "rng": self.client_rng() if rng is None else rng,
        }
