"""What a consumer hands out, in which order, and where it stands afterwards."""

from __future__ import annotations

from typing import Any

import pytest

from quorate.client.consumer.async_consumer import AsyncConsumer
from quorate.core.ids import TopicPartition
from quorate.core.records import Compression, ConsumerRecord
from quorate.errors import (
    ClientClosed,
    InvalidConfig,
    InvalidRequest,
    UnknownTopicOrPartition,
)
from tests.unit.client.fake_log_broker import (
    T0,
    TIMESTAMP,
    FakeBroker,
    FakeCluster,
    append,
    numbers,
    read,
    simulate,
)


def test_records_come_in_order_with_all_their_fields() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        partition = cluster.add_topic().partitions[0]
        partition.append(b"a", b"b")
        partition.elect(1)
        partition.append(b"c", compression=Compression.GZIP)
        async with cluster.consumer(topics=["t"]) as consumer:
            records = [*await consumer.poll(timeout=60), *await consumer.poll(timeout=0)]
            assert records == [
                ConsumerRecord("t", 0, 0, TIMESTAMP, None, b"a", (), 1),
                ConsumerRecord("t", 0, 1, TIMESTAMP + 1, None, b"b", (), 1),
                ConsumerRecord("t", 0, 2, TIMESTAMP + 2, None, b"c", (), 2),
            ]
            assert await consumer.position(T0) == 3
            assert consumer.lag() == {T0: 0}

    simulate(scenario)


def test_a_poll_brings_no_more_records_than_asked_for() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        cluster.add_topic().partitions[0].fill(25)
        async with cluster.consumer(topics=["t"]) as consumer:
            sizes = [len(await consumer.poll(7, timeout=60)) for _ in range(4)]
            assert sizes == [7, 7, 7, 4]
            assert await consumer.position(T0) == 25
            assert await consumer.poll(7, timeout=5) == []

    simulate(scenario)


def test_a_record_that_arrives_wakes_the_poll_at_once() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        partition = cluster.add_topic().partitions[0]
        async with cluster.consumer(topics=["t"], fetch_max_wait_ms=20_000) as consumer:
            assert await consumer.poll(timeout=1) == []
            before = cluster.simulation.clock.monotonic()
            cluster.simulation.loop.call_later(1, append, cluster, partition, b"x")
            assert await read(consumer, 1) == [b"x"]
            assert cluster.simulation.clock.monotonic() - before < 1.1

    simulate(scenario)


def test_every_partition_of_the_topics_is_read_and_none_starves() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        for name in ("t", "u"):
            for partition in cluster.add_topic(name, partitions=4).partitions:
                partition.fill(50)
        async with cluster.consumer(topics=["t", "u"]) as consumer:
            read: dict[tuple[str, int], list[int]] = {}
            for _ in range(40):
                for record in await consumer.poll(10, timeout=60):
                    read.setdefault((record.topic, record.partition), []).append(record.offset)
        assert len(read) == 8
        assert all(offsets == list(range(50)) for offsets in read.values())

    simulate(scenario)


def test_a_busy_partition_does_not_keep_the_others_waiting() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        busy, quiet = cluster.add_topic(partitions=2).partitions
        busy.fill(1000)
        quiet.fill(1)
        async with cluster.consumer(topics=["t"], max_partition_fetch_bytes=500) as consumer:
            polled = [record.partition for _ in range(10) for record in await consumer.poll(20, timeout=60)]
        assert 1 in polled

    simulate(scenario)


def test_new_partitions_are_picked_up_and_read_from_their_beginning() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        topic = cluster.add_topic()
        topic.partitions[0].fill(3)
        async with cluster.consumer(topics=["t"], auto_offset_reset="latest") as consumer:
            assert await consumer.poll(timeout=5) == []
            added = type(topic.partitions[0])(leader=2)
            added.append(b"early")
            topic.partitions.append(added)
            cluster.tell()
            assert await read(consumer, 1) == [b"early"]
            assert consumer.assignment() == [("t", 0), ("t", 1)]

    simulate(scenario)


@pytest.mark.parametrize(("reset", "first"), [("earliest", b"3"), ("latest", b"20")])
def test_reading_begins_where_auto_offset_reset_says(reset: str, first: bytes) -> None:
    async def scenario(cluster: FakeCluster) -> None:
        partition = cluster.add_topic().partitions[0]
        partition.append(b"0", b"1", b"2")
        partition.fill(20)
        partition.delete_before(3)
        async with cluster.consumer(auto_offset_reset=reset) as consumer:
            consumer.assign([T0])
            await consumer.position(T0)
            partition.append(b"20")
            cluster.tell()
            assert (await consumer.poll(timeout=60))[0].value == first

    simulate(scenario)


def test_seeks_before_the_topic_was_found_hold() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        for partition in cluster.add_topic(partitions=3).partitions:
            partition.fill(100)
        async with cluster.consumer(topics=["t"]) as consumer:
            consumer.seek_to_end()
            consumer.seek(("t", 1), 98)
            consumer.pause(("t", 2))
            assert [await consumer.position(("t", number)) for number in range(2)] == [100, 98]
            assert await read(consumer, 2) == numbers(98, 100)
            assert consumer.paused() == [("t", 2)]

    simulate(scenario)


def test_seek_goes_to_the_offset_and_drops_what_was_prefetched() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        cluster.add_topic().partitions[0].fill(100)
        async with cluster.consumer(topics=["t"]) as consumer:
            assert await read(consumer, 15) == numbers(0, 15)
            consumer.seek(T0, 93)
            assert await consumer.position(T0) == 93
            assert await read(consumer, 7) == numbers(93, 100)
            consumer.seek(T0, 4)
            assert await read(consumer, 3) == numbers(4, 7)
            consumer.seek_to_beginning()
            assert await read(consumer, 1) == [b"0"]
            consumer.seek_to_end(T0)
            assert await consumer.position(T0) == 100

    simulate(scenario)


def test_seek_does_not_wait_for_a_long_poll_to_end() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        cluster.add_topic().partitions[0].fill(10)
        async with cluster.consumer(topics=["t"], fetch_max_wait_ms=20_000) as consumer:
            await read(consumer, 10)
            assert await consumer.poll(timeout=1) == []
            before = cluster.simulation.clock.monotonic()
            consumer.seek(T0, 5)
            assert await read(consumer, 5) == numbers(5, 10)
            assert cluster.simulation.clock.monotonic() - before < 0.1

    simulate(scenario)


@pytest.mark.parametrize(("timestamp", "offset"), [(TIMESTAMP + 42, 42), (0, 0), (TIMESTAMP + 1000, 100)])
def test_seek_to_time_finds_the_first_record_of_that_time_or_the_end(timestamp: int, offset: int) -> None:
    async def scenario(cluster: FakeCluster) -> None:
        cluster.add_topic().partitions[0].fill(100)
        async with cluster.consumer() as consumer:
            consumer.assign([T0])
            consumer.seek_to_time(T0, timestamp)
            assert await consumer.position(T0) == offset

    simulate(scenario)


def test_seek_to_time_skips_nothing_that_comes_right_after_it_was_looked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer = FakeBroker.list_offsets

    async def answer_and_write(self: FakeBroker, request: Any, call: Any) -> Any:
        answered = await answer(self, request, call)
        partition = self._cluster.topics["t"].partitions[0]
        partition.append(b"%d" % partition.high_watermark)
        return answered

    monkeypatch.setattr(FakeBroker, "list_offsets", answer_and_write)

    async def scenario(cluster: FakeCluster) -> None:
        cluster.add_topic().partitions[0].fill(100)
        async with cluster.consumer() as consumer:
            consumer.assign([T0])
            consumer.seek_to_time(T0, TIMESTAMP + 100)
            assert await read(consumer, 1) == [b"100"]

    simulate(scenario)


def test_paused_partitions_are_neither_handed_out_nor_fetched() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        topic = cluster.add_topic(partitions=2)
        for partition in topic.partitions:
            partition.fill(10)
        async with cluster.consumer(topics=["t"]) as consumer:
            await consumer.poll(1, timeout=60)
            consumer.pause(("t", 1))
            cluster.fetches.clear()
            topic.partitions[1].fill(20)
            cluster.tell()
            polled = [record.partition for _ in range(5) for record in await consumer.poll(100, timeout=2)]
            assert set(polled) == {0}
            asked = [each.partition for _, fetch in cluster.fetches[1:] for each in fetch.partitions]
            assert 1 not in asked
            assert consumer.paused() == [("t", 1)]
            consumer.resume()
            polled = [record.partition for _ in range(5) for record in await consumer.poll(100, timeout=2)]
            assert polled.count(1) >= 19

    simulate(scenario)


def test_the_next_fetch_leaves_before_the_application_polls() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        cluster.add_topic().partitions[0].fill(1000)
        async with cluster.consumer(topics=["t"], max_partition_fetch_bytes=1000) as consumer:
            assert len(await consumer.poll(1, timeout=60)) == 1
            await cluster.simulation.clock.sleep(5)
            assert cluster.fetches[-1][1].partitions[0].fetch_offset == 1000

    simulate(scenario)


def test_prefetching_stops_at_its_bound_and_goes_on_when_there_is_room() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        cluster.add_topic().partitions[0].fill(1000)
        options: dict[str, Any] = {"prefetch_bytes": 4000, "max_partition_fetch_bytes": 1000}
        async with cluster.consumer(topics=["t"], **options) as consumer:
            assert len(await consumer.poll(1, timeout=60)) == 1
            await cluster.simulation.clock.sleep(5)
            assert 0 < consumer.statistics().bytes_buffered <= 4000
            count = cluster.count("Fetch")
            await cluster.simulation.clock.sleep(60)
            assert cluster.count("Fetch") == count, "nothing is asked for while the buffer is full"
            assert await read(consumer, 999) == numbers(1, 1000)
            assert consumer.statistics().bytes_buffered == 0

    simulate(scenario)


def test_iteration_yields_every_record_once_and_leaves_the_position_behind_the_last() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        cluster.add_topic(partitions=2)
        for partition in cluster.topics["t"].partitions:
            partition.fill(30)
        async with cluster.consumer(topics=["t"]) as consumer:
            seen = []
            async for record in consumer:
                seen.append((record.partition, record.offset))
                if len(seen) == 17:
                    break
            stands = {each: await consumer.position(each) for each in consumer.assignment()}
            assert sum(stands.values()) == 17
            assert consumer.statistics().records == 17
            seen += [
                (each.partition, each.offset) for _ in range(9) for each in await consumer.poll(5, timeout=1)
            ]
            assert sorted(seen) == [(number, offset) for number in range(2) for offset in range(30)]
            for number in range(2):
                assert [offset for each, offset in seen if each == number] == list(range(30))

    simulate(scenario)


def test_assign_replaces_the_assignment_and_keeps_positions_of_what_stays() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        for partition in cluster.add_topic(partitions=3).partitions:
            partition.fill(10)
        async with cluster.consumer() as consumer:
            consumer.assign([("t", 0), ("t", 1)])
            while await consumer.position(("t", 0)) < 5:
                await consumer.poll(5, timeout=60)
            stood = await consumer.position(("t", 0))
            consumer.assign([("t", 0), ("t", 2)])
            assert consumer.assignment() == [TopicPartition("t", 0), TopicPartition("t", 2)]  # type: ignore[arg-type]
            assert await consumer.position(("t", 0)) == stood
            polled = [each for _ in range(5) for each in await consumer.poll(100, timeout=1)]
            assert {each.partition for each in polled} <= {0, 2}
            with pytest.raises(InvalidRequest, match="t-1 is not assigned"):
                await consumer.position(("t", 1))

    simulate(scenario)


def test_a_topic_that_is_not_there_is_told_and_found_when_it_is_made() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        async with cluster.consumer(topics=["t"]) as consumer:
            with pytest.raises(UnknownTopicOrPartition, match="no topic t"):
                await consumer.poll(timeout=60)
            cluster.add_topic().partitions[0].append(b"x")
            while True:
                try:
                    assert await read(consumer, 1) == [b"x"]
                except UnknownTopicOrPartition:
                    continue
                break

    simulate(scenario)


def test_a_partition_beyond_the_last_is_told() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        cluster.add_topic()
        async with cluster.consumer() as consumer:
            consumer.assign([("t", 7)])
            with pytest.raises(UnknownTopicOrPartition, match="1 partitions"):
                await consumer.poll(timeout=60)

    simulate(scenario)


@pytest.mark.parametrize(
    "options",
    [
        {"auto_offset_reset": "smallest"},
        {"fetch_max_wait_ms": 0},
        {"prefetch_bytes": -1},
        {"fetch_min_bytes": 1.5},
    ],
)
def test_an_option_that_means_nothing_is_refused_by_name(options: Any) -> None:
    with pytest.raises(InvalidConfig, match=next(iter(options))):
        AsyncConsumer("b1:1", **options)


def test_a_poll_for_no_records_is_a_mistake() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        async with cluster.consumer() as consumer:
            with pytest.raises(InvalidRequest, match="max_records"):
                await consumer.poll(0)

    simulate(scenario)


def test_a_closed_consumer_says_so() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        cluster.add_topic().partitions[0].fill(10)
        async with cluster.consumer(topics=["t"]) as consumer:
            await consumer.poll(1, timeout=60)
        await consumer.close()
        with pytest.raises(ClientClosed):
            await consumer.poll()
        with pytest.raises(ClientClosed):
            consumer.seek_to_end()
        with pytest.raises(ClientClosed):
            await anext(consumer)

    simulate(scenario)
