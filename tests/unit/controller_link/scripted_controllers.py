"""Controllers that do what a test says, on simulated time, for the broker's end of the link."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

from google.protobuf.message import Message

from quorate.broker.controller_link.lease import Lease
from quorate.broker.controller_link.link import ControllerLink
from quorate.broker.controller_link.registration import Registered
from quorate.broker.controller_link.session import BrokerSession, SessionTiming
from quorate.chaos.sim.clock import Simulation, run_simulation
from quorate.chaos.sim.network import LinkFaults, SimNetwork
from quorate.chaos.sim.server import SimServer
from quorate.chaos.sim.transport import SimTransport
from quorate.core.ids import BrokerEpoch, BrokerId, LeaderEpoch, PartitionId, ReplicaKey, TopicId
from quorate.core.transport import Call, Method, Service, UnaryHandler, methods_of
from quorate.errors import NotController, QuorateError
from quorate.v1 import controller_pb2
from quorate.v1.controller_pb2 import BrokerSessionRequest, BrokerSessionResponse

T = TypeVar("T")

CONTROLLER: Final = methods_of(controller_pb2.DESCRIPTOR.services_by_name["ControllerService"])
REGISTERED: Final = Registered(BrokerId(7), BrokerEpoch(70), "cluster")
LEASE_S: Final = 2.0
INTERVAL_S: Final = 0.25
#: up to where the broker has applied the metadata
METADATA_OFFSET: Final = 70
#: in which replicas are found damaged
EPOCH: Final = LeaderEpoch(5)
#: what the broker has found in its cache witness
WITNESS_BEFORE: Final = 40
#: what is on its device
DEVICE_WITNESS: Final = 3

#: what a controller does with a call: answer, refuse, or not answer at all
Reaction = Message | QuorateError | None


class ScriptedController:
    """Reacts to unary calls by ``reactions`` in turn, the last one for ever; to heartbeats by ``answer``."""

    def __init__(self, world: ScriptedWorld, number: int) -> None:
        self._world = world
        self.name = f"c{number}"
        self.address = f"{self.name}:9093"
        self.reactions: list[Reaction] = [NotController("another one is")]
        self.calls: list[tuple[str, Any]] = []
        self.heartbeats: list[BrokerSessionRequest] = []
        #: when each of them came
        self.heard_at: list[float] = []
        self.answer: Callable[[BrokerSessionRequest], BrokerSessionResponse | None] = unfenced
        #: raised in place of answering the next heartbeat
        self.refusal: QuorateError | None = None
        self.streams = 0
        self._server: SimServer | None = None

    async def start(self) -> None:
        transport = SimTransport(self._world.network, self.name)
        handlers: dict[str, Any] = {name: self._unary(method) for name, method in CONTROLLER.items()}
        handlers["BrokerSession"] = self._session
        service = Service(controller_pb2.DESCRIPTOR.services_by_name["ControllerService"], handlers)
        self._server = await transport.serve(self.address, [service])

    def kill(self) -> None:
        """As kill -9."""
        assert self._server is not None
        self._server.kill()
        self._world.network.break_all_connections(self.name)

    def _unary(self, method: Method[Any, Any]) -> UnaryHandler[Any, Any]:
        async def handle(request: Message, _call: Call) -> Message:
            self.calls.append((method.name, request))
            reaction = self.reactions.pop(0) if len(self.reactions) > 1 else self.reactions[0]
            if isinstance(reaction, QuorateError):
                raise reaction
            if reaction is None:
                await asyncio.Event().wait()
            assert isinstance(reaction, Message)
            return reaction

        return handle

    async def _session(
        self, requests: AsyncIterator[BrokerSessionRequest], _call: Call
    ) -> AsyncGenerator[BrokerSessionResponse, None]:
        self.streams += 1
        async for request in requests:
            self.heartbeats.append(request)
            self.heard_at.append(self._world.now)
            if self.refusal is not None:
                raise self.refusal
            answer = self.answer(request)
            if answer is not None:
                yield answer


def unfenced(request: BrokerSessionRequest) -> BrokerSessionResponse:
    return BrokerSessionResponse(sequence=request.sequence, session_timeout_ms=3_000)


def fenced(request: BrokerSessionRequest) -> BrokerSessionResponse:
    return BrokerSessionResponse(sequence=request.sequence, session_timeout_ms=3_000, is_fenced=True)


def with_metadata(offset: int) -> Callable[[BrokerSessionRequest], BrokerSessionResponse]:
    """As a controller that has decided on metadata up to there."""

    def answer(request: BrokerSessionRequest) -> BrokerSessionResponse:
        response = unfenced(request)
        response.metadata_offset = offset
        return response

    return answer


def silent(_request: BrokerSessionRequest) -> None:
    return None


class ScriptedWorld:
    def __init__(self, simulation: Simulation, controllers: int) -> None:
        self.simulation = simulation
        self.clock = simulation.clock
        # A frame takes a millisecond each way, so that tests can speak about moments.
        self.network = SimNetwork(simulation.loop, simulation.rng, faults=LinkFaults(delay_s=(0.001, 0.001)))
        self.controllers = [ScriptedController(self, number) for number in range(1, controllers + 1)]
        self.transport = SimTransport(self.network, "b7")
        self.link = self.link_to(each.address for each in self.controllers[:1])
        self.lease = Lease(self.clock, duration_s=LEASE_S)
        self._witness = itertools.count(WITNESS_BEFORE + 1)
        #: replicas of the broker that were damaged once
        self.repaired: set[ReplicaKey] = set()
        self.session = self.session_over(self.link)
        self._running: asyncio.Task[None] | None = None

    @property
    def now(self) -> float:
        return self.clock.monotonic()

    def link_to(self, addresses: Any) -> ControllerLink:
        return ControllerLink(self.transport, list(addresses), clock=self.clock, rng=self.simulation.rng)

    def session_over(self, link: ControllerLink) -> BrokerSession:
        return BrokerSession(
            link,
            REGISTERED,
            self.lease,
            timing=SessionTiming(heartbeat_interval_s=INTERVAL_S, silence_s_max=LEASE_S),
            clock=self.clock,
            metadata_offset=lambda: METADATA_OFFSET,
            advance_cache_witness=lambda: next(self._witness),
            device_witness=lambda: DEVICE_WITNESS,
            is_unusable=lambda key: key not in self.repaired,
        )

    def run_session(self, session: BrokerSession | None = None) -> asyncio.Task[None]:
        self._running = asyncio.create_task((session or self.session).run(), name="session")
        return self._running

    async def close(self) -> None:
        await self.link.close()
        if self._running is not None and not self._running.done():
            self._running.cancel()
            await asyncio.wait([self._running])

    async def until(self, condition: Callable[[], bool], *, within_s: float = 10.0) -> None:
        ends_at = self.now + within_s
        while not condition():
            assert self.now < ends_at, "it has not come true in time"
            await self.clock.sleep(0.001)


def run_scripted(scenario: Callable[[ScriptedWorld], Awaitable[T]], *, controllers: int = 1) -> T:
    async def main(simulation: Simulation) -> T:
        world = ScriptedWorld(simulation, controllers)
        for controller in world.controllers:
            await controller.start()
        try:
            return await scenario(world)
        finally:
            await world.close()

    return run_simulation(main, seed=1, time_limit_s=600.0)


def replica(partition: int) -> ReplicaKey:
    return ReplicaKey(TopicId("topic"), PartitionId(partition))


def partitions_of(heartbeats: Sequence[BrokerSessionRequest]) -> list[list[int]]:
    """The damaged replicas that each of them named."""
    return [[each.partition for each in heartbeat.damaged] for heartbeat in heartbeats]
