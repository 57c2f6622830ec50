"""A stream that a handler stops to read is counted for as long as it is not read, however that ends."""

from __future__ import annotations

from typing import Any, cast

from quorate.core.served_exchange import ExchangeHandler, RequestListener, ServedExchange
from quorate.core.transport import Call, methods_of
from quorate.node.metrics.measured_transport import MeasuredTransport
from quorate.node.metrics.request import RequestMeter
from quorate.node.metrics.topic import TopicMeter
from quorate.v1 import broker_pb2

STREAM = methods_of(broker_pb2.DESCRIPTOR.services_by_name["BrokerService"])["ProduceStream"]
NAME = ("BrokerService/ProduceStream",)


class Listener:
    def on_request(self, request: Any) -> None: ...
    def on_requests_end(self) -> None: ...
    def on_ready(self) -> None: ...

    def __init__(self) -> None:
        self.is_over = False

    def on_over(self) -> None:
        self.is_over = True


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
        self.exchanges: list[ServedExchange] = []
        self.listener = Listener()

    def open(self, exchange: ServedExchange, _call: Call) -> RequestListener:
        self.exchanges.append(exchange)
        return self.listener


class Measured:
    def __init__(self) -> None:
        self.now = 100.0
        self.requests = RequestMeter()
        self.handler = Handler()
        transport = MeasuredTransport(cast(Any, None), self.requests, TopicMeter(10), lambda: self.now)
        self._measured = transport.measured_handler(STREAM, self.handler)
        # Another listener of the same node.
        transport.measured_handler(STREAM, Handler())

    def opened(self) -> tuple[Client, ServedExchange, RequestListener]:
        client = Client()
        assert isinstance(self._measured, ExchangeHandler)
        listener = self._measured.open(client, cast(Any, None))
        return client, self.handler.exchanges[-1], listener

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
    client, exchange, _ = measured.opened()
    exchange.pause()
    measured.now += 2
    assert measured.told() == (1, 2)
    measured.now += 1
    exchange.resume()
    measured.now += 10
    assert measured.told() == (0, 3)
    assert client.said == ["pause", "resume"]


def test_saying_it_twice_changes_nothing() -> None:
    measured = Measured()
    _, exchange, _ = measured.opened()
    exchange.resume()
    exchange.pause()
    exchange.pause()
    measured.now += 2
    exchange.resume()
    exchange.resume()
    measured.now += 2
    assert measured.told() == (0, 2)


def test_streams_that_wait_at_once_count_each() -> None:
    measured = Measured()
    for _ in range(3):
        measured.opened()[1].pause()
    measured.now += 2
    assert measured.told() == (3, 6)


def test_stream_that_ends_is_not_held_up_any_more() -> None:
    measured = Measured()
    _, exchange, listener = measured.opened()
    exchange.pause()
    measured.now += 2
    listener.on_over()
    measured.now += 2
    assert measured.told() == (0, 2)
    assert measured.handler.listener.is_over
