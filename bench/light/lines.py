"""Ways to a broker, one for each system: a request is sent, and its answer awaited."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, Final, Protocol

from bench.light import kafka_wire
from quorate.client.transport import client_transport
from quorate.core.transport import Channel, method_of
from quorate.v1 import broker_pb2

__all__ = ["KafkaLine", "Line", "QuorateLine", "ask_for_brokers", "leaders"]

_BROKER: Final = broker_pb2.DESCRIPTOR.services_by_name["BrokerService"]
_METADATA: Final = method_of(
    _BROKER, "GetMetadata", broker_pb2.GetMetadataRequest, broker_pb2.GetMetadataResponse
)
_FETCH: Final = method_of(_BROKER, "Fetch", broker_pb2.FetchRequest, broker_pb2.FetchResponse)
_PRODUCE: Final = method_of(
    _BROKER, "ProduceStream", broker_pb2.ProduceStreamRequest, broker_pb2.ProduceStreamResponse
)
_TIMEOUT_S: Final = 30.0


class Line(Protocol):
    """One connection to the leader of one partition."""

    async def open(self) -> None: ...

    async def produce(self) -> None:
        """The batch that it was made with, once more; returns when it is acknowledged."""
        ...

    async def fetch(self, offset: int, bytes_max: int) -> bytes: ...

    async def close(self) -> None: ...


class KafkaLine:
    def __init__(self, address: str, topic: str, partition: int, batch: bytes) -> None:
        self._address = address
        self._topic, self._partition = topic, partition
        self._request = kafka_wire.produce_request(topic, partition, batch)

    async def open(self) -> None:
        host, _, port = self._address.rpartition(":")
        self._reader, self._writer = await asyncio.open_connection(host, int(port), limit=1 << 22)

    async def ask(self, request: bytes) -> bytes:
        self._writer.write(request)
        (size,) = struct.unpack(">i", await self._reader.readexactly(4))
        return await self._reader.readexactly(size)

    async def produce(self) -> None:
        if error := kafka_wire.produced_error(await self.ask(self._request)):
            raise kafka_wire.WireError(f"error {error} for a batch")

    async def fetch(self, offset: int, bytes_max: int) -> bytes:
        request = kafka_wire.fetch_request(self._topic, self._partition, offset, bytes_max)
        return kafka_wire.fetched(await self.ask(request))

    async def close(self) -> None:
        self._writer.close()


class _Encoded:
    """A message that was serialized before: the transport asks no more of it than its bytes."""

    def __init__(self, message: Any) -> None:
        self._content = message.SerializeToString()

    def SerializeToString(self) -> bytes:  # noqa: N802 - protobuf's name for it
        content: bytes = self._content
        return content


class QuorateLine:
    def __init__(self, address: str, topic: str, partition: int, batch: bytes) -> None:
        self._topic, self._partition = topic, partition
        # A transport of its own: a channel to the same address may be shared otherwise.
        self._channel = client_transport().connect(address)
        message = broker_pb2.ProduceStreamRequest()
        message.request.acks = broker_pb2.ACKS_ALL
        message.request.timeout_ms = int(_TIMEOUT_S * 1000)
        message.request.partitions.add(topic=topic, partition=partition, batch=batch)
        self._message: Any = _Encoded(message)
        self._turn = asyncio.Event()
        self._answers: Any = None

    async def open(self) -> None:
        self._answers = self._channel.stream(_PRODUCE, self._requests(), timeout_s=None)

    async def _requests(self) -> AsyncIterator[Any]:
        while True:
            await self._turn.wait()
            self._turn.clear()
            yield self._message

    async def produce(self) -> None:
        self._turn.set()
        answer = await anext(self._answers)
        result = answer.response.partitions[0] if answer.response.partitions else None
        if result is None or result.HasField("error"):
            raise kafka_wire.WireError(str(answer.error if result is None else result.error))

    async def fetch(self, offset: int, bytes_max: int) -> bytes:
        request = broker_pb2.FetchRequest(max_bytes=2 * bytes_max, format=broker_pb2.RECORD_FORMAT_BATCHES)
        request.partitions.add(
            topic=self._topic, partition=self._partition, fetch_offset=offset, partition_max_bytes=bytes_max
        )
        answer = await self._channel.call(_FETCH, request, timeout_s=_TIMEOUT_S)
        result = answer.partitions[0]
        if result.HasField("error"):
            raise kafka_wire.WireError(str(result.error))
        return result.batches

    async def close(self) -> None:
        async with aclosing(self._answers):
            pass
        await self._channel.close()


async def leaders(system: str, bootstrap: str, topic: str) -> list[str]:
    """The address of each partition's leader."""
    address = bootstrap.partition(",")[0]
    if system == "kafka":
        line = KafkaLine(address, topic, 0, b"")
        await line.open()
        try:
            return kafka_wire.leaders_of(await line.ask(kafka_wire.metadata_request(topic)))
        finally:
            await line.close()
    channel = client_transport().connect(address)
    try:
        found = await ask_for_brokers(channel, topic)
    finally:
        await channel.close()
    addresses = {broker.broker_id: broker.address for broker in found.brokers}
    partitions = sorted(found.topics[0].partitions, key=lambda each: each.partition)
    return [addresses[each.leader] for each in partitions]


async def ask_for_brokers(channel: Channel, topic: str) -> broker_pb2.GetMetadataResponse:
    request = broker_pb2.GetMetadataRequest()
    request.topics.add(name=topic)
    return await channel.call(_METADATA, request, timeout_s=_TIMEOUT_S)
