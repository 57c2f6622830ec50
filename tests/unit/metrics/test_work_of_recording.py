"""What recording adds to a write: calls, counted, which noise can neither hide nor raise.

A regression here is a decision: where a metric is worth more work, say why and raise the bound. What share of
a write that is, ``python -m bench.metrics --overhead`` measures; ADR 25 has the figures.
"""

from __future__ import annotations

import time
from typing import Any, cast

from quorate.core.served_exchange import ExchangeHandler, ServedExchange
from quorate.core.transport import Call, Handler, methods_of
from quorate.node.metrics.measured_transport import MeasuredTransport
from quorate.node.metrics.request import RequestMeter
from quorate.node.metrics.topic import TopicMeter
from quorate.rpc.traffic import UNMEASURED, MethodTraffic
from quorate.v1 import broker_pb2
from tests.counted_work import counted_calls

METHODS = methods_of(broker_pb2.DESCRIPTOR.services_by_name["BrokerService"])
STREAM = METHODS["ProduceStream"]
REQUESTS = 200
#: calls that recording adds to a request on the stream of producers, which has one batch. One of them asks on
#: behalf of the handler whether the client takes more.
ADDED_MAX = 14


class Answers(ExchangeHandler):
    """A broker that answers each request at once."""

    def open(self, exchange: ServedExchange, _call: Call) -> Answering:
        return Answering(exchange)


class Answering:
    def __init__(self, exchange: ServedExchange) -> None:
        self._exchange = exchange

    def on_request(self, request: broker_pb2.ProduceStreamRequest) -> None:
        assert self._exchange.is_ready
        result = broker_pb2.ProducePartitionResult(topic="orders", base_offset=7, next_offset=8)
        response = broker_pb2.ProduceResponse(partitions=[result])
        self._exchange.send(
            broker_pb2.ProduceStreamResponse(correlation_id=request.correlation_id, response=response)
        )

    def on_requests_end(self) -> None: ...
    def on_ready(self) -> None: ...
    def on_over(self) -> None: ...


class Client:
    """The transport's side of a stream whose client takes all answers."""

    is_ready = True

    def __init__(self, traffic: MethodTraffic) -> None:
        self._traffic = traffic

    def send(self, response: Any, *, is_last: bool = False) -> None:
        self._traffic.sent(50)

    def end(self, error: Exception | None = None) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...


def calls_for_each(handler: Handler, traffic: MethodTraffic) -> float:
    assert isinstance(handler, ExchangeHandler)
    listener = handler.open(Client(traffic), cast(Any, None))

    def serve() -> None:
        for number in range(REQUESTS):
            traffic.received(150)
            listener.on_request(broker_pb2.ProduceStreamRequest(correlation_id=number))

    # What a topic's first write needs is not what every write needs.
    serve()
    with counted_calls() as calls:
        serve()
    return sum(calls.values()) / REQUESTS


def test_recording_adds_no_more_calls_to_a_write_than_it_did() -> None:
    meter = RequestMeter()
    transport = MeasuredTransport(cast(Any, None), meter, TopicMeter(10), time.monotonic)
    bare = calls_for_each(Answers(), UNMEASURED)
    added = calls_for_each(transport.measured_handler(STREAM, Answers()), meter.of(STREAM)) - bare
    assert round(added) <= ADDED_MAX, added
