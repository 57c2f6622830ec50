"""What a leader answers to the positions of a follower, when, and how much at once."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

import pytest

from quorate.broker.replica.partition import Partition
from quorate.broker.replication.follower_stream import FollowerStream
from quorate.broker.replication.server import ReplicationServer
from quorate.chaos.models.follower.replicas import (
    TOPIC_ID,
    address_of,
    bytes_of,
    client_batch,
    image,
    open_replica,
    state_of,
)
from quorate.chaos.sim.clock import Simulation, run_simulation
from quorate.chaos.sim.disk import SimDisk
from quorate.chaos.sim.network import SimNetwork
from quorate.chaos.sim.transport import SimTransport
from quorate.core.ids import BrokerId, Offset
from quorate.core.transport import Call, Service, method_of, methods_of
from quorate.errors import (
    InvalidRequest,
    NotLeaderOrFollower,
    QuorateError,
    StaleBrokerEpoch,
    Unavailable,
    UnknownServerError,
    UnknownTopicOrPartition,
)
from quorate.v1 import replica_pb2
from quorate.v1.controller_pb2 import ReplicaName
from quorate.v1.replica_pb2 import (
    FollowerHello,
    FollowerPosition,
    ReplicateRequest,
    ReplicateResponse,
    ReplicaUpdate,
)

#: of every response, and of one partition in it
RESPONSE_BYTES: Final = 3_000
PARTITION_BYTES: Final = 1_000


def position(
    offset: int, last_epoch: int = -1, *, number: int = 0, leader_epoch: int = 1, log_start: int = 0
) -> FollowerPosition:
    return FollowerPosition(
        topic_id=TOPIC_ID,
        partition=number,
        leader_epoch=leader_epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        log_start_offset=log_start,
    )


class OneByOne:
    """An exchange whose follower takes a response when it asks for one, and not before."""

    def __init__(self) -> None:
        self._asked: asyncio.Future[ReplicateResponse] | None = None
        self.ended_by: QuorateError | None = None

    @property
    def is_ready(self) -> bool:
        return self._asked is not None and not self._asked.done()

    def send(self, response: ReplicateResponse, *, is_last: bool = False) -> None:
        assert self._asked is not None
        self._asked.set_result(response)

    async def next_response(self, stream: FollowerStream) -> ReplicateResponse:
        self._asked = asyncio.get_running_loop().create_future()
        stream.on_ready()
        return await self._asked

    def end(self, error: QuorateError | None = None) -> None:
        self.ended_by = error

    def pause(self) -> None: ...
    def resume(self) -> None: ...


class LeaderHarness:
    """Broker 1 leads in epoch 1; broker 2 follows over the stream that is tested."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.clock = simulation.clock
        self.disk = SimDisk()
        self.partitions: dict[int, Partition] = {}
        self.exchange = OneByOne()
        self.stream = self.new_stream()

    def new_stream(self, broker_id: int = 2, broker_epoch: int = 1) -> FollowerStream:
        return FollowerStream(
            FollowerHello(broker_id=broker_id, broker_epoch=broker_epoch, leader_id=1),
            self.find,
            self.exchange,
            clock=self.clock,
            response_bytes_max=RESPONSE_BYTES,
            partition_bytes_max=PARTITION_BYTES,
        )

    def find(self, topic_id: str, number: int) -> Partition:
        if topic_id != TOPIC_ID or number not in self.partitions:
            raise UnknownTopicOrPartition("not here")
        return self.partitions[number]

    async def lead(self, number: int = 0, *, isr: tuple[int, ...] = (1, 2)) -> Partition:
        partition = await open_replica(self.disk, self.clock, broker_id=1, number=number)
        self.partitions[number] = partition
        partition.apply(state_of(image(leader=1, leader_epoch=1, number=number, isr=isr)))
        return partition

    def append(self, *values: bytes, number: int = 0) -> None:
        leadership = self.partitions[number].leadership
        assert leadership is not None
        leadership.append(client_batch(*values), acks_all=False)

    def name(self, *positions: FollowerPosition) -> None:
        self.stream.take(ReplicateRequest(positions=positions))

    async def updates(self) -> list[ReplicaUpdate]:
        response = await asyncio.wait_for(self.exchange.next_response(self.stream), 60)
        return list(response.updates)

    async def only_update(self) -> ReplicaUpdate:
        (update,) = await self.updates()
        return update

    async def is_silent(self, seconds: float) -> bool:
        waiting = asyncio.create_task(self.exchange.next_response(self.stream))
        await self.clock.sleep(seconds)
        is_silent = not waiting.done()
        waiting.cancel()
        await asyncio.wait([waiting])
        return is_silent


def with_leader(script: Callable[[LeaderHarness], Awaitable[None]]) -> None:
    async def main(simulation: Simulation) -> None:
        harness = LeaderHarness(simulation)
        await script(harness)
        harness.stream.end()

    run_simulation(main, seed=1)


def test_records_leave_at_once_and_a_position_without_any_waits_for_the_next() -> None:
    async def script(harness: LeaderHarness) -> None:
        partition = await harness.lead()
        harness.append(b"a")
        harness.name(position(0))
        first = await harness.only_update()
        assert first.batches == bytes_of(partition)
        harness.name(position(1, 1))
        began = harness.clock.monotonic()
        waiting = asyncio.create_task(harness.only_update())
        await asyncio.sleep(0)
        harness.append(b"b")
        second = await waiting
        assert harness.clock.monotonic() == began
        assert first.batches + second.batches == bytes_of(partition)

    with_leader(script)


def test_all_that_arrives_in_one_turn_of_the_loop_leaves_in_one_response() -> None:
    async def script(harness: LeaderHarness) -> None:
        for number in range(3):
            await harness.lead(number)
        harness.name(*(position(0, number=number) for number in range(3)))
        waiting = asyncio.create_task(harness.updates())
        await asyncio.sleep(0)
        for number in (2, 0, 1, 2):
            harness.append(b"x", number=number)
        assert [update.partition for update in await waiting] == [2, 0, 1]

    with_leader(script)


def test_a_position_acknowledges_and_moves_the_high_watermark() -> None:
    async def script(harness: LeaderHarness) -> None:
        partition = await harness.lead()
        harness.append(b"a")
        assert partition.high_watermark == 0
        harness.name(position(0))
        await harness.only_update()
        assert partition.high_watermark == 0
        harness.name(position(1, 1))
        assert partition.high_watermark == 1

    with_leader(script)


def test_a_high_watermark_alone_waits_for_a_moment() -> None:
    async def script(harness: LeaderHarness) -> None:
        await harness.lead()
        harness.append(b"a")
        harness.name(position(0))
        await harness.only_update()
        harness.name(position(1, 1))
        began = harness.clock.monotonic()
        update = await harness.only_update()
        assert 0.04 < harness.clock.monotonic() - began < 0.06
        assert (update.high_watermark, update.batches) == (1, b"")
        harness.name(position(1, 1))
        assert await harness.is_silent(10), "it was told"

    with_leader(script)


def test_who_waits_at_the_end_of_a_quiet_log_is_told_once_where_it_is_to_begin() -> None:
    async def script(harness: LeaderHarness) -> None:
        partition = await harness.lead()
        harness.append(b"a")
        harness.name(position(0))
        await harness.only_update()
        harness.name(position(1, 1))
        await harness.only_update()  # of the high watermark
        harness.name(position(1, 1))
        assert await harness.is_silent(10)
        partition.log.reconfigure(dataclasses.replace(partition.log.config, retention_bytes=0))
        assert partition.leadership is not None
        partition.leadership.want_log_start()
        update = await harness.only_update()
        assert (update.log_start_offset, update.batches) == (1, b"")
        assert partition.log.log_start_offset == 0
        harness.name(position(1, 1))
        assert await harness.is_silent(10), "also if it does not do so"

    with_leader(script)


def test_who_has_not_deleted_what_the_leader_has_is_told_with_its_first_position() -> None:
    async def script(harness: LeaderHarness) -> None:
        partition = await harness.lead()
        harness.append(b"a")
        await partition.log.advance_log_start(Offset(1))
        began = harness.clock.monotonic()
        harness.name(position(1, 1))
        update = await harness.only_update()
        assert harness.clock.monotonic() == began
        assert (update.log_start_offset, update.batches) == (1, b"")

    with_leader(script)


def test_a_high_watermark_rides_with_the_records_of_another_partition() -> None:
    async def script(harness: LeaderHarness) -> None:
        await harness.lead(0)
        await harness.lead(1)
        harness.append(b"a", number=0)
        harness.name(position(0, number=0))
        await harness.only_update()
        harness.name(position(1, 1, number=0), position(0, number=1))
        harness.append(b"b", number=1)
        began = harness.clock.monotonic()
        updates = {update.partition: update for update in await harness.updates()}
        assert harness.clock.monotonic() == began
        assert updates[0].high_watermark == 1
        assert updates[1].batches

    with_leader(script)


def test_a_response_and_a_partitions_share_of_it_are_bounded_and_nobody_starves() -> None:
    async def script(harness: LeaderHarness) -> None:
        ends = dict.fromkeys(range(8), 0)
        for number in ends:
            await harness.lead(number)
            for _ in range(40 if number == 0 else 4):
                harness.append(bytes(300), number=number)
        harness.name(*(position(0, number=number) for number in ends))
        order = []
        while any(ends[number] < 4 for number in ends):
            updates = await harness.updates()
            assert sum(len(update.batches) for update in updates) <= RESPONSE_BYTES
            for update in updates:
                assert 0 < len(update.batches) <= PARTITION_BYTES
                order.append(update.partition)
                ends[update.partition] += len(update.batches) // len(client_batch(bytes(300)))
            harness.name(*(position(ends[each.partition], 1, number=each.partition) for each in updates))
        assert order[:8] == list(range(8))
        assert ends[0] < 12, "the busiest has had no more turns than the others"

    with_leader(script)


def test_a_batch_larger_than_every_bound_goes_alone() -> None:
    async def script(harness: LeaderHarness) -> None:
        await harness.lead(0)
        await harness.lead(1)
        harness.append(b"small", number=0)
        harness.append(bytes(10_000), number=1)
        harness.name(position(0, number=0), position(0, number=1))
        assert (await harness.only_update()).partition == 0
        assert len((await harness.only_update()).batches) > 10_000

    with_leader(script)


def test_rule_8_a_log_that_went_its_own_way_is_told_where_and_acknowledges_nothing() -> None:
    async def script(harness: LeaderHarness) -> None:
        partition = await harness.lead()
        harness.append(b"a")
        partition.apply(state_of(image(leader=1, leader_epoch=5, isr=(1, 2))))
        harness.append(b"b")
        harness.name(position(9, 3, leader_epoch=5))
        update = await harness.only_update()
        assert (update.diverging.epoch, update.diverging.end_offset) == (1, 1)
        assert partition.high_watermark == 0

    with_leader(script)


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (position(0, leader_epoch=0), "FENCED_LEADER_EPOCH"),
        (position(0, leader_epoch=2), "UNKNOWN_LEADER_EPOCH"),
        (position(0, number=7), "UNKNOWN_TOPIC_OR_PARTITION"),
    ],
)
def test_rule_3_only_who_is_in_the_same_epoch_is_served(asked: FollowerPosition, code: str) -> None:
    async def script(harness: LeaderHarness) -> None:
        await harness.lead()
        harness.append(b"a")
        harness.name(asked)
        update = await harness.only_update()
        assert (update.error.code, update.leader_epoch) == (code, asked.leader_epoch)
        assert not update.batches

    with_leader(script)


@pytest.mark.parametrize("end", [2, 3])
def test_rule_8_what_ends_in_an_epoch_that_the_leader_has_deleted_counts_for_nothing(end: int) -> None:
    async def script(harness: LeaderHarness) -> None:
        partition = await harness.lead(isr=(1, 3))
        for _ in range(3):
            harness.append(b"a")
        await partition.log.advance_log_start(Offset(2))
        harness.name(position(end, 0))
        update = await harness.only_update()
        assert (update.diverging.epoch, update.diverging.end_offset) == (0, 2)
        assert (update.log_start_offset, partition.high_watermark) == (2, 2)

    with_leader(script)


def test_rule_8_who_has_no_records_goes_on_where_the_leader_begins() -> None:
    async def script(harness: LeaderHarness) -> None:
        partition = await harness.lead()
        for _ in range(3):
            harness.append(b"a")
        await partition.log.advance_log_start(Offset(2))
        harness.name(position(2, 0, log_start=2))
        update = await harness.only_update()
        assert not update.HasField("diverging")
        assert update.batches

    with_leader(script)


def test_rule_12_who_is_before_the_log_start_is_told_where_it_begins() -> None:
    async def script(harness: LeaderHarness) -> None:
        partition = await harness.lead()
        for _ in range(3):
            harness.append(b"a")
        await partition.log.advance_log_start(Offset(2))
        harness.name(position(1, 1))
        update = await harness.only_update()
        assert (update.error.code, update.log_start_offset) == ("OFFSET_OUT_OF_RANGE", 2)

    with_leader(script)


def test_rule_25_an_earlier_run_of_a_broker_ends_the_stream() -> None:
    async def script(harness: LeaderHarness) -> None:
        await harness.lead()
        harness.stream = harness.new_stream(broker_epoch=0)
        with pytest.raises(StaleBrokerEpoch):
            harness.name(position(0))

    with_leader(script)


def test_who_waits_learns_that_the_leadership_has_ended() -> None:
    async def script(harness: LeaderHarness) -> None:
        partition = await harness.lead()
        harness.name(position(0))
        await harness.only_update()
        harness.name(position(0))
        partition.apply(state_of(image(leader=3, leader_epoch=2, isr=(1, 2))))
        update = await harness.only_update()
        assert (update.error.code, update.leader_epoch) == ("FENCED_LEADER_EPOCH", 1)

    with_leader(script)


def test_a_partition_that_is_no_longer_followed_is_forgotten() -> None:
    async def script(harness: LeaderHarness) -> None:
        await harness.lead()
        harness.name(position(0))
        harness.stream.take(ReplicateRequest(stopped=[ReplicaName(topic_id=TOPIC_ID, partition=0)]))
        harness.append(b"a")
        assert await harness.is_silent(10)

    with_leader(script)


def test_a_damaged_batch_is_an_error_and_never_sent() -> None:
    async def script(harness: LeaderHarness) -> None:
        partition = await harness.lead()
        harness.append(b"a")
        path = f"{partition.log.directory}/00000000000000000000.log"
        harness.disk.flip_bit(path, 8 * (harness.disk.size(path) - 1))
        harness.name(position(0))
        update = await harness.only_update()
        assert update.error.code == "NOT_LEADER_OR_FOLLOWER"
        assert not update.batches
        assert partition.leadership is None

    with_leader(script)


def test_a_stream_that_has_ended_takes_nothing_from_the_one_that_replaced_it() -> None:
    async def script(harness: LeaderHarness) -> None:
        await harness.lead()
        old = harness.stream
        old.take(ReplicateRequest(positions=[position(0)]))
        old.end()
        harness.stream = harness.new_stream()
        harness.name(position(0))
        await harness.only_update()
        harness.name(position(0))
        old.take(ReplicateRequest(positions=[position(0)]))
        old.take(ReplicateRequest(stopped=[ReplicaName(topic_id=TOPIC_ID, partition=0)]))
        harness.append(b"a")
        assert (await harness.only_update()).batches

    with_leader(script)


# -- streams as a whole


def test_mistake_in_making_a_response_ends_the_stream() -> None:
    """Otherwise the follower would wait for ever, over a connection with which nothing is wrong."""

    async def script(harness: LeaderHarness) -> None:
        partition = await harness.lead()
        harness.append(b"a")
        harness.stream._read = lambda *_: 1 // 0  # type: ignore[method-assign,assignment]
        harness.name(position(0))
        waiting = asyncio.create_task(harness.updates())
        await harness.clock.sleep(0.1)
        waiting.cancel()
        assert isinstance(harness.exchange.ended_by, UnknownServerError)
        assert partition.leadership is not None
        assert not partition.leadership._wakers._by_broker, "no leadership calls it any more"

    with_leader(script)


_SERVICE = replica_pb2.DESCRIPTOR.services_by_name["ReplicaService"]
_REPLICATE = method_of(_SERVICE, "Replicate", ReplicateRequest, ReplicateResponse)


class ServerHarness(LeaderHarness):
    """The same over a network."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation)
        self.network = SimNetwork(simulation.loop, simulation.rng)

    async def serve(self) -> None:
        async def never(_request: object, _call: Call) -> None:
            raise AssertionError("not asked for")

        server = ReplicationServer(
            BrokerId(1),
            self.find,
            clock=self.clock,
            response_bytes_max=RESPONSE_BYTES,
            partition_bytes_max=PARTITION_BYTES,
        )
        service = Service(_SERVICE, {**dict.fromkeys(methods_of(_SERVICE), never), "Replicate": server})
        await SimTransport(self.network, "b1").serve(address_of(1), [service])

    async def ended_by(self, *requests: ReplicateRequest) -> QuorateError | None:
        async def all_requests() -> AsyncIterator[ReplicateRequest]:
            for request in requests:
                yield request

        channel = SimTransport(self.network, "b2").connect(address_of(1))
        try:
            async for _ in channel.stream(_REPLICATE, all_requests(), timeout_s=None):
                pass
        except QuorateError as error:
            return error
        return None


def with_server(script: Callable[[ServerHarness], Awaitable[None]]) -> None:
    async def main(simulation: Simulation) -> None:
        harness = ServerHarness(simulation)
        await harness.serve()
        await harness.lead()
        await script(harness)
        partition = harness.partitions[0]
        await harness.clock.sleep(1)
        assert partition.leadership is not None
        assert not partition.leadership._wakers._by_broker, "nobody is left behind"

    run_simulation(main, seed=1)


def _hello(leader_id: int = 1, broker_epoch: int = 1) -> ReplicateRequest:
    hello = FollowerHello(broker_id=2, broker_epoch=broker_epoch, leader_id=leader_id)
    return ReplicateRequest(hello=hello, positions=[position(0)])


def test_a_stream_has_to_say_who_follows_whom() -> None:
    async def script(harness: ServerHarness) -> None:
        assert isinstance(await harness.ended_by(ReplicateRequest()), InvalidRequest)
        assert isinstance(await harness.ended_by(_hello(leader_id=3)), NotLeaderOrFollower)
        assert isinstance(await harness.ended_by(_hello(broker_epoch=0)), StaleBrokerEpoch)
        assert await harness.ended_by(_hello()) is None

    with_server(script)


def test_a_new_stream_of_a_broker_replaces_the_one_before() -> None:
    async def script(harness: ServerHarness) -> None:
        async def endless(first: ReplicateRequest) -> AsyncIterator[ReplicateRequest]:
            yield first
            await asyncio.get_running_loop().create_future()

        transport = SimTransport(harness.network, "b2")
        old = transport.connect(address_of(1)).stream(_REPLICATE, endless(_hello()), timeout_s=None)
        await anext(old)
        new = transport.connect(address_of(1)).stream(_REPLICATE, endless(_hello()), timeout_s=None)
        await anext(new)
        with pytest.raises(Unavailable):
            await anext(old)
        harness.append(b"a")
        assert isinstance(await harness.ended_by(_hello(broker_epoch=0)), StaleBrokerEpoch)
        await new.aclose()

    with_server(script)
