"""The streams to the other voters: ordered, bounded, dropped on a break, and soon there again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable

from quorate.chaos.sim.clock import Simulation, run_simulation
from quorate.chaos.sim.network import SimNetwork
from quorate.chaos.sim.server import SimServer
from quorate.chaos.sim.transport import SimTransport
from quorate.core.transport import Call, Service
from quorate.metadata.raft.entries import Entry, EntryKind, Index, Snapshot, SnapshotId, Term
from quorate.metadata.raft.messages import AppendRequest, Envelope, Message, SnapshotRequest, TimeoutNow
from quorate.metadata.raft.outbox import Outbox
from quorate.metadata.raft.peers import Peers, Sender
from quorate.metadata.raft.voters import DirectoryId, NodeId, Voter, VoterKey, Voters
from quorate.metadata.raft.wire import envelope_from_proto
from quorate.v1 import quorum_pb2

A = VoterKey(NodeId(1), DirectoryId("a" * 22))
B = VoterKey(NodeId(2), DirectoryId("b" * 22))
VOTERS = Voters((Voter(A, "a:1"), Voter(B, "b:1")))


class Receiver:
    """Node b: notes what it is sent."""

    def __init__(self, network: SimNetwork) -> None:
        self._transport = SimTransport(network, "b")
        self.greetings: list[str] = []
        self.terms: list[int] = []
        self.may_take_snapshot = asyncio.Event()
        self.snapshot_bytes = 0
        self._server: SimServer | None = None

    async def start(self) -> None:
        service = Service(
            quorum_pb2.DESCRIPTOR.services_by_name["QuorumService"],
            {"Exchange": self._exchange, "TransferSnapshot": self._transfer, "Identify": self._identify},
        )
        self._server = await self._transport.serve("b:1", [service])

    def die(self, network: SimNetwork) -> None:
        assert self._server is not None
        self._server.kill()
        network.break_all_connections("b")

    async def _exchange(
        self, requests: AsyncIterator[quorum_pb2.ExchangeRequest], _: Call
    ) -> AsyncGenerator[quorum_pb2.ExchangeResponse, None]:
        yield quorum_pb2.ExchangeResponse()
        async for request in requests:
            envelope = envelope_from_proto(request)
            if envelope is None:
                self.greetings.append(request.sender_address)
            else:
                self.terms.append(envelope.message.term)

    async def _transfer(
        self, requests: AsyncIterator[quorum_pb2.TransferSnapshotRequest], _: Call
    ) -> AsyncGenerator[quorum_pb2.TransferSnapshotResponse, None]:
        await self.may_take_snapshot.wait()
        async for request in requests:
            self.snapshot_bytes += len(request.data)
        yield quorum_pb2.TransferSnapshotResponse()

    async def _identify(self, _: quorum_pb2.IdentifyRequest, __: Call) -> quorum_pb2.IdentifyResponse:
        return quorum_pb2.IdentifyResponse()


class World:
    def __init__(self, simulation: Simulation) -> None:
        self.network = SimNetwork(simulation.loop, simulation.rng)
        self.clock = simulation.clock
        self.receiver = Receiver(self.network)
        self.gone: list[VoterKey] = []
        transport = SimTransport(self.network, "a")
        self.peers = Peers(transport, simulation.clock, Sender(A, 1, "a:1"), redial_s_max=0.1)
        self._running = asyncio.create_task(self.peers.run(on_gone=self.gone.append))

    def send(self, message: Message) -> None:
        self.peers.send(Envelope(A, B, 1, message))

    async def wait(self, seconds: float = 0.5) -> None:
        await self.clock.sleep(seconds)

    async def end(self) -> None:
        self._running.cancel()
        await asyncio.wait([self._running])


def simulate(scenario: Callable[[World], Awaitable[None]]) -> None:
    async def run(simulation: Simulation) -> None:
        world = World(simulation)
        await scenario(world)
        await world.end()

    run_simulation(run, seed=1)


def test_voters_are_connected_before_there_is_anything_to_say() -> None:
    async def scenario(world: World) -> None:
        await world.receiver.start()
        world.peers.voters_changed(VOTERS)
        await world.wait()
        assert world.receiver.greetings == ["a:1"]

    simulate(scenario)


def test_messages_arrive_in_order() -> None:
    async def scenario(world: World) -> None:
        await world.receiver.start()
        world.peers.voters_changed(VOTERS)
        await world.wait()
        for term in range(100):
            world.send(TimeoutNow(Term(term)))
        await world.wait()
        assert world.receiver.terms == list(range(100))

    simulate(scenario)


def test_what_waits_when_the_connection_breaks_is_dropped() -> None:
    async def scenario(world: World) -> None:
        await world.receiver.start()
        world.peers.voters_changed(VOTERS)
        await world.wait()
        world.network.block("a", "b")
        for term in range(50):
            world.send(TimeoutNow(Term(term)))
        await world.wait(0.1)
        world.network.break_connections("a", "b")
        world.network.heal()
        await world.wait()
        assert len(world.receiver.greetings) == 2
        assert world.receiver.terms == []
        world.send(TimeoutNow(Term(99)))
        await world.wait()
        assert world.receiver.terms == [99]

    simulate(scenario)


def test_what_is_sent_while_nobody_is_there_is_dropped() -> None:
    async def scenario(world: World) -> None:
        world.peers.voters_changed(VOTERS)
        for term in range(10):
            world.send(TimeoutNow(Term(term)))
            await world.wait()
        await world.receiver.start()
        await world.wait()
        world.send(TimeoutNow(Term(99)))
        await world.wait()
        assert world.receiver.terms == [99]

    simulate(scenario)


def test_peer_that_has_started_again_is_dialled_at_once() -> None:
    async def scenario(world: World) -> None:
        await world.receiver.start()
        world.peers.voters_changed(VOTERS)
        await world.wait()
        world.peers.greeted_by(Sender(B, 1, "b:1"))
        # Its machine restarts, and the old connection never hears of it.
        world.peers.greeted_by(Sender(B, 2, "b:1"))
        await world.wait(0.005)
        assert len(world.receiver.greetings) == 2
        world.peers.greeted_by(Sender(B, 2, "b:1"))
        await world.wait()
        assert len(world.receiver.greetings) == 2

    simulate(scenario)


def test_dead_peer_is_dialled_again_and_again() -> None:
    async def scenario(world: World) -> None:
        await world.receiver.start()
        world.peers.voters_changed(VOTERS)
        await world.wait()
        for starts in range(2, 5):
            world.receiver.die(world.network)
            await world.wait(30)
            await world.receiver.start()
            await world.wait(0.11)
            assert len(world.receiver.greetings) == starts

    simulate(scenario)


def test_stranger_is_reached_once_its_address_is_known_and_forgotten_when_voters_change() -> None:
    async def scenario(world: World) -> None:
        await world.receiver.start()
        world.send(TimeoutNow(Term(1)))
        await world.wait()
        world.peers.greeted_by(Sender(B, 1, "b:1"))
        world.send(TimeoutNow(Term(2)))
        await world.wait()
        assert world.receiver.terms == [2]
        world.peers.voters_changed(VOTERS.without(B))
        await world.wait()
        world.send(TimeoutNow(Term(3)))
        await world.wait()
        assert world.receiver.terms == [2, 3]
        assert len(world.receiver.greetings) == 2

    simulate(scenario)


def test_addresses_of_strangers_are_bounded() -> None:
    async def scenario(world: World) -> None:
        keys = [VoterKey(NodeId(number), DirectoryId("x" * 22)) for number in range(10, 100)]
        for key in keys:
            world.peers.greeted_by(Sender(key, 1, f"{key.node_id}:1"))
        assert [key for key in keys if world.peers.address_of(key)] == keys[-16:]

    simulate(scenario)


def test_snapshot_travels_beside_the_messages() -> None:
    async def scenario(world: World) -> None:
        await world.receiver.start()
        world.peers.voters_changed(VOTERS)
        await world.wait()
        snapshot = Snapshot(SnapshotId(Index(5), Term(1)), VOTERS, b"x" * 10_000_000)
        world.send(SnapshotRequest(Term(1), snapshot, 1))
        world.send(SnapshotRequest(Term(1), snapshot, 2))
        await world.wait()
        world.send(TimeoutNow(Term(1)))
        await world.wait()
        assert world.receiver.terms == [1]
        assert world.receiver.snapshot_bytes == 0
        world.receiver.may_take_snapshot.set()
        await world.wait()
        assert world.receiver.snapshot_bytes == len(snapshot.data)

    simulate(scenario)


# --- the queue ------------------------------------------------------------------------------------


def append(round_: int, commit_index: int, *data: bytes) -> Envelope:
    entries = tuple(
        Entry(Index(1 + number), Term(1), EntryKind.COMMAND, each) for number, each in enumerate(data)
    )
    return Envelope(A, B, 1, AppendRequest(Term(1), Index(0), Term(0), entries, Index(commit_index), round_))


async def take_all(outbox: Outbox) -> list[AppendRequest]:
    taken = []
    try:
        while True:
            async with asyncio.timeout(0.001):
                request = await anext(outbox)
            envelope = envelope_from_proto(request)
            if envelope is not None:
                assert isinstance(envelope.message, AppendRequest)
                taken.append(envelope.message)
    except TimeoutError:
        return taken


def on_outbox(scenario: Callable[[Outbox], Awaitable[None]]) -> None:
    async def run(simulation: Simulation) -> None:
        await scenario(Outbox(quorum_pb2.ExchangeRequest(), simulation.clock))

    run_simulation(run, seed=1)


def test_queue_is_bounded_in_number() -> None:
    async def scenario(outbox: Outbox) -> None:
        for round_ in range(2_000):
            outbox.put(append(round_, 0))
        assert len(await take_all(outbox)) == 1_000

    on_outbox(scenario)


def test_queue_is_bounded_in_bytes() -> None:
    async def scenario(outbox: Outbox) -> None:
        for round_ in range(20):
            outbox.put(append(round_, 0, b"x" * (10 << 20)))
        assert len(await take_all(outbox)) == 6
        outbox.put(append(99, 0, b"x" * (10 << 20)))
        assert len(await take_all(outbox)) == 1

    on_outbox(scenario)


def test_news_of_a_commit_waits_a_moment_and_goes_with_the_next_request() -> None:
    async def scenario(outbox: Outbox) -> None:
        outbox.put(append(1, 1, b"x"))
        outbox.put(append(1, 2))
        assert [request.commit_index for request in await take_all(outbox)] == [1]
        outbox.put(append(1, 3, b"y"))
        await asyncio.sleep(1)
        assert [request.commit_index for request in await take_all(outbox)] == [3]

    on_outbox(scenario)


def test_news_of_a_commit_goes_alone_where_nothing_else_is_sent() -> None:
    async def scenario(outbox: Outbox) -> None:
        outbox.put(append(1, 1, b"x"))
        outbox.put(append(1, 2))
        outbox.put(append(1, 3))
        await asyncio.sleep(0.01)
        assert [request.commit_index for request in await take_all(outbox)] == [1, 3]

    on_outbox(scenario)


def test_heartbeat_does_not_wait() -> None:
    async def scenario(outbox: Outbox) -> None:
        outbox.put(append(1, 1))
        outbox.put(append(2, 1))
        assert [request.round for request in await take_all(outbox)] == [1, 2]

    on_outbox(scenario)


def test_a_peer_whose_process_ended_is_reported_gone_once() -> None:
    async def scenario(world: World) -> None:
        await world.receiver.start()
        world.peers.voters_changed(VOTERS)
        await world.wait()
        world.network.node_died("b")
        await world.wait(0.1)
        assert world.gone == [B]
        await world.wait(5.0)
        assert world.gone == [B]

    simulate(scenario)


def test_a_peer_that_is_only_out_of_reach_is_not_reported_gone() -> None:
    async def scenario(world: World) -> None:
        await world.receiver.start()
        world.peers.voters_changed(VOTERS)
        await world.wait()
        world.network.partition(["a"], ["b"])
        world.network.break_connections("a", "b")
        await world.wait(5.0)
        assert world.gone == []

    simulate(scenario)
