"""What recording adds to a write: calls, counted, which noise can neither hide nor raise.

A regression here is a decision: where a metric is worth more work, say why and raise the bound. What share of
a write that is, ``python -m bench.metrics --overhead`` measures; ADR 25 has the figures.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, cast

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
#: calls that recording adds to a request on the stream of producers, which has one batch
ADDED_MAX = 13


async def answers(
    requests: AsyncIterator[Any], _call: Call
) -> AsyncGenerator[broker_pb2.ProduceStreamResponse, None]:
    async for request in requests:
        result = broker_pb2.ProducePartitionResult(topic="orders", base_offset=7, next_offset=8)
        response = broker_pb2.ProduceResponse(partitions=[result])
        yield broker_pb2.ProduceStreamResponse(correlation_id=request.correlation_id, response=response)


async def requests(traffic: MethodTraffic) -> AsyncGenerator[broker_pb2.ProduceStreamRequest, None]:
    for number in range(REQUESTS):
        traffic.received(150)
        yield broker_pb2.ProduceStreamRequest(correlation_id=number)


async def calls_for_each(handler: Handler, traffic: MethodTraffic) -> float:
    async def serve() -> None:
        async for _ in cast(Any, handler)(requests(traffic), None):
            traffic.sent(50)

    # What a topic's first write needs is not what every write needs.
    await serve()
    with counted_calls() as calls:
        await serve()
    return sum(calls.values()) / REQUESTS


def test_recording_adds_no_more_calls_to_a_write_than_it_did() -> None:
    meter = RequestMeter()
    transport = MeasuredTransport(cast(Any, None), meter, TopicMeter(10), time.monotonic)
    measured = transport.measured_handler(STREAM, answers)
    bare = asyncio.run(calls_for_each(answers, UNMEASURED))
    added = asyncio.run(calls_for_each(measured, meter.of(STREAM))) - bare
    assert round(added) <= ADDED_MAX, added
