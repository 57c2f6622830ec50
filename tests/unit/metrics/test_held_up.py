"""A stream that a handler stops to read is counted for as long as it is not read, however that ends."""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

from quorate.broker.handlers.produce_stream import ProduceStreamHandler
from quorate.core.served_exchange import ExchangeHandler, RequestListener, ServedExchange
from quorate.core.transport import Call, methods_of
from quorate.node.metrics.measured_transport import MeasuredTransport
from quorate.node.metrics.request import RequestMeter
from quorate.node.metrics.topic import TopicMeter
from quorate.v1 import broker_pb2

STREAM = methods_of(broker_pb2.DESCRIPTOR.services_by_name["BrokerService"])["ProduceStream"]
NAME = ("BrokerService/ProduceStream",)


class Listener:
    """A stream of a broker that has no room after each request."""

    def __init__(self, exchange: ServedExchange) -> None:
        self.exchange = exchange
        self.is_over = False

    def on_request(self, request: Any) -> None:
        self.exchange.pause()

    def on_requests_end(self) -> None: ...
    def on_ready(self) -> None: ...

    def on_over(self) -> None:
        self.is_over = True


class Waiting:
    """A request whose replicas have not answered yet."""

    unanswered = places = 1
    deadline = math.inf


class Client:
    """The transport's side of a stream."""

    is_ready = True

    def __init__(self) -> None:
        self.said: list[str] = []

    def send(self, response: Any, *, is_last: bool = False) -> None: ...
    def end(self, error: Exception | None = None) -> None: ...

    def pause(self) -> None:
        self.said.append("pause")

    def resume(self) -> None:
        self.said.append("resume")


class Handler(ExchangeHandler):
    """Keeps what it may answer through, so that the test is the broker."""

    def __init__(self) -> None:
        self.opened: list[Listener] = []

    def open(self, exchange: ServedExchange, _call: Call) -> RequestListener:
        self.opened.append(Listener(exchange))
        return self.opened[-1]


@dataclass
class Opened:
    client: Client
    handler: Listener
    #: what the transport tells
    listener: RequestListener

    def asks(self) -> None:
        self.listener.on_request(broker_pb2.ProduceStreamRequest())


class Measured:
    def __init__(self) -> None:
        self.now = 100.0
        self.requests = RequestMeter()
        self.handler = Handler()
        self.transport = MeasuredTransport(cast(Any, None), self.requests, TopicMeter(10), lambda: self.now)
        self._measured = self.transport.measured_handler(STREAM, self.handler)
        # Another listener of the same node.
        self.transport.measured_handler(STREAM, Handler())

    def opened(self) -> Opened:
        client = Client()
        assert isinstance(self._measured, ExchangeHandler)
        listener = self._measured.open(client, cast(Any, None))
        return Opened(client, self.handler.opened[-1], listener)

    def told(self) -> tuple[float, float]:
        """How many streams, and how many seconds."""
        found = {
            reading.metric.name: {each.labels: each.value for each in reading.samples}
            for reading in self.requests.read()
        }
        return (
            found["quorate_request_held_up_streams"][NAME],
            found["quorate_request_held_up_seconds_total"][NAME],
        )


def test_stream_that_is_read_is_not_held_up() -> None:
    measured = Measured()
    measured.opened()
    measured.now += 5
    assert measured.told() == (0, 0)


def test_time_is_counted_while_it_passes_and_until_the_stream_is_read_again() -> None:
    measured = Measured()
    stream = measured.opened()
    stream.asks()
    measured.now += 2
    assert measured.told() == (1, 2)
    measured.now += 1
    stream.handler.exchange.resume()
    measured.now += 10
    assert measured.told() == (0, 3)
    assert stream.client.said == ["pause", "resume"]


def test_saying_it_twice_changes_nothing() -> None:
    measured = Measured()
    stream = measured.opened()
    exchange = stream.handler.exchange
    exchange.resume()
    # The transport may have had one more when it was told.
    stream.asks()
    stream.asks()
    measured.now += 2
    exchange.resume()
    exchange.resume()
    measured.now += 2
    assert measured.told() == (0, 2)


def test_streams_that_wait_at_once_count_each() -> None:
    measured = Measured()
    for _ in range(3):
        measured.opened().asks()
    measured.now += 2
    assert measured.told() == (3, 6)


def test_stream_that_ends_is_not_held_up_any_more() -> None:
    measured = Measured()
    stream = measured.opened()
    stream.asks()
    measured.now += 2
    stream.listener.on_over()
    measured.now += 2
    assert measured.told() == (0, 2)
    assert stream.handler.is_over


def test_stream_of_a_node_that_stops_is_held_up_by_nothing() -> None:
    measured = Measured()
    busy, idle = measured.opened(), measured.opened()
    busy.asks()
    measured.now += 2
    for stream in (busy, idle):
        stream.handler.exchange.pause()
    measured.now += 10
    assert measured.told() == (0, 2)
    assert (busy.client.said, idle.client.said) == (["pause", "pause"], ["pause"])


def test_broker_says_so_while_it_takes_a_request_when_it_has_no_room_and_otherwise_when_it_stops() -> None:
    """What the meter tells the two apart by."""
    measured = Measured()
    memory = SimpleNamespace(has_room=False, call_when_room=lambda _: None, hold=lambda _: None)
    appender = SimpleNamespace(begin=lambda *_, **__: Waiting())
    hosted = SimpleNamespace(lease=None)
    broker = ProduceStreamHandler(*(cast(Any, each) for each in (appender, hosted, None, memory)))
    served = measured.transport.measured_handler(STREAM, broker)
    assert isinstance(served, ExchangeHandler)
    listener = served.open(Client(), cast(Any, None))
    served.open(Client(), cast(Any, None))
    listener.on_request(broker_pb2.ProduceStreamRequest())
    measured.now += 2
    broker.stop()
    measured.now += 10
    assert measured.told() == (0, 2)
