"""A real broker whose clients send ten times what it may hold: its memory stays where it was."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from quorate.core.transport import Channel, method_of
from quorate.errors import Overloaded, QuorateError
from quorate.rpc.grpcio_transport import GrpcioTransport
from quorate.v1 import broker_pb2, records_pb2
from tests.integration.trials import Trial, trial, until

_SERVICE: Final = broker_pb2.DESCRIPTOR.services_by_name["BrokerService"]
_PRODUCE: Final = method_of(_SERVICE, "Produce", broker_pb2.ProduceRequest, broker_pb2.ProduceResponse)
_STREAM: Final = method_of(
    _SERVICE, "ProduceStream", broker_pb2.ProduceStreamRequest, broker_pb2.ProduceStreamResponse
)

_BOUND_BYTES: Final = 8 << 20
_RECORD_BYTES: Final = 512 << 10
_REQUESTS: Final = 10 * _BOUND_BYTES // _RECORD_BYTES
_STREAMS: Final = 4
#: Nobody leaves the ISR meanwhile, so acknowledgements wait for the follower that stands still.
_PATIENT: Final = {
    "broker.session.timeout.ms": "10m",
    "replica.lag.time.max.ms": "10m",
    "queued.max.request.bytes": str(_BOUND_BYTES),
}


def a_request() -> broker_pb2.ProduceRequest:
    entry = broker_pb2.ProducePartition(topic="t", records=[records_pb2.Record(value=bytes(_RECORD_BYTES))])
    return broker_pb2.ProduceRequest(acks=broker_pb2.ACKS_ALL, timeout_ms=120_000, partitions=[entry])


def resident_bytes(drill: Trial, name: str, what: str = "VmHWM") -> int:
    """The most that it ever was."""
    process = drill.cluster.node(name).process
    assert process is not None
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    [line] = [line for line in lines if line.startswith(f"{what}:")]
    return int(line.split()[1]) << 10


async def test_ten_times_the_bound_in_requests_leaves_memory_flat(tmp_path: Path) -> None:
    topics = {"t": {"assignments": {0: [1, 2]}}}
    async with trial(tmp_path, topics, settings=_PATIENT, brokers=2, controllers=1) as drill:
        channel = GrpcioTransport().connect(drill.cluster.node("broker-1").address)
        await channel.call(_PRODUCE, a_request(), timeout_s=60)
        before = resident_bytes(drill, "broker-1")
        await drill.cluster.pause("broker-2")
        alone = [asyncio.create_task(answer(channel)) for _ in range(_REQUESTS)]
        streams = [asyncio.create_task(answers(channel, _REQUESTS // _STREAMS)) for _ in range(_STREAMS)]
        # Refusals are answered while the follower stands still; whoever was let in waits for it.
        await until(lambda: has_refused(alone), "requests beyond the bound are refused")
        drill.cluster.resume("broker-2")
        answered = Counter(await asyncio.gather(*alone))
        streamed = Counter(code for codes in await asyncio.gather(*streams) for code in codes)
        await channel.close()
        grown = resident_bytes(drill, "broker-1") - before
        print(grown / (1 << 20), answered, streamed)
    assert streamed == {"": _REQUESTS}, "streams are slowed down, not refused"
    assert answered.keys() == {"", Overloaded.code}
    assert grown < 4 * _BOUND_BYTES


async def has_refused(tasks: list[asyncio.Task[str]]) -> bool:
    return Overloaded.code in (task.result() for task in tasks if task.done())


async def answer(channel: Channel) -> str:
    """The error code; empty: acknowledged."""
    try:
        [result] = (await channel.call(_PRODUCE, a_request(), timeout_s=120)).partitions
    except QuorateError as error:
        return error.code
    return result.error.code


async def answers(channel: Channel, count: int) -> list[str]:
    async def requests() -> AsyncIterator[broker_pb2.ProduceStreamRequest]:
        for number in range(count):
            yield broker_pb2.ProduceStreamRequest(correlation_id=number, request=a_request())

    codes = []
    async for message in channel.stream(_STREAM, requests(), timeout_s=120):
        [result] = message.response.partitions
        codes.append(message.error.code or result.error.code)
    return codes
