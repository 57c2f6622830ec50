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
#: What a client sends at once in single requests is in the broker's memory before anybody can refuse it.
_AT_ONCE: Final = 2 * _BOUND_BYTES // _RECORD_BYTES
#: Several: buffers and fragments that a process keeps do not grow any more, leaks do.
_ROUNDS: Final = 3
_SENT_BYTES: Final = _ROUNDS * 2 * _REQUESTS * _RECORD_BYTES
_TIMEOUT_S: Final = 120
#: the code of no error
_ACKNOWLEDGED: Final = ""
#: Nobody leaves the ISR meanwhile, so acknowledgements wait for the follower that stands still.
_PATIENT: Final = {
    "broker.session.timeout.ms": "10m",
    "replica.lag.time.max.ms": "10m",
    "queued.max.request.bytes": str(_BOUND_BYTES),
}


def a_request() -> broker_pb2.ProduceRequest:
    entry = broker_pb2.ProducePartition(topic="t", records=[records_pb2.Record(value=bytes(_RECORD_BYTES))])
    return broker_pb2.ProduceRequest(
        acks=broker_pb2.ACKS_ALL, timeout_ms=_TIMEOUT_S * 1_000, partitions=[entry]
    )


def peak_bytes(drill: Trial, name: str) -> int:
    """The most that was ever resident of the broker's memory."""
    process = drill.cluster.node(name).process
    assert process is not None
    lines = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8").splitlines()
    [line] = [line for line in lines if line.startswith("VmHWM:")]
    return int(line.split()[1]) << 10


async def test_many_times_the_bound_leaves_memory_flat(tmp_path: Path) -> None:
    topics = {"t": {"assignments": {0: [1, 2]}}}
    async with trial(tmp_path, topics, settings=_PATIENT, brokers=2, controllers=1) as drill:
        channel = GrpcioTransport().connect(drill.cluster.node("broker-1").address)
        await channel.call(_PRODUCE, a_request(), timeout_s=_TIMEOUT_S)
        before = peak_bytes(drill, "broker-1")
        for _ in range(_ROUNDS):
            await one_round(drill, channel)
        await channel.close()
        grown = peak_bytes(drill, "broker-1") - before
    assert grown < _SENT_BYTES / 4, f"{grown >> 20} MiB more, for {_SENT_BYTES >> 20} MiB sent"


async def one_round(drill: Trial, channel: Channel) -> None:
    """Ten times the bound in single requests, and as much on streams, while nothing is acknowledged."""
    await drill.cluster.pause("broker-2")
    room = asyncio.Semaphore(_AT_ONCE)
    single = [asyncio.create_task(answer_of_one(channel, room)) for _ in range(_REQUESTS)]
    streams = [asyncio.create_task(answers_of_stream(channel)) for _ in range(_STREAMS)]
    # What is beyond the bound is refused while the follower stands still; what was let in waits for it.
    await until(lambda: is_only_waiting(single), "single requests beyond the bound are refused")
    drill.cluster.resume("broker-2")
    answered = Counter(await asyncio.gather(*single))
    streamed = Counter(code for codes in await asyncio.gather(*streams) for code in codes)
    assert answered.keys() == {_ACKNOWLEDGED, Overloaded.code}
    assert streamed == {_ACKNOWLEDGED: _REQUESTS}, "streams are slowed down, not refused"


async def is_only_waiting(single: list[asyncio.Task[str]]) -> bool:
    return sum(not task.done() for task in single) * _RECORD_BYTES <= _BOUND_BYTES


async def answer_of_one(channel: Channel, room: asyncio.Semaphore) -> str:
    """The code of the error, if it is one."""
    async with room:
        try:
            [result] = (await channel.call(_PRODUCE, a_request(), timeout_s=_TIMEOUT_S)).partitions
        except QuorateError as error:
            return error.code
    return result.error.code


async def answers_of_stream(channel: Channel) -> list[str]:
    async def requests() -> AsyncIterator[broker_pb2.ProduceStreamRequest]:
        for number in range(_REQUESTS // _STREAMS):
            yield broker_pb2.ProduceStreamRequest(correlation_id=number, request=a_request())

    codes = []
    async for message in channel.stream(_STREAM, requests(), timeout_s=_TIMEOUT_S):
        [result] = message.response.partitions
        codes.append(result.error.code)
    return codes
