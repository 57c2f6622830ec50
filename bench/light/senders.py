"""Batches to a broker, one on its way at a time, without a task or a future for each.

What the light client spends, the brokers do not get: it runs on their cores. So an answer is told by a call,
and the next batch leaves within it, to either system.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, Protocol

from bench.light import kafka_wire
from quorate.client.transport import client_transport
from quorate.core.exchange import Exchange, open_exchange
from quorate.core.transport import method_of
from quorate.errors import QuorateError
from quorate.v1 import broker_pb2

__all__ = ["KafkaSender", "QuorateSender", "Sender", "SenderListener"]

_PRODUCE: Final = method_of(
    broker_pb2.DESCRIPTOR.services_by_name["BrokerService"],
    *("ProduceStream", broker_pb2.ProduceStreamRequest, broker_pb2.ProduceStreamResponse),
)
_TIMEOUT_MS: Final = 30_000
#: an answer begins with how long the rest of it is
_SIZE_BYTES: Final = 4


class SenderListener(Protocol):
    def on_acknowledged(self) -> None:
        """It may send the next."""
        ...

    def on_failure(self, error: Exception) -> None: ...


class Sender(Protocol):
    """One connection to the leader of one partition."""

    async def open(self) -> None: ...

    def send(self) -> None:
        """The batch that it was made with, once more."""
        ...

    async def close(self) -> None: ...


class KafkaSender(asyncio.Protocol):
    def __init__(
        self, listener: SenderListener, address: str, topic: str, partition: int, batch: bytes
    ) -> None:
        self._listener = listener
        self._address = address
        self._request = kafka_wire.produce_request(topic, partition, batch)
        self._received = b""
        self._is_closed = False

    async def open(self) -> None:
        host, _, port = self._address.rpartition(":")
        self._transport, _ = await asyncio.get_running_loop().create_connection(lambda: self, host, int(port))

    def send(self) -> None:
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        received = self._received + data if self._received else data
        if len(received) < _SIZE_BYTES + int.from_bytes(received[:_SIZE_BYTES], "big"):
            self._received = received
            return
        self._received = b""
        if error := kafka_wire.produced_error(received[_SIZE_BYTES:]):
            self._listener.on_failure(kafka_wire.WireError(f"error {error} for a batch"))
        else:
            self._listener.on_acknowledged()

    def connection_lost(self, error: Exception | None) -> None:
        if not self._is_closed:
            self._listener.on_failure(error or kafka_wire.WireError("the broker has closed the connection"))

    async def close(self) -> None:
        self._is_closed = True
        self._transport.close()


class _Encoded:
    """A message that was serialized before: the transport asks no more of it than its bytes."""

    def __init__(self, message: Any) -> None:
        self._content: bytes = message.SerializeToString()

    def SerializeToString(self) -> bytes:  # noqa: N802 - protobuf's name for it
        return self._content


class QuorateSender:
    def __init__(
        self, listener: SenderListener, address: str, topic: str, partition: int, batch: bytes
    ) -> None:
        self._listener = listener
        # A transport of its own: a channel to the same address may be shared otherwise.
        self._channel = client_transport().connect(address)
        message = broker_pb2.ProduceStreamRequest()
        message.request.acks = broker_pb2.ACKS_ALL
        message.request.timeout_ms = _TIMEOUT_MS
        message.request.partitions.add(topic=topic, partition=partition, batch=batch)
        self._message: Any = _Encoded(message)
        #: it is to be sent as soon as the connection takes it
        self._is_due = False
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def open(self) -> None:
        self._exchange: Exchange[broker_pb2.ProduceStreamRequest] = open_exchange(
            self._channel, _PRODUCE, self
        )
        if not self._exchange.is_ready:
            await self._opened

    def send(self) -> None:
        if self._exchange.is_ready:
            self._exchange.send(self._message, is_last=True)
        else:
            self._is_due = True

    def on_ready(self) -> None:
        if not self._opened.done():
            self._opened.set_result(None)
        if self._is_due:
            self._is_due = False
            self._exchange.send(self._message, is_last=True)

    def on_response(self, response: broker_pb2.ProduceStreamResponse) -> None:
        results = response.response.partitions
        if results and not results[0].HasField("error"):
            self._listener.on_acknowledged()
        else:
            self._listener.on_failure(
                kafka_wire.WireError(str(results[0].error if results else response.error))
            )

    def on_end(self, error: QuorateError | None) -> None:
        failure = error or kafka_wire.WireError("the broker has ended the stream")
        if self._opened.done():
            self._listener.on_failure(failure)
        else:
            self._opened.set_exception(failure)

    async def close(self) -> None:
        await self._exchange.close()
        await self._channel.close()
