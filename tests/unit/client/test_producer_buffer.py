"""The bound on a producer's memory: who waits, for how long, and that it holds."""

from __future__ import annotations

import asyncio
import random

import pytest

from quorate.chaos.models.producer.fake_broker import FakeCluster, FakePartition, simulate
from quorate.client.producer.accumulator import Accumulator
from quorate.client.producer.buffer import Ticket
from quorate.client.producer.bulk import Placement, columns_of, plan
from quorate.client.producer.options import ProducerOptions
from quorate.client.producer.postponed import Postponed
from quorate.core.clock import SystemClock
from quorate.core.ids import TopicName
from quorate.errors import BatchTooLarge, BufferExhausted, ClientClosed, NotEnoughReplicas
from quorate.v1 import broker_pb2


def stop(partition: FakePartition) -> None:
    partition.script.extend(NotEnoughReplicas("by the script") for _ in range(1_000))


def test_buffer_never_holds_more_than_its_bound() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        (partition,) = cluster.add_topic()
        most = 0
        async with cluster.producer(buffer_bytes=5_000, batch_bytes=1_000) as producer:
            for number in range(500):
                await producer.send("t", b"%0100d" % number)
                most = max(most, producer.statistics().buffered_bytes)
            delivery = await producer.send_many("t", [b"x" * 100] * 500)
            await delivery
            most = max(most, producer.statistics().buffered_bytes)
            assert producer.statistics().buffered_bytes == 0
        # Batch headers come on top.
        assert 4_000 < most < 5_500
        assert len(partition.values()) == 1000

    simulate(scenario)


def test_send_waits_for_room_and_gives_up_with_a_typed_error() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        (partition,) = cluster.add_topic()
        stop(partition)
        loop = asyncio.get_running_loop()
        async with cluster.producer(buffer_bytes=1_000, batch_bytes=1_000, max_block_ms=2_000) as producer:
            first = await producer.send("t", b"x" * 900)
            started = loop.time()
            with pytest.raises(BufferExhausted):
                await producer.send("t", b"y" * 900)
            assert 1.9 < loop.time() - started < 2.1
            waiting = asyncio.ensure_future(producer.send("t", b"z" * 900))
            await asyncio.sleep(0.1)
            partition.script.clear()
            await first
            assert (await (await waiting)).offset == 1
        assert partition.values() == [b"x" * 900, b"z" * 900]

    simulate(scenario)


def test_room_is_granted_in_turn_so_that_a_large_record_is_not_overtaken_for_ever() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        (partition,) = cluster.add_topic()
        stop(partition)
        async with cluster.producer(buffer_bytes=1_000, batch_bytes=200) as producer:
            for _ in range(4):
                await producer.send("t", b"x" * 150)
            large = asyncio.ensure_future(producer.send("t", b"y" * 700))
            await asyncio.sleep(0)
            small = asyncio.ensure_future(producer.send("t", b"z"))
            await asyncio.sleep(1)
            assert not small.done()
            partition.script.clear()
            await large
            await small
        assert [value[:1] for value in partition.values() if value] == [b"x"] * 4 + [b"y", b"z"]

    simulate(scenario)


def test_one_who_gives_up_waiting_lets_the_next_go() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        (partition,) = cluster.add_topic()
        stop(partition)
        async with cluster.producer(buffer_bytes=1_000, batch_bytes=200) as producer:
            for _ in range(4):
                await producer.send("t", b"x" * 150)
            large = asyncio.ensure_future(producer.send("t", b"y" * 700))
            await asyncio.sleep(0)
            small = asyncio.ensure_future(producer.send("t", b"z"))
            await asyncio.sleep(0)
            large.cancel()
            await small
            partition.script.clear()

    simulate(scenario)


def test_record_that_can_never_fit_is_refused_at_once() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        cluster.add_topic()
        async with cluster.producer(buffer_bytes=1_000, batch_bytes=1_000) as producer:
            with pytest.raises(BatchTooLarge):
                await producer.send("t", b"x" * 1_001)

    simulate(scenario)


def test_send_many_says_which_records_found_no_room() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        (partition,) = cluster.add_topic()
        stop(partition)
        async with cluster.producer(buffer_bytes=2_000, batch_bytes=500, max_block_ms=100) as producer:
            delivery = await producer.send_many("t", [b"%0100d" % number for number in range(100)])
            partition.script.clear()
            with pytest.raises(BufferExhausted):
                await delivery
            errors = delivery.errors()
            accepted = 100 - len(errors)
            assert 10 <= accepted <= 20
            assert list(errors) == list(range(accepted, 100))
            assert isinstance(delivery.exception(), BufferExhausted)
        assert partition.values() == [b"%0100d" % number for number in range(accepted)]

    simulate(scenario)


def test_closing_wakes_those_who_wait_for_room() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        (partition,) = cluster.add_topic()
        stop(partition)
        producer = cluster.producer(buffer_bytes=1_000, batch_bytes=1_000)
        await producer.send("t", b"x" * 900)
        waiting = asyncio.ensure_future(producer.send("t", b"y" * 900))
        await asyncio.sleep(0.1)
        await producer.close(timeout=0.1)
        with pytest.raises(ClientClosed):
            await waiting

    simulate(scenario)


def test_partition_is_chosen_once_for_a_record_that_waits_for_room() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        (partition,) = cluster.add_topic()
        stop(partition)
        chosen_for: list[bytes | None] = []

        def choose(_topic: str, key: bytes | None, _count: int) -> int:
            chosen_for.append(key)
            return 0

        async with cluster.producer(buffer_bytes=1_000, batch_bytes=1_000, partitioner=choose) as producer:
            first = await producer.send("t", b"x" * 900, key=b"a")
            waiting = asyncio.ensure_future(producer.send("t", b"y" * 800, key=b"b"))
            await asyncio.sleep(0.1)
            partition.script.clear()
            await first
            await (await waiting)
            assert producer.statistics().buffered_bytes == 0
        assert chosen_for == [b"a", b"b"]

    simulate(scenario)


def test_records_in_turn_are_spread_evenly_also_when_they_wait_for_room() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        partitions = cluster.add_topic(partitions=2)
        async with cluster.producer(
            buffer_bytes=1_000, batch_bytes=1_000, partitioner="round_robin"
        ) as producer:
            for _ in range(30):
                await producer.send("t", b"y" * 600)
            await producer.flush()
        assert [len(each.values()) for each in partitions] == [15, 15]

    simulate(scenario)


class Full:
    """An accumulator whose buffer is full, and the ticket of one who was granted room all the same."""

    def __init__(self) -> None:
        options = ProducerOptions(buffer_bytes=1_000, batch_bytes=500)
        self.accumulator = Accumulator(
            options,
            clock=SystemClock(),
            rng=random.Random(1),
            wake=lambda: None,
            is_on_loop=lambda: False,
        )
        self.topic = self.accumulator.update_topic(TopicName("t"), 1, [0])
        self.accumulator.buffer.used = 900

    def grant(self, size: int) -> Ticket:
        self.accumulator.buffer.used = 0
        ticket = self.accumulator.queue_up(size, lambda: None)
        assert ticket.is_granted
        return ticket

    def record(self) -> Postponed:
        return Postponed(416, self.topic, b"x" * 400, None, None, 0, None, broker_pb2.ACKS_ALL, None, None)

    def records(self) -> Placement:
        columns = columns_of([b"x" * 400], None, None, key_serializer=None, value_serializer=None)
        planned = plan(columns, self.topic, 0, 0, self.accumulator)
        return Placement(self.accumulator, self.topic, planned, broker_pb2.ACKS_ALL, None)


@pytest.mark.parametrize("is_bulk", [False, True])
def test_room_that_was_granted_is_given_back_where_it_is_not_used(is_bulk: bool) -> None:
    """The producer is closed between the grant and its use."""
    full = Full()
    placement = full.records()
    assert placement.place() == 416
    ticket = full.grant(416)
    full.accumulator.close()
    with pytest.raises(ClientClosed):
        placement.place(ticket) if is_bulk else full.record().place(full.accumulator, ticket)
    assert full.accumulator.buffer.used == 0


@pytest.mark.parametrize("is_bulk", [False, True])
def test_room_that_is_used_is_not_given_back_as_well(is_bulk: bool) -> None:
    full = Full()
    placement = full.records()
    assert placement.place() == 416
    ticket = full.grant(416)
    if is_bulk:
        assert placement.place(ticket) is None
    else:
        full.record().place(full.accumulator, ticket)
    used = full.accumulator.buffer.used
    assert used >= 416
    full.accumulator.leave(ticket)
    assert full.accumulator.buffer.used == used
