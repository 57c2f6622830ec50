"""What the light client asks for, of either system: a request is sent, and its answer awaited."""

from __future__ import annotations

import asyncio
import struct
from typing import Final, Protocol

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
_TIMEOUT_S: Final = 30.0


class Line(Protocol):
    """One connection to the leader of one partition."""

    async def open(self) -> None: ...

    async def fetch(self, offset: int, bytes_max: int) -> bytes: ...

    async def close(self) -> None: ...


class KafkaLine:
    def __init__(self, address: str, topic: str, partition: int) -> None:
        self._address = address
        self._topic, self._partition = topic, partition

    async def open(self) -> None:
        host, _, port = self._address.rpartition(":")
        self._reader, self._writer = await asyncio.open_connection(host, int(port), limit=1 << 22)

    async def ask(self, request: bytes) -> bytes:
        self._writer.write(request)
        (size,) = struct.unpack(">i", await self._reader.readexactly(4))
        return await self._reader.readexactly(size)

    async def fetch(self, offset: int, bytes_max: int) -> bytes:
        request = kafka_wire.fetch_request(self._topic, self._partition, offset, bytes_max)
        return kafka_wire.fetched(await self.ask(request))

    async def close(self) -> None:
        self._writer.close()


class QuorateLine:
    def __init__(self, address: str, topic: str, partition: int) -> None:
        self._topic, self._partition = topic, partition
        self._channel = client_transport().connect(address)

    async def open(self) -> None:
        """It connects with the first that it asks for."""

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
        await self._channel.close()


async def leaders(system: str, bootstrap: str, topic: str) -> list[str]:
    """The address of each partition's leader."""
    address = bootstrap.partition(",")[0]
    if system == "kafka":
        line = KafkaLine(address, topic, 0)
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
