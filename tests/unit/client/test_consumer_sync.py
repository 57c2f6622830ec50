"""The synchronous consumer: another thread, the same behaviour; over real gRPC, to a log in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from quorate.client.background import BackgroundLoop
from quorate.client.consumer import Consumer
from quorate.client.transport import client_transport
from quorate.core.transport import Server
from quorate.errors import ClientClosed, InvalidConfig, LogTruncated, OffsetOutOfRange
from tests.unit.client.fake_log_broker import T0, TIMESTAMP, FakeBroker, FakeState, numbers


class LocalBroker(FakeState):
    """One broker on the loop that clients share; its log is written on the test's thread."""

    def __init__(self, background: BackgroundLoop) -> None:
        super().__init__({})
        self._background = background

    async def start(self) -> Server:
        server = await client_transport().serve("127.0.0.1:0", [FakeBroker(1, self).service()])
        self.addresses[1] = server.address
        self.alive.append(1)
        return server

    def fill(self, count: int, *, partition: int = 0) -> None:
        async def fill() -> None:
            self.topics["t"].partitions[partition].fill(count)
            self.tell()

        self._background.call(fill())


@pytest.fixture
def broker() -> Iterator[LocalBroker]:
    background = BackgroundLoop.acquire()
    broker = LocalBroker(background)
    server = background.call(broker.start())
    topic = broker.add_topic()
    topic.partitions[0].isr = [1]
    try:
        yield broker
    finally:
        background.call(server.stop(0))
        background.release()


def consumer_of(broker: LocalBroker, **options: Any) -> Consumer:
    return Consumer(broker.addresses[1], **options)


def read(consumer: Consumer, count: int) -> list[bytes | None]:
    values: list[bytes | None] = []
    while len(values) < count:
        values += [record.value for record in consumer.poll(count - len(values), timeout=10)]
    return values


def test_poll_seek_position_lag_and_pause(broker: LocalBroker) -> None:
    broker.fill(100)
    with consumer_of(broker, topics=["t"]) as consumer:
        assert read(consumer, 100) == numbers(0, 100)
        assert consumer.position(T0) == 100
        assert consumer.lag() == {T0: 0}
        consumer.seek(T0, 90)
        assert read(consumer, 10) == numbers(90, 100)
        consumer.seek_to_time(T0, TIMESTAMP + 55)
        assert consumer.position(T0) == 55
        consumer.pause()
        assert consumer.paused() == consumer.assignment() == [T0]
        assert consumer.poll(timeout=0.05) == []
        consumer.resume(T0)
        assert read(consumer, 1) == [b"55"]
        consumer.seek_to_end()
        assert consumer.poll(timeout=0) == []
        broker.fill(101)
        assert consumer.statistics().records == 111


def test_a_poll_waits_for_records_that_are_written_meanwhile(broker: LocalBroker) -> None:
    with consumer_of(broker, fetch_max_wait_ms=20_000) as consumer:
        consumer.assign([T0])
        assert consumer.position(T0) == 0
        broker.fill(5)
        assert read(consumer, 5) == numbers(0, 5)


def test_iteration_and_poll_may_be_mixed(broker: LocalBroker) -> None:
    broker.fill(100)
    with consumer_of(broker, topics=["t"]) as consumer:
        values = []
        for record in consumer:
            values.append(record.value)
            if len(values) == 33:
                break
        assert consumer.position(T0) == 33
        values += [record.value for record in consumer.poll(17)]
        values += [next(consumer).value for _ in range(50)]
        assert values == numbers(0, 100)


def test_a_small_buffer_is_filled_again_while_the_other_thread_polls(broker: LocalBroker) -> None:
    broker.fill(5_000)
    with consumer_of(broker, topics=["t"], prefetch_bytes=4_000, max_partition_fetch_bytes=1_000) as consumer:
        assert read(consumer, 5_000) == numbers(0, 5_000)


def test_errors_are_raised_on_the_applications_thread(broker: LocalBroker) -> None:
    broker.fill(10)
    with consumer_of(broker, topics=["t"]) as consumer:
        assert read(consumer, 10) == numbers(0, 10)
        consumer.seek(T0, 5000)
        with pytest.raises(OffsetOutOfRange):
            consumer.poll(timeout=10)
        consumer.seek(T0, 5, leader_epoch=0)
        with pytest.raises(LogTruncated):
            consumer.poll(timeout=10)
        consumer.seek(T0, 5, leader_epoch=1)
        assert read(consumer, 5) == numbers(5, 10)


def test_two_consumers_share_one_loop(broker: LocalBroker) -> None:
    broker.fill(10)
    with consumer_of(broker, topics=["t"]) as first, consumer_of(broker, topics=["t"]) as second:
        assert read(first, 10) == read(second, 10)


def test_a_closed_consumer_says_so(broker: LocalBroker) -> None:
    consumer = consumer_of(broker, topics=["t"])
    consumer.close()
    consumer.close()
    for use in (consumer.poll, consumer.lag, consumer.seek_to_end, lambda: next(consumer)):
        with pytest.raises(ClientClosed):
            use()


def test_a_refused_option_leaves_no_thread_behind() -> None:
    with pytest.raises(InvalidConfig):
        Consumer("127.0.0.1:1", group="")
    assert BackgroundLoop._shared is None


def test_no_event_loop_is_needed_on_the_applications_thread(broker: LocalBroker) -> None:
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()
    with consumer_of(broker, topics=["t"]) as consumer:
        assert consumer.poll(timeout=0.01) == []
