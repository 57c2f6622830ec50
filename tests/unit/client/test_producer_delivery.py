"""What a producer does when nothing goes wrong. On simulated time."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from quorate.chaos.models.producer.fake_broker import FakeCluster, FakePartition, simulate
from quorate.chaos.sim.clock import SimClock
from quorate.client.partitioner import partition_for_key
from quorate.client.producer import RecordFuture, RecordMetadata
from quorate.client.producer.accumulator import Accumulator, NoRoom
from quorate.client.producer.options import AcksName
from quorate.client.producer.partition_queue import PartitionQueue
from quorate.core.records import Record, check_batch, decode_batch
from quorate.errors import (
    ClientClosed,
    InvalidConfig,
    InvalidRecord,
    InvalidRequest,
    QuorateError,
    UnknownTopicOrPartition,
)
from quorate.v1 import broker_pb2


def records_of(partition: FakePartition) -> list[Record]:
    return [record for stored in partition.log for record in decode_batch(stored.content)]


def test_record_is_where_its_future_says() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        (partition,) = cluster.add_topic()
        async with cluster.producer() as producer:
            first = await producer.send("t", "a")
            second = await producer.send("t", b"b", key="k", headers={"h": "1"}, timestamp_ms=5)
            assert (await first).offset == 0
            assert await second == ("t", 0, 1, 5)
            assert first.done()
            assert second.result().offset == 1
            assert second.exception() is None
        last = records_of(partition)[1]
        assert (last.key, last.value, last.headers, last.timestamp) == (b"k", b"b", (("h", b"1"),), 5)

    simulate(scenario)


def test_lone_record_leaves_at_once_and_others_fill_a_batch_meanwhile() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        (partition,) = cluster.add_topic()
        async with cluster.producer() as producer:
            await (await producer.send("t", b"first"))
            cluster.requests.clear()
            futures = [await producer.send("t", b"second")]
            await asyncio.sleep(0)
            futures += [await producer.send("t", b"%d" % number) for number in range(100)]
            for future in futures:
                await future
        counts = [check_batch(stored.content).record_count for stored in partition.log]
        assert counts == [1, 1, 100]

    simulate(scenario)


def test_record_that_a_thread_sends_while_the_loop_looks_is_not_left_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As an answer makes the loop look, the thread that waited for it sends the next record."""
    read_clock, take_marked = SimClock.monotonic, Accumulator.take_marked
    ticks = itertools.count()
    monkeypatch.setattr(SimClock, "monotonic", lambda self: read_clock(self) + next(ticks) * 1e-9)
    futures: list[RecordFuture | NoRoom] = []

    def take_marked_late(self: Accumulator) -> list[PartitionQueue]:
        if not futures:
            sent = (b"second", None, None, 0, None, broker_pb2.ACKS_ALL, None, None, None)
            futures.append(self.append(self.topics["t"], *sent))
        return take_marked(self)

    async def scenario(cluster: FakeCluster) -> None:
        cluster.add_topic()
        async with cluster.producer() as producer:
            await (await producer.send("t", b"first"))
            monkeypatch.setattr(Accumulator, "take_marked", take_marked_late)
            accumulator = producer._accumulator
            accumulator.mark(accumulator.topics["t"].queues[0])
            await asyncio.sleep(1.0)
            (second,) = futures
            assert isinstance(second, RecordFuture)
            assert second.done()

    simulate(scenario)


def test_full_batches_are_in_flight_together_up_to_the_limit() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        (partition,) = cluster.add_topic()
        cluster.commit_s = (1.0, 1.0)
        async with cluster.producer(batch_bytes=100, max_in_flight=3) as producer:
            for number in range(10):
                await producer.send("t", b"%060d" % number)
            await asyncio.sleep(0.9)
            assert len(partition.log) == 3
            assert producer.statistics().batches_in_flight == 3
        assert partition.values() == [b"%060d" % number for number in range(10)]

    simulate(scenario)


def test_linger_waits_for_more_and_flush_does_not() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        (partition,) = cluster.add_topic()
        async with cluster.producer(linger_ms=1000) as producer:
            await producer.send("t", b"a")
            await asyncio.sleep(0.5)
            await producer.send("t", b"b")
            assert not partition.log
            await asyncio.sleep(0.6)
            assert len(partition.log) == 1
            await producer.send("t", b"c")
            started = asyncio.get_running_loop().time()
            await producer.flush()
            assert asyncio.get_running_loop().time() - started < 0.1
        assert partition.values() == [b"a", b"b", b"c"]

    simulate(scenario)


def test_partitions_of_one_broker_share_a_request() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        partitions = cluster.add_topic(partitions=6)
        for partition in partitions:
            partition.leader = 2
        async with cluster.producer() as producer:
            await (await producer.send("t", b"warm up", partition=0))
            cluster.requests.clear()
            for number in range(6):
                await producer.send("t", b"x", partition=number)
            await producer.flush()
        assert [(broker, len(request.partitions)) for broker, request in cluster.requests] == [(2, 6)]

    simulate(scenario)


def test_keys_go_where_kafka_puts_them_and_keyless_records_spread_by_batches() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        partitions = cluster.add_topic(partitions=4)
        async with cluster.producer(batch_bytes=1000) as producer:
            for number in range(50):
                key = b"key-%d" % number
                metadata = await (await producer.send("t", b"x", key=key))
                assert metadata.partition == partition_for_key(key, 4)
            before = [len(partition.values()) for partition in partitions]
            for _ in range(200):
                await producer.send("t", b"v" * 80)
            await producer.flush()
        grown = [len(partition.values()) - old for partition, old in zip(partitions, before, strict=True)]
        assert sum(grown) == 200
        assert sum(count > 0 for count in grown) >= 3
        # About ten records are a batch, and each batch has one partition.
        assert cluster.requests
        assert len({check_batch(p.batch).record_count for _, r in cluster.requests for p in r.partitions}) > 1

    simulate(scenario)


def test_round_robin_and_own_partitioner() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        partitions = cluster.add_topic(partitions=3)
        async with cluster.producer(partitioner="round_robin") as producer:
            for number in range(9):
                await producer.send("t", b"%d" % number)
            await producer.send_many("t", [b"x"] * 9)
        assert [len(partition.values()) for partition in partitions] == [6, 6, 6]

        def by_first_byte(topic: str, key: bytes | None, count: int) -> int:
            return key[0] if key else count

        async with cluster.producer(partitioner=by_first_byte) as producer:
            assert (await (await producer.send("t", b"x", key=b"\x02"))).partition == 2
            with pytest.raises(InvalidRequest):
                await producer.send("t", b"x")

    simulate(scenario)


def test_send_many_keeps_order_and_says_where_each_record_is() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        partitions = cluster.add_topic(partitions=3)
        values = [b"%d" % number for number in range(500)]
        keys = [None if number % 7 == 0 else b"%d" % (number % 50) for number in range(500)]
        async with cluster.producer(batch_bytes=600) as producer:
            delivery = await producer.send_many("t", values, keys=keys)
            places = await delivery
            assert delivery.done()
            assert len(places) == len(delivery) == 500
            for value, place in zip(values, places, strict=True):
                assert place.offset is not None
                assert partitions[place.partition].values()[place.offset] == value
            assert places[-1] == places[499]
            assert places[2:4] == [places[2], places[3]]
            assert delivery.exception() is None
            assert delivery.errors() == {}
        for partition in partitions:
            numbers = [int(value or b"") for value in partition.values() if int(value or b"") % 7]
            assert numbers == sorted(numbers)

    simulate(scenario)


def test_send_many_without_keys_is_in_order_within_each_partition() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        partitions = cluster.add_topic(partitions=2)
        async with cluster.producer(batch_bytes=500) as producer:
            await (await producer.send_many("t", [f"{number:04d}" for number in range(300)]))
            await (await producer.send_many("t", []))
        logs = [partition.values() for partition in partitions]
        assert all(log == sorted(log, key=lambda value: value or b"") for log in logs)
        assert sum(map(len, logs)) == 300
        assert all(logs)

    simulate(scenario)


def test_serializers_make_the_bytes() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        (partition,) = cluster.add_topic()
        options = {"value_serializer": lambda value: repr(value).encode(), "key_serializer": str.encode}
        async with cluster.producer(**options) as producer:
            await producer.send("t", {"a": 1}, key="k")
            await producer.send_many("t", [1, 2], keys=["x", "y"])
        assert [(r.key, r.value) for r in records_of(partition)] == [
            (b"k", b"{'a': 1}"),
            (b"x", b"1"),
            (b"y", b"2"),
        ]

    simulate(scenario)


def test_what_is_no_record_is_refused_before_anything_is_sent() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        cluster.add_topic(partitions=2)
        async with cluster.producer() as producer:
            with pytest.raises(InvalidRecord):
                await producer.send("t", 5)
            with pytest.raises(InvalidRecord):
                await producer.send("t", b"", headers=["h"])  # type: ignore[list-item]  # that is the test
            with pytest.raises(InvalidRecord):
                await producer.send_many("t", [b"a"], keys=[b"a", b"b"])
            with pytest.raises(UnknownTopicOrPartition, match=r"t has no partition 2: it has 2"):
                await producer.send("t", b"a", partition=2)
            with pytest.raises(InvalidRequest, match="numbered from 0"):
                await producer.send("t", b"a", partition=-1)
            with pytest.raises(InvalidConfig):
                await producer.send("t", b"a", acks=2)  # type: ignore[arg-type]  # that is the test
        assert not cluster.requests

    simulate(scenario)


def test_record_that_cannot_be_encoded_is_refused_alone_and_leaves_no_gap() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        (partition,) = cluster.add_topic()
        async with cluster.producer() as producer:
            bad = await producer.send("t", b"bad", headers={"\ud800": b"a name that has no UTF-8"})
            with pytest.raises(InvalidRecord):
                await bad
            assert (await (await producer.send("t", b"good"))).offset == 0
            assert producer.statistics().records_refused == 1
        assert check_batch(partition.log[0].content).producer_epoch == 0

    simulate(scenario)


def test_acks_of_one_send_separate_batches_and_acks_0_has_no_offset() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        (partition,) = cluster.add_topic()
        async with cluster.producer() as producer:
            chosen: list[AcksName] = ["all", 1, 0, 0]
            futures = [await producer.send("t", b"%d" % n, acks=acks) for n, acks in enumerate(chosen)]
            offsets = [(await future).offset for future in futures]
        assert offsets == [0, 1, None, None]
        assert partition.values() == [b"0", b"1", b"2", b"3"]
        assert [request.acks for _, request in cluster.requests] == [
            broker_pb2.ACKS_ALL,
            broker_pb2.ACKS_LEADER,
            broker_pb2.ACKS_NONE,
        ]
        numbers = [check_batch(request.partitions[0].batch).producer_id for _, request in cluster.requests]
        assert numbers == [1, -1, -1]

    simulate(scenario)


def test_callbacks_run_once_and_their_mistakes_harm_nobody() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        cluster.add_topic()
        told: list[object] = []

        def fail(metadata: RecordMetadata | None, error: QuorateError | None) -> None:
            told.append(metadata)
            raise RuntimeError("a mistake")

        def note(future: RecordFuture) -> None:
            told.append(future.result())

        async with cluster.producer() as producer:
            future = await producer.send("t", b"a", on_delivery=fail)
            future.add_done_callback(note)
            place = await future
            future.add_done_callback(note)
            assert told == [place, place, place]
            assert (await (await producer.send("t", b"b"))).offset == 1

    simulate(scenario)


def test_topic_that_does_not_exist_is_said_so_soon() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        async with cluster.producer() as producer:
            started = asyncio.get_running_loop().time()
            with pytest.raises(UnknownTopicOrPartition):
                await producer.send("missing", b"a")
            assert asyncio.get_running_loop().time() - started < 5

    simulate(scenario)


def test_topic_that_is_created_meanwhile_is_found() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        asyncio.get_running_loop().call_later(1, cluster.add_topic, "late")
        async with cluster.producer() as producer:
            assert (await (await producer.send("late", b"a"))).offset == 0

    simulate(scenario)


def test_partition_that_was_added_is_found() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        partitions = cluster.add_topic()
        async with cluster.producer() as producer:
            await (await producer.send("t", b"a"))
            partitions.append(FakePartition(leader=3))
            cluster.metadata_offset += 1
            assert (await (await producer.send("t", b"a", partition=1))).partition == 1

    simulate(scenario)


def test_compression_makes_small_batches() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        (partition,) = cluster.add_topic()
        async with cluster.producer(compression="zstd") as producer:
            await producer.send_many("t", [b"same"] * 1000)
        assert partition.values() == [b"same"] * 1000
        assert sum(len(stored.content) for stored in partition.log) < 4000

    simulate(scenario)


def test_closed_producer_refuses_and_closing_twice_is_harmless() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        cluster.add_topic()
        producer = cluster.producer()
        await (await producer.send("t", b"a"))
        await producer.close()
        await producer.close()
        with pytest.raises(ClientClosed):
            await producer.send("t", b"a")
        with pytest.raises(ClientClosed):
            await producer.send("other", b"a")

    simulate(scenario)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("acks", 3),
        ("compression", "brotli"),
        ("max_in_flight", 6),
        ("linger_ms", -1),
        ("batch_bytes", 0),
        ("buffer_bytes", 10),
        ("partitioner", "random"),
        ("max_block_ms", -1),
        ("delivery_timeout_ms", 30 * 60_000 + 1),
    ],
)
def test_option_that_makes_no_sense_is_refused_by_name(key: str, value: object) -> None:
    async def scenario(cluster: FakeCluster) -> None:
        with pytest.raises(InvalidConfig) as refused:
            cluster.producer(**{key: value})
        assert refused.value.facts["key"] == key

    simulate(scenario)
