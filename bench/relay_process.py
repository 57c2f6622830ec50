"""One process of the relay that `bench.relay` measures: the messages of a lone send, and nothing but them.

Usage: python -m bench.relay_process leader ADDRESS | follower ADDRESS | client ADDRESS RECORDS VALUE_BYTES

The leader gives what a client sends to two followers and answers when both have asked for more, over the
product's own Transport and with its messages. There is no log, no epoch, no check: what this takes is what
the way takes.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Final

import uvloop

from quorate.client.transport import client_transport
from quorate.core.transport import Call, Service, method_of, methods_of
from quorate.errors import Unavailable
from quorate.v1 import broker_pb2, replica_pb2

FOLLOWERS: Final = 2
_BROKER: Final = broker_pb2.DESCRIPTOR.services_by_name["BrokerService"]
_REPLICA: Final = replica_pb2.DESCRIPTOR.services_by_name["ReplicaService"]
_TOPIC_ID: Final = "0f0e0d0c-0b0a-0908-0706-050403020100"
_PRODUCE: Final = method_of(
    _BROKER, "ProduceStream", broker_pb2.ProduceStreamRequest, broker_pb2.ProduceStreamResponse
)
_REPLICATE: Final = method_of(
    _REPLICA, "Replicate", replica_pb2.ReplicateRequest, replica_pb2.ReplicateResponse
)
_REDIAL_S: Final = 0.05


class Leader:
    def __init__(self) -> None:
        self._followers: list[asyncio.Queue[bytes]] = []
        self._asked: asyncio.Queue[None] = asyncio.Queue()

    async def produce(
        self, requests: AsyncIterator[broker_pb2.ProduceStreamRequest], _call: Call
    ) -> AsyncGenerator[broker_pb2.ProduceStreamResponse, None]:
        for _ in range(FOLLOWERS):
            await self._asked.get()
        async for request in requests:
            [partition] = request.request.partitions
            for follower in self._followers:
                follower.put_nowait(partition.batch)
            for _ in self._followers:
                await self._asked.get()
            yield broker_pb2.ProduceStreamResponse(
                correlation_id=request.correlation_id, response=broker_pb2.ProduceResponse()
            )

    async def replicate(
        self, requests: AsyncIterator[replica_pb2.ReplicateRequest], _call: Call
    ) -> AsyncGenerator[replica_pb2.ReplicateResponse, None]:
        batches: asyncio.Queue[bytes] = asyncio.Queue()
        self._followers.append(batches)
        async for _request in requests:
            self._asked.put_nowait(None)
            response = replica_pb2.ReplicateResponse()
            response.updates.add(topic_id=_TOPIC_ID, leader_epoch=1, batches=await batches.get())
            yield response


async def lead(address: str) -> None:
    leader = Leader()

    async def nothing(_request: object, _call: Call) -> None:
        raise NotImplementedError

    broker = dict.fromkeys(methods_of(_BROKER), nothing) | {"ProduceStream": leader.produce}
    replica = dict.fromkeys(methods_of(_REPLICA), nothing) | {"Replicate": leader.replicate}
    await client_transport().serve(
        address,
        [Service(_BROKER, broker), Service(_REPLICA, replica, is_internal=True)],
    )
    await asyncio.Event().wait()


async def follow(address: str) -> None:
    channel = client_transport().connect(address)
    while True:
        positions: asyncio.Queue[int] = asyncio.Queue()
        positions.put_nowait(0)
        try:
            async for response in channel.stream(_REPLICATE, _requests(positions), timeout_s=None):
                positions.put_nowait(len(response.updates[0].batches))
        except Unavailable:
            await asyncio.sleep(_REDIAL_S)


async def _requests(positions: asyncio.Queue[int]) -> AsyncIterator[replica_pb2.ReplicateRequest]:
    while True:
        position = replica_pb2.FollowerPosition(
            topic_id=_TOPIC_ID, leader_epoch=1, fetch_offset=await positions.get()
        )
        yield replica_pb2.ReplicateRequest(positions=[position])


async def send(address: str, records: int, value_bytes: int) -> list[float]:
    """Seconds for each."""
    to_send: asyncio.Queue[broker_pb2.ProduceStreamRequest] = asyncio.Queue()

    async def requests() -> AsyncIterator[broker_pb2.ProduceStreamRequest]:
        while True:
            yield await to_send.get()

    answers = client_transport().connect(address).stream(_PRODUCE, requests(), timeout_s=None)
    seconds = []
    for number in range(records):
        began = time.perf_counter()
        message = broker_pb2.ProduceStreamRequest(correlation_id=number)
        message.request.partitions.add(topic_id=_TOPIC_ID, batch=bytes(value_bytes))
        to_send.put_nowait(message)
        await anext(answers)
        seconds.append(time.perf_counter() - began)
    return seconds


async def main(role: str, address: str, *counts: str) -> None:
    match role:
        case "leader":
            await lead(address)
        case "follower":
            await follow(address)
        case "client":
            while True:
                try:
                    print(json.dumps(await send(address, *map(int, counts))))
                    return
                except Unavailable:
                    await asyncio.sleep(_REDIAL_S)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(*sys.argv[1:]))
