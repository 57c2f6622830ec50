"""The streams of a broker over the network: how they end, whoever ends them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from quorate.client.transport import client_transport
from quorate.core.clock import SystemClock
from quorate.core.config import NodeConfig
from quorate.core.os_disk import OsDisk
from quorate.core.transport import Call, Channel, Server, Service, methods_of
from quorate.v1 import broker_pb2
from tests.unit.broker.broker_harness import SECOND, SELF, OneBroker
from tests.unit.broker.test_broker_produce_stream import offset_of, request

BROKER_SERVICE = broker_pb2.DESCRIPTOR.services_by_name["BrokerService"]
METHODS = methods_of(BROKER_SERVICE)
#: longer than any test: a stop that waited for it would be noticed
GRACE_S = 600.0


class Served:
    """A broker that serves, a channel to it, and the end of its produce stream."""

    def __init__(self, broker: OneBroker) -> None:
        self.broker = broker
        self.produce_stream_ended = asyncio.Event()
        self.server: Server
        self.channel: Channel

    async def start(self) -> None:
        handlers = {name: self.broker.handler(name) for name in METHODS}
        handlers["ProduceStream"] = self._produce_stream
        transport = client_transport()
        self.server = await transport.serve("127.0.0.1:0", [Service(BROKER_SERVICE, handlers)])
        self.channel = transport.connect(self.server.address)

    async def _produce_stream(self, requests: AsyncIterator[Any], call: Call) -> AsyncGenerator[Any, None]:
        responses = self.broker.handler("ProduceStream")(requests, call)
        try:
            async for response in responses:
                yield response
        finally:
            await responses.aclose()
            self.produce_stream_ended.set()


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    config = NodeConfig(node_id=SELF, data_dir=str(tmp_path))
    disk = OsDisk()
    broker = OneBroker(SystemClock(), disk, config)
    # The second follower never fetches, unless a test does it.
    await broker.create_topic(replicas=(SELF, SECOND))
    served = Served(broker)
    await served.start()
    yield served
    await served.channel.close()
    await served.server.stop(0)
    broker.partition().stop()
    await broker.partition().log.abandon()
    disk.close()


class Requests:
    """Requests of a client that is never done by itself."""

    def __init__(self, count: int) -> None:
        self._count = count

    async def __aiter__(self) -> AsyncIterator[Any]:
        for number in range(self._count):
            yield request(number)
        await asyncio.Event().wait()


async def appended(served: Served, count: int) -> None:
    """Until so many have reached the log: the follower's stream is told of each."""
    leadership = served.broker.partition().leadership
    assert leadership is not None
    grown = asyncio.Event()
    leadership.wake_on_news(SECOND, lambda _: grown.set())
    while served.broker.partition().log.log_end_offset < count:
        grown.clear()
        await grown.wait()


async def test_answers_come_back_in_order(served: Served) -> None:
    responses = served.channel.stream(METHODS["ProduceStream"], Requests(100), timeout_s=None)
    first = asyncio.create_task(anext(responses))
    await appended(served, 100)
    served.broker.follower_fetches(SECOND, 100)
    assert offset_of(await first) == 0
    for number in range(1, 100):
        assert offset_of(await anext(responses)) == number
    await responses.aclose()
    await served.produce_stream_ended.wait()


async def test_client_that_goes_away_frees_what_it_held(served: Served) -> None:
    responses = served.channel.stream(METHODS["ProduceStream"], Requests(50), timeout_s=None)
    first = asyncio.create_task(anext(responses))
    await appended(served, 50)
    first.cancel()
    await asyncio.wait([first])
    await responses.aclose()
    await served.produce_stream_ended.wait()
    leadership = served.broker.partition().leadership
    assert leadership is not None
    assert all(waiter.on_done is None for waiter in leadership._waiters._queue)


async def test_stop_does_not_wait_for_streams_that_are_idle(served: Served) -> None:
    produce = served.channel.stream(METHODS["ProduceStream"], Requests(1), timeout_s=None)
    fetch = served.channel.stream(METHODS["FetchStream"], Requests(0), timeout_s=None)
    ending = [asyncio.create_task(_rest_of(each)) for each in (produce, fetch)]
    await appended(served, 1)
    served.broker.service.release_waiting()
    served.broker.follower_fetches(SECOND, 1)
    await served.server.stop(GRACE_S)
    produced, fetched = [await task for task in ending]
    assert [offset_of(response) for response in produced] == [0]
    assert fetched == []


async def _rest_of(responses: AsyncGenerator[Any, None]) -> list[Any]:
    return [response async for response in responses]
