"""Real controllers on simulated time, disks and network; brokers that only register and send heartbeats."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, NoReturn, TypeVar

from google.protobuf.message import Message

from quorate.chaos.sim.clock import SimClock, Simulation, run_simulation
from quorate.chaos.sim.disk import SimDisk
from quorate.chaos.sim.network import SimNetwork
from quorate.chaos.sim.server import SimServer
from quorate.chaos.sim.transport import SimTransport
from quorate.controller.controller import Controller
from quorate.controller.departures import PARTITION_CHANGES_PER_BATCH_MAX
from quorate.core.config import HostPort, NodeConfig, NodeRole, VoterAddress
from quorate.core.ids import BrokerId
from quorate.core.transport import Channel, method_of, methods_of
from quorate.errors import QuorateError
from quorate.metadata.image import MetadataImage
from quorate.v1 import admin_pb2, controller_pb2

T = TypeVar("T")

PORT: Final = 9093
_ADMIN: Final = methods_of(admin_pb2.DESCRIPTOR.services_by_name["AdminService"])
_CONTROLLER: Final = controller_pb2.DESCRIPTOR.services_by_name["ControllerService"]
_REGISTER: Final = method_of(
    _CONTROLLER, "RegisterBroker", controller_pb2.RegisterBrokerRequest, controller_pb2.RegisterBrokerResponse
)
_SESSION: Final = method_of(
    _CONTROLLER, "BrokerSession", controller_pb2.BrokerSessionRequest, controller_pb2.BrokerSessionResponse
)
_FOLLOW: Final = method_of(
    _CONTROLLER, "FollowMetadata", controller_pb2.FollowMetadataRequest, controller_pb2.FollowMetadataResponse
)


class Fatal(Exception):
    """Where a real process would have ended."""


class SimController:
    """One machine: its disk outlives its processes."""

    def __init__(self, world: World, node_id: int) -> None:
        self._world = world
        self.node_id = node_id
        self.name = f"c{node_id}"
        self.address = f"{self.name}:{PORT}"
        self.disk = SimDisk(sync_delay_s=0.002)
        self.controller: Controller | None = None
        self._server: SimServer | None = None
        self._running: asyncio.Task[None] | None = None

    @property
    def is_active(self) -> bool:
        return self.controller is not None and self.controller.is_active

    @property
    def term(self) -> int:
        assert self.controller is not None
        return self.controller.term

    @property
    def image(self) -> MetadataImage:
        """Committed."""
        assert self.controller is not None
        return self.controller.image

    async def start(self) -> None:
        world = self._world
        transport = SimTransport(world.network, self.name)
        self.controller = await Controller.open(
            world.config(self.node_id),
            clock=SimClock(world.simulation.loop),
            disk=self.disk,
            transport=transport,
            random_bytes=world.simulation.rng.randbytes,
            on_fatal=_die,
            partition_changes_per_batch_max=world.changes_max,
        )
        self._server = await transport.serve(self.address, self.controller.services())
        self._running = asyncio.create_task(self.controller.run(), name=f"run-{self.name}")

    async def kill(self) -> None:
        assert self._server is not None
        assert self._running is not None
        self.disk.crash()
        self.controller = None
        self._server.kill()
        self._world.network.break_all_connections(self.name)
        self._running.cancel()
        await asyncio.wait([self._running])


class FakeBroker:
    """Registers, sends heartbeats, applies nothing: what a controller sees of a broker."""

    def __init__(self, world: World, broker_id: int, *, rack: str = "") -> None:
        self._world = world
        self.broker_id = BrokerId(broker_id)
        self.name = f"b{broker_id}"
        self.address = f"{self.name}:9092"
        self.rack = rack
        self.directory_id = f"directory-of-{broker_id}"
        self.broker_epoch = -1
        self.previous_run: controller_pb2.PreviousRun | None = None
        self.is_fenced = True
        self.wants_shutdown = False
        self.may_shut_down = False
        self._starts = 0
        self._sequence = 0
        self._server: SimServer | None = None
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Returns once it is unfenced."""
        self._starts += 1
        self._sequence = 0
        self.is_fenced = True
        transport = SimTransport(self._world.network, self.name)
        self._server = await transport.serve(self.address, [])
        self._running = asyncio.create_task(self._run(transport), name=f"run-{self.name}")
        await self._world.until(lambda: not self.is_fenced)

    async def kill(self) -> None:
        """As kill -9: the address refuses from now on."""
        await self._end()
        self._world.network.break_all_connections(self.name)

    def hang(self) -> None:
        """As SIGSTOP: connections stay and nothing is said any more."""
        assert self._running is not None
        self._running.cancel()

    async def _end(self) -> None:
        assert self._server is not None
        assert self._running is not None
        self._server.kill()
        self._running.cancel()
        await asyncio.wait([self._running])
        self.previous_run = controller_pb2.PreviousRun(
            broker_epoch=self.broker_epoch, is_same_boot=True, is_intact=True
        )

    async def _run(self, transport: SimTransport) -> None:
        is_registered = False
        while True:
            active = await self._world.active_controller()
            channel = transport.connect(active.address)
            with suppress(QuorateError):
                if not is_registered:
                    await self._register(channel)
                    is_registered = True
                await self._keep_session(channel)
            await channel.close()
            await asyncio.sleep(0.05)

    async def _register(self, channel: Channel) -> None:
        request = controller_pb2.RegisterBrokerRequest(
            broker_id=self.broker_id,
            incarnation_id=f"{self.name}-{self._starts}",
            directory_id=self.directory_id,
            address=self.address,
            rack=self.rack,
            feature_level_min=1,
            feature_level_max=1,
            previous_run=self.previous_run,
            expected_broker_epoch=max(self.broker_epoch, 0),
        )
        self.broker_epoch = (await channel.call(_REGISTER, request, timeout_s=5)).broker_epoch

    async def _keep_session(self, channel: Channel) -> None:
        async def heartbeats() -> AsyncIterator[controller_pb2.BrokerSessionRequest]:
            while True:
                self._sequence += 1
                yield controller_pb2.BrokerSessionRequest(
                    broker_id=self.broker_id,
                    broker_epoch=self.broker_epoch,
                    metadata_offset=max(each.image.offset for each in self._world.running),
                    wants_unfence=True,
                    wants_shutdown=self.wants_shutdown,
                    sequence=self._sequence,
                )
                await asyncio.sleep(0.25)

        async for answer in channel.stream(_SESSION, heartbeats(), timeout_s=None):
            assert not answer.HasField("error"), answer.error
            self.is_fenced = answer.is_fenced
            self.may_shut_down = answer.may_shut_down


class World:
    def __init__(self, simulation: Simulation, controllers: int, changes_max: int) -> None:
        self.simulation = simulation
        self.changes_max = changes_max
        self.network = SimNetwork(simulation.loop, simulation.rng)
        self.controllers = [SimController(self, number) for number in range(1, controllers + 1)]
        self._clients = 0

    def config(self, node_id: int) -> NodeConfig:
        return NodeConfig(
            node_id=BrokerId(node_id),
            data_dir="/data",
            node_roles=(NodeRole.CONTROLLER,),
            listeners=(HostPort(f"c{node_id}", PORT),),
            controller_voters=tuple(
                VoterAddress(each.node_id, HostPort(each.name, PORT)) for each in self.controllers
            ),
            leader_imbalance_check_interval_ms=5_000,
        )

    @property
    def running(self) -> list[SimController]:
        return [each for each in self.controllers if each.controller is not None]

    async def start(self) -> None:
        await asyncio.gather(*(each.start() for each in self.controllers))
        await self.active_controller()

    async def active_controller(self) -> SimController:
        await self.until(lambda: any(each.is_active for each in self.running))
        return next(each for each in self.running if each.is_active)

    async def until(self, condition: Callable[[], bool], *, within_s: float = 30.0) -> float:
        """How long it took, in virtual seconds."""
        began = self.simulation.loop.time()
        while not condition():
            assert self.simulation.loop.time() < began + within_s, "it has not come true in time"
            await asyncio.sleep(0.01)
        return self.simulation.loop.time() - began

    async def call(self, method: str, request: Message, *, through: SimController | None = None) -> Any:
        """A call of AdminService, to any controller."""
        self._clients += 1
        transport = SimTransport(self.network, f"client{self._clients}")
        channel = transport.connect((through or self.running[0]).address)
        try:
            return await channel.call(_ADMIN[method], request, timeout_s=20)
        finally:
            await channel.close()

    async def follow(
        self, through: SimController, from_offset: int
    ) -> AsyncIterator[controller_pb2.FollowMetadataResponse]:
        self._clients += 1
        channel = SimTransport(self.network, f"client{self._clients}").connect(through.address)

        async def requests() -> AsyncIterator[controller_pb2.FollowMetadataRequest]:
            yield controller_pb2.FollowMetadataRequest(from_offset=from_offset, broker_id=-1)

        async for response in channel.stream(_FOLLOW, requests(), timeout_s=None):
            yield response


def _die(reason: str) -> NoReturn:
    raise Fatal(reason)


def run_world(
    scenario: Callable[[World], Awaitable[T]],
    *,
    seed: int = 1,
    controllers: int = 3,
    changes_max: int = PARTITION_CHANGES_PER_BATCH_MAX,
) -> T:
    async def main(simulation: Simulation) -> T:
        world = World(simulation, controllers, changes_max)
        await world.start()
        return await scenario(world)

    return run_simulation(main, seed=seed, time_limit_s=600.0)
