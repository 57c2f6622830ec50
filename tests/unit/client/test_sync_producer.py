"""The producer for threads, on a real network: one background loop, and nothing waits for ever."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from quorate.client import Producer, RecordFuture
from quorate.client.background import BackgroundLoop
from quorate.errors import ClientClosed, InvalidRequest, QuorateError
from tests.unit.client.null_broker import NullBroker

TIMEOUT_S = 30.0


@pytest.fixture
def address() -> Iterator[str]:
    background = BackgroundLoop.acquire()
    broker = NullBroker(partitions=3)
    yield background.call(broker.start())
    background.call(broker.stop())
    background.release()


def client_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "quorate-client"]


def test_futures_say_where_records_are(address: str) -> None:
    with Producer(address) as producer:
        futures = [producer.send("t", str(number), partition=0) for number in range(100)]
        assert [future.result(TIMEOUT_S).offset for future in futures] == list(range(100))
        assert futures[0].exception() is None
        places = producer.send_many("t", [b"x"] * 1000, partition=1).result(TIMEOUT_S)
        assert [place.offset for place in places] == list(range(1000))
        producer.flush(TIMEOUT_S)
        assert producer.statistics().records_acknowledged == 1100


def test_many_threads_share_a_producer_and_all_clients_one_loop(address: str) -> None:
    with Producer(address) as producer, Producer(address):
        results: list[int | None] = []

        def send() -> None:
            futures = [producer.send("t", b"x", partition=2) for _ in range(200)]
            results.extend(future.result(TIMEOUT_S).offset for future in futures)

        threads = [threading.Thread(target=send) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(results, key=lambda offset: offset or 0) == list(range(800))
        assert len(client_threads()) == 1


def test_background_loop_ends_with_its_last_client() -> None:
    with Producer("127.0.0.1:1"):
        assert len(client_threads()) == 1
    assert not client_threads()


def test_callback_may_send_but_not_wait(address: str) -> None:
    with Producer(address) as producer:
        second: list[RecordFuture] = []
        errors: list[Exception] = []
        done = threading.Event()

        def on_delivery(metadata: object, error: QuorateError | None) -> None:
            second.append(producer.send("t", b"from a callback"))
            for wait in (second[0].result, producer.flush):
                try:
                    wait()
                except InvalidRequest as refused:
                    errors.append(refused)
            done.set()

        producer.send("t", b"first", on_delivery=on_delivery)
        assert done.wait(TIMEOUT_S)
        assert len(errors) == 2
        assert second[0].result(TIMEOUT_S).topic == "t"


async def test_future_of_a_synchronous_producer_can_be_awaited_on_another_loop(address: str) -> None:
    with Producer(address) as producer:
        assert (await producer.send("t", b"x", partition=0)).offset == 0
        assert len(await producer.send_many("t", [b"x"] * 10)) == 10


def test_waiting_ends_after_its_time_and_with_the_producer(address: str) -> None:
    producer = Producer(address, linger_ms=60_000)
    future = producer.send("t", b"x")
    with pytest.raises(TimeoutError):
        future.result(timeout=0.01)
    with pytest.raises(TimeoutError):
        future.exception(timeout=0.01)
    assert not future.done()
    producer.close()
    assert future.result(TIMEOUT_S).offset == 0
    producer.close()
    with pytest.raises(ClientClosed):
        producer.send("t", b"x")


def test_call_that_meets_a_closed_loop_is_refused() -> None:
    background = BackgroundLoop.acquire()
    background.release()
    with pytest.raises(ClientClosed):
        background.call(asyncio.sleep(0))
