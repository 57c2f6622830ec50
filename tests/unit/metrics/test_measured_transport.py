"""Calls are measured at the seam, and nobody on either side of it can tell."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import pytest

from quorate.chaos.sim.clock import Simulation, run_simulation
from quorate.chaos.sim.network import SimNetwork
from quorate.chaos.sim.transport import SimTransport
from quorate.core.metrics import MetricSource
from quorate.core.served_exchange import ExchangeHandler, RequestListener, ServedExchange
from quorate.core.transport import Call, Handler, Service, Transport, call_once, methods_of
from quorate.errors import NotEnoughReplicas, Overloaded, QuorateError, UnknownServerError
from quorate.node.metrics.measured_transport import MeasuredTransport
from quorate.node.metrics.request import RequestMeter
from quorate.node.metrics.topic import TopicMeter
from quorate.rpc.error_detail import detail_from_error
from quorate.rpc.grpcio_transport import GrpcioOptions, GrpcioTransport
from quorate.rpc.lean.transport import LeanOptions, LeanTransport
from quorate.v1 import broker_pb2
from quorate.v1.broker_pb2 import (
    FetchStreamRequest,
    FetchStreamResponse,
    ProducePartition,
    ProducePartitionResult,
    ProduceRequest,
    ProduceResponse,
    ProduceStreamRequest,
    ProduceStreamResponse,
)

DESCRIPTOR = broker_pb2.DESCRIPTOR.services_by_name["BrokerService"]
METHODS = methods_of(DESCRIPTOR)
TOO_FEW = detail_from_error(NotEnoughReplicas("one of two"))


class Meters:
    """A transport with what it records; ``now`` advances by a second with every look at it."""

    def __init__(
        self, transport: Transport, requests: RequestMeter | None = None, topics_max: int = 2
    ) -> None:
        self.requests = requests or RequestMeter()
        self.topics = TopicMeter(topics_max)
        self._now = 0.0
        self.transport = MeasuredTransport(transport, self.requests, self.topics, self._tick)

    def _tick(self) -> float:
        self._now += 1
        return self._now


def told(source: MetricSource, name: str) -> dict[tuple[str, ...], float]:
    """By labels; of a histogram: how many it has counted."""
    for reading in source.read():
        if reading.metric.name == name:
            return {each.labels: each.value for each in reading.samples if each.suffix in ("", "_count")}
    raise AssertionError(name)


def result(topic: str, records: int = 1, **fields: Any) -> ProducePartitionResult:
    return ProducePartitionResult(topic=topic, base_offset=10, next_offset=10 + records, **fields)


def service(**handlers: Handler) -> Service:
    async def refuse(_request: Any, _call: Call) -> Any:
        raise AssertionError("nobody asks for it")

    nobody: dict[str, Handler] = dict.fromkeys(METHODS, refuse)
    return Service(DESCRIPTOR, {**nobody, "ProduceStream": AnswersOutOfOrder(), **handlers})


async def answer_with(meters: Meters, response: ProduceResponse | Exception) -> ProduceResponse:
    async def produce(_request: ProduceRequest, _call: Call) -> ProduceResponse:
        if isinstance(response, Exception):
            raise response
        return response

    server = await meters.transport.serve("node:1", [service(Produce=produce)])
    try:
        found = await call_once(
            meters.transport, server.address, METHODS["Produce"], ProduceRequest(), timeout_s=5
        )
        assert isinstance(found, ProduceResponse)
        return found
    finally:
        await server.stop(0)


def simulated(scenario: Any, **options: Any) -> None:
    async def run(simulation: Simulation) -> None:
        network = SimNetwork(simulation.loop, simulation.rng)
        await scenario(Meters(SimTransport(network, "node"), **options))

    run_simulation(run, seed=1)


def test_answer_passes_as_it_is_and_its_topics_are_timed() -> None:
    response = ProduceResponse(partitions=[result("orders", 3), result("orders", 2), result("audit")])

    async def scenario(meters: Meters) -> None:
        assert await answer_with(meters, response) == response
        assert told(meters.requests, "quorate_request_seconds") == {("BrokerService/Produce", "ok"): 1}
        assert told(meters.topics, "quorate_topic_produce_seconds") == {("orders",): 2, ("audit",): 1}
        assert told(meters.topics, "quorate_topic_produced_records_total") == {("orders",): 5, ("audit",): 1}

    simulated(scenario)


@pytest.mark.parametrize(
    ("failure", "code"),
    [(NotEnoughReplicas("one of two"), NotEnoughReplicas.code), (ValueError("no"), UnknownServerError.code)],
)
def test_failure_reaches_the_caller_and_is_counted_by_its_code(failure: Exception, code: str) -> None:
    async def scenario(meters: Meters) -> None:
        with pytest.raises(QuorateError) as caught:
            await answer_with(meters, failure)
        assert caught.value.code == code
        assert told(meters.requests, "quorate_request_errors_total") == {("BrokerService/Produce", code): 1}
        assert told(meters.requests, "quorate_request_seconds") == {("BrokerService/Produce", "error"): 1}

    simulated(scenario)


def test_caller_who_goes_away_is_counted_as_such() -> None:
    async def scenario(meters: Meters) -> None:
        begun = asyncio.Event()

        async def wait(_request: ProduceRequest, _call: Call) -> ProduceResponse:
            begun.set()
            return await asyncio.Event().wait()  # type: ignore[return-value]  # it never does

        server = await meters.transport.serve("node:1", [service(Produce=wait)])
        channel = meters.transport.connect(server.address)
        calling = asyncio.create_task(channel.call(METHODS["Produce"], ProduceRequest(), timeout_s=60))
        await begun.wait()
        calling.cancel()
        await asyncio.wait([calling])
        await channel.close()
        await server.stop(0)
        assert told(meters.requests, "quorate_request_errors_total") == {
            ("BrokerService/Produce", "CANCELLED"): 1
        }

    simulated(scenario)


def test_topics_that_do_not_fit_are_left_out_and_counted() -> None:
    async def scenario(meters: Meters) -> None:
        partitions = [result(name) for name in ("a", "b", "c", "d", "c")]
        await answer_with(meters, ProduceResponse(partitions=partitions))
        assert told(meters.topics, "quorate_topic_produce_seconds").keys() == {("a",), ("b",)}
        assert told(meters.topics, "quorate_topic_left_out_topics") == {(): 2}
        # One is deleted: the next that is written to has its place.
        meters.topics.attach(lambda: {"b", "c"})
        await meters.topics.look()
        await answer_with(meters, ProduceResponse(partitions=[result("c")]))
        assert told(meters.topics, "quorate_topic_produce_seconds").keys() == {("b",), ("c",)}
        assert told(meters.topics, "quorate_topic_left_out_topics") == {(): 0}

    simulated(scenario, topics_max=2)


def test_topic_that_is_merely_named_gets_no_numbers_of_its_own() -> None:
    async def scenario(meters: Meters) -> None:
        refused = ProducePartitionResult(topic="made-up", error=TOO_FEW)
        await answer_with(meters, ProduceResponse(partitions=[refused]))
        await answer_with(meters, ProduceResponse(partitions=[result("orders")]))
        refused = ProducePartitionResult(topic="orders", error=TOO_FEW)
        await answer_with(meters, ProduceResponse(partitions=[refused]))
        assert told(meters.topics, "quorate_topic_produce_errors_total") == {
            ("", NotEnoughReplicas.code): 1,
            ("orders", NotEnoughReplicas.code): 1,
        }
        assert told(meters.topics, "quorate_topic_produce_seconds") == {("orders",): 1}

    simulated(scenario)


class AnswersOutOfOrder(ExchangeHandler):
    """Three requests, the last one first; the second is refused."""

    def open(self, exchange: ServedExchange, _call: Call) -> RequestListener:
        return _ThreeRequests(exchange)


class _ThreeRequests:
    def __init__(self, exchange: ServedExchange) -> None:
        self._exchange = exchange
        self._came: list[ProduceStreamRequest] = []
        self._is_answering = False

    def on_request(self, request: ProduceStreamRequest) -> None:
        self._came.append(request)
        if len(self._came) == 3:
            self._is_answering = True
            self.on_ready()

    def on_ready(self) -> None:
        while self._is_answering and self._exchange.is_ready and self._came:
            self._exchange.send(self._answer(self._came.pop()))
        if self._is_answering and not self._came:
            self._exchange.end()

    def _answer(self, request: ProduceStreamRequest) -> ProduceStreamResponse:
        answer = ProduceStreamResponse(correlation_id=request.correlation_id)
        if request.correlation_id == 1:
            answer.error.CopyFrom(TOO_FEW)
        else:
            answer.response.partitions.append(result(request.request.partitions[0].topic))
        return answer

    def on_requests_end(self) -> None: ...
    def on_over(self) -> None: ...


async def stream_requests() -> AsyncGenerator[ProduceStreamRequest, None]:
    for number in range(3):
        partition = ProducePartition(topic="orders", batch=b"x" * 1_000)
        yield ProduceStreamRequest(correlation_id=number, request=ProduceRequest(partitions=[partition]))


async def stream(meters: Meters, address: str) -> None:
    server = await meters.transport.serve(address, [service()])
    channel = meters.transport.connect(server.address)
    numbers = [
        answer.correlation_id
        async for answer in channel.stream(METHODS["ProduceStream"], stream_requests(), timeout_s=5)
    ]
    await channel.close()
    await server.stop(0)
    assert numbers == [2, 1, 0]


def test_requests_of_a_stream_are_timed_by_their_numbers() -> None:
    async def scenario(meters: Meters) -> None:
        await stream(meters, "node:1")
        name = "BrokerService/ProduceStream"
        assert told(meters.requests, "quorate_request_seconds") == {(name, "ok"): 2, (name, "error"): 1}
        assert told(meters.requests, "quorate_request_errors_total") == {(name, NotEnoughReplicas.code): 1}
        [reading] = [r for r in meters.topics.read() if r.metric.name == "quorate_topic_produce_seconds"]
        # Each looks at the clock once when it comes and once when it is answered: 1 and 6, 3 and 4.
        assert [each.value for each in reading.samples if each.suffix == "_sum"] == [6]

    simulated(scenario)


def test_fetches_of_a_stream_are_timed_and_their_errors_counted() -> None:
    async def fetch(
        requests: AsyncIterator[FetchStreamRequest], _call: Call
    ) -> AsyncGenerator[FetchStreamResponse, None]:
        async for request in requests:
            error = TOO_FEW if request.correlation_id == 1 else None
            yield FetchStreamResponse(correlation_id=request.correlation_id, error=error)

    async def requests() -> AsyncGenerator[FetchStreamRequest, None]:
        for number in range(3):
            yield FetchStreamRequest(correlation_id=number)

    async def scenario(meters: Meters) -> None:
        server = await meters.transport.serve("node:1", [service(FetchStream=fetch)])
        channel = meters.transport.connect(server.address)
        answers = channel.stream(METHODS["FetchStream"], requests(), timeout_s=5)
        assert [answer.correlation_id async for answer in answers] == [0, 1, 2]
        await channel.close()
        await server.stop(0)
        name = "BrokerService/FetchStream"
        assert told(meters.requests, "quorate_request_seconds") == {(name, "ok"): 2, (name, "error"): 1}
        assert told(meters.requests, "quorate_request_errors_total") == {(name, NotEnoughReplicas.code): 1}

    simulated(scenario)


@pytest.mark.parametrize("kind", ["grpcio", "lean"])
async def test_transports_tell_how_large_messages_are(kind: str) -> None:
    requests = RequestMeter()
    transport: Transport = (
        GrpcioTransport(GrpcioOptions(traffic=requests))
        if kind == "grpcio"
        else LeanTransport(LeanOptions(traffic=requests))
    )
    meters = Meters(transport, requests)
    await stream(meters, "127.0.0.1:0")
    assert told(requests, "quorate_request_received_bytes") == {("BrokerService/ProduceStream",): 3}
    assert told(requests, "quorate_request_sent_bytes") == {("BrokerService/ProduceStream",): 3}
    [reading] = [r for r in requests.read() if r.metric.name == "quorate_request_received_bytes"]
    [total] = [each.value for each in reading.samples if each.suffix == "_sum"]
    written = [message.ByteSize() async for message in stream_requests()]
    assert total == sum(written)


@pytest.mark.parametrize("kind", ["grpcio", "lean"])
async def test_who_is_refused_before_a_handler_has_the_request_is_counted(kind: str) -> None:
    requests = RequestMeter()
    transport: Transport = (
        GrpcioTransport(GrpcioOptions(traffic=requests, requests_max=1))
        if kind == "grpcio"
        else LeanTransport(LeanOptions(traffic=requests, requests_max=1))
    )
    meters = Meters(transport, requests)
    is_let_in, may_end = asyncio.Event(), asyncio.Event()

    async def produce(_request: ProduceRequest, _call: Call) -> ProduceResponse:
        is_let_in.set()
        await may_end.wait()
        return ProduceResponse(partitions=[result("orders")])

    server = await meters.transport.serve("127.0.0.1:0", [service(Produce=produce)])
    channel = meters.transport.connect(server.address)
    try:
        first = asyncio.create_task(channel.call(METHODS["Produce"], ProduceRequest(), timeout_s=5))
        await is_let_in.wait()
        with pytest.raises(Overloaded):
            await channel.call(METHODS["Produce"], ProduceRequest(), timeout_s=5)
        may_end.set()
        await first
    finally:
        await channel.close()
        await server.stop(0)
    name = "BrokerService/Produce"
    assert told(requests, "quorate_request_errors_total") == {(name, Overloaded.code): 1}
    assert told(requests, "quorate_request_seconds") == {(name, "ok"): 1}
