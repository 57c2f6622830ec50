"""A real broker whose clients send, begin or ask for ten times what it may hold: its memory stays bounded.

Of its memory the broker counts the bytes of requests and answers. grpcio needs more: a message is in its
buffers, in one piece, and parsed or built, for a moment all three at once; requests that wait for their turn
lie in their flow-control windows; and the allocator keeps what it had. So growth is compared with a small
multiple of the bound, and what is sent is many times that.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import grpc

from quorate.client.transport import client_transport
from quorate.core.transport import Channel, method_of
from quorate.errors import Overloaded, QuorateError
from quorate.v1 import broker_pb2, records_pb2
from tests.integration.rude_http2 import UnfinishedRequests
from tests.integration.trials import Trial, trial, until

_SERVICE: Final = broker_pb2.DESCRIPTOR.services_by_name["BrokerService"]
_PRODUCE: Final = method_of(_SERVICE, "Produce", broker_pb2.ProduceRequest, broker_pb2.ProduceResponse)
_FETCH: Final = method_of(_SERVICE, "Fetch", broker_pb2.FetchRequest, broker_pb2.FetchResponse)
_STREAM: Final = method_of(
    _SERVICE, "ProduceStream", broker_pb2.ProduceStreamRequest, broker_pb2.ProduceStreamResponse
)

_BOUND_BYTES: Final = 8 << 20
_RECORD_BYTES: Final = 512 << 10
_REQUESTS: Final = 10 * _BOUND_BYTES // _RECORD_BYTES
_STREAMS: Final = 4
_MESSAGE_BYTES_MAX: Final = 4 << 20
#: requests that are read at once, however large they may be; see GrpcioOptions.reading_turns
_TURNS: Final = 8
_ANSWER_BYTES: Final = 1 << 20
#: Several: buffers and fragments that a process keeps do not grow any more, leaks do.
_ROUNDS: Final = 2
#: enough for answers of full size
_WARM_UP: Final = 4
_TIMEOUT_S: Final = 120
#: the code of no error
_ACKNOWLEDGED: Final = ""
#: Nobody leaves the ISR meanwhile, so acknowledgements wait for the follower that stands still.
_SETTINGS: Final = {
    "broker.session.timeout.ms": "10m",
    "replica.lag.time.max.ms": "10m",
    "queued.max.request.bytes": str(_BOUND_BYTES),
    "queued.max.response.bytes": str(_BOUND_BYTES),
    "socket.request.max.bytes": str(_MESSAGE_BYTES_MAX),
    "fetch.max.bytes": str(_ANSWER_BYTES),
    "replica.fetch.response.max.bytes": str(_ANSWER_BYTES),
}


async def test_clients_hold_a_small_multiple_of_the_bound_whatever_they_do(tmp_path: Path) -> None:
    topics = {"t": {"assignments": {0: [1, 2]}}}
    async with trial(tmp_path, topics, settings=_SETTINGS, brokers=2, controllers=1) as drill:
        channel = client_transport().connect(drill.cluster.node("broker-1").address)
        for _ in range(_WARM_UP):
            await until(lambda: is_acknowledged(channel), "the broker leads")
        growth = growth_of(drill)
        await answers_that_nobody_reads(drill, channel)
        # An answer is held by grpcio and by Python.
        assert growth() < 4 * _BOUND_BYTES, f"answers: {growth() >> 20} MiB more"
        for _ in range(_ROUNDS):
            await many_times_the_bound_at_once(drill, channel)
        # Both kinds have a bound of this size, and a message is held three times over while it is taken in;
        # besides, each call has its window.
        assert growth() < 8 * _BOUND_BYTES, f"requests: {growth() >> 20} MiB more"
        await requests_that_never_end(drill, channel)
        # Each is in pieces that grpcio keeps, and those without a turn have their windows.
        assert growth() < 8 * _BOUND_BYTES + _TURNS * _MESSAGE_BYTES_MAX, f"{growth() >> 20} MiB more"
        await channel.close()


def a_request() -> broker_pb2.ProduceRequest:
    entry = broker_pb2.ProducePartition(topic="t", records=[records_pb2.Record(value=bytes(_RECORD_BYTES))])
    return broker_pb2.ProduceRequest(
        acks=broker_pb2.ACKS_ALL, timeout_ms=_TIMEOUT_S * 1_000, partitions=[entry]
    )


def peak_bytes(drill: Trial) -> int:
    """The most that was ever resident of the first broker's memory."""
    process = drill.cluster.node("broker-1").process
    assert process is not None
    lines = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8").splitlines()
    [line] = [line for line in lines if line.startswith("VmHWM:")]
    return int(line.split()[1]) << 10


def growth_of(drill: Trial) -> Callable[[], int]:
    before = peak_bytes(drill)
    return lambda: peak_bytes(drill) - before


async def many_times_the_bound_at_once(drill: Trial, channel: Channel) -> None:
    """Ten times the bound in single requests, and as much on streams, while nothing is acknowledged."""
    await drill.cluster.pause("broker-2")
    single = [asyncio.create_task(answer_of_one(channel)) for _ in range(_REQUESTS)]
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


async def is_acknowledged(channel: Channel) -> bool:
    return await answer_of_one(channel) == _ACKNOWLEDGED


async def answer_of_one(channel: Channel) -> str:
    """The code of the error, if it is one."""
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


async def requests_that_never_end(drill: Trial, channel: Channel) -> None:
    rude = await asyncio.to_thread(
        UnfinishedRequests,
        drill.cluster.node("broker-1").address,
        _PRODUCE.path,
        calls=10 * _TURNS,
        request_bytes=_MESSAGE_BYTES_MAX - 1_000,
    )
    with closing(rude):
        sending = asyncio.create_task(asyncio.to_thread(rude.send_for, 2.0))
        await asyncio.sleep(1)
        answer = await answer_of_one(channel)
        await sending
    assert answer == _ACKNOWLEDGED, "others get through meanwhile"


async def answers_that_nobody_reads(drill: Trial, channel: Channel) -> None:
    entry = broker_pb2.FetchPartition(topic="t", partition_max_bytes=_ANSWER_BYTES)
    request = broker_pb2.FetchRequest(partitions=[entry])
    options = [("grpc.http2.bdp_probe", 0), ("grpc.max_receive_message_length", -1)]
    async with grpc.aio.insecure_channel(drill.cluster.node("broker-1").address, options=options) as rude:
        ask: Callable[..., Any] = rude.unary_stream(_FETCH.path)
        calls = [ask(request.SerializeToString()) for _ in range(10 * _BOUND_BYTES // _ANSWER_BYTES)]
        await asyncio.sleep(1)
        assert await answer_of_one(channel) == _ACKNOWLEDGED, "who reads nothing keeps nobody from writing"
        for call in calls:
            call.cancel()
    [result] = (await channel.call(_FETCH, request, timeout_s=_TIMEOUT_S)).partitions
    assert result.batches, "there is room again"
