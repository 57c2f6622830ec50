"""Writes records to partitions, on the application's event loop."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, Self, Unpack

from quorate.client.bootstrap import parse_bootstrap
from quorate.client.producer.accumulator import TopicQueues
from quorate.client.producer.batch import OnDelivery
from quorate.client.producer.buffer import Ticket
from quorate.client.producer.delivery import Delivery
from quorate.client.producer.engine import ProducerEngine
from quorate.client.producer.options import AcksName, OptionArguments, options_of
from quorate.client.producer.record_future import RecordFuture
from quorate.client.producer.record_values import HeadersArgument
from quorate.client.producer.statistics import ProducerStatistics
from quorate.client.transport import client_transport
from quorate.core.clock import Clock, SystemClock
from quorate.core.transport import Transport
from quorate.errors import BufferExhausted, ClientClosed

__all__ = ["AsyncProducer"]


class AsyncProducer:
    """Use as an asynchronous context manager, or close it: closing delivers what is left."""

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        *,
        transport: Transport | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        **options: Unpack[OptionArguments],
    ) -> None:
        """What the options mean: `ProducerOptions`. The transport, clock and rng are for simulations."""
        self._options = options_of("AsyncProducer", options)
        self._engine = ProducerEngine(
            self._options,
            transport or client_transport(),
            parse_bootstrap(bootstrap),
            clock=clock or SystemClock(),
            rng=rng or random.Random(),
            wake=lambda callback: asyncio.get_running_loop().call_soon(callback),
        )
        self._accumulator = self._engine.accumulator

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def send(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        headers: HeadersArgument = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        acks: AcksName | None = None,
        on_delivery: OnDelivery | None = None,
        expected_offset: int | None = None,
    ) -> RecordFuture:
        """Hand a record over; await what is returned to learn where it is.

        Waits while the topic is not known yet or the buffer is full, for up to ``max_block_ms``. Then it
        raises ``UnknownTopicOrPartition``, ``DeliveryExpired`` or ``BufferExhausted``: it is not sent.
        With ``expected_offset`` the record is written only if the partition ends exactly there; otherwise its
        end is ``OffsetMismatch``, with the actual offset.
        """
        queues = self._accumulator.topics.get(topic) if type(topic) is str else None
        if queues is None or (partition is not None and not queues.has(partition)):
            queues = await self._topic(topic, partition)
        appended = self._engine.append(
            queues, value, key, headers, partition, timestamp_ms, acks, expected_offset, on_delivery
        )
        if isinstance(appended, RecordFuture):
            return appended
        return appended.place(self._accumulator, await self._room(appended.size))

    async def send_many(
        self,
        topic: str,
        values: Iterable[Any],
        *,
        keys: Iterable[Any] | None = None,
        headers: Iterable[HeadersArgument] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        acks: AcksName | None = None,
        expected_offset: int | None = None,
    ) -> Delivery:
        """Many records in one call, without an object for each; in order where they share a partition.

        Waits while the buffer is full. Records that found no room within ``max_block_ms`` are not sent, and
        the delivery says so of them. With ``expected_offset`` all of them are one batch with that condition.
        """
        queues = await self._topic(topic, partition)
        placement = self._engine.plan(
            queues, values, keys, headers, partition, timestamp_ms, acks, expected_offset
        )
        missing = placement.place()
        while missing is not None:
            ticket = None
            try:
                ticket = await self._room(missing)
            except BufferExhausted as error:
                placement.refuse(error)
            missing = placement.place(ticket)
        return placement.delivery()

    async def flush(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - as in Producer
        """Until every record that was sent before has its end; ``TimeoutError`` if that takes longer."""
        async with asyncio.timeout(timeout):
            await self._engine.flush()

    async def close(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - as in Producer
        """Deliver what is left, for so long; then whatever is not acknowledged ends, refused or unknown."""
        await self._engine.close(timeout)

    def statistics(self) -> ProducerStatistics:
        return self._engine.statistics()

    async def _topic(self, name: str, partition: int | None) -> TopicQueues:
        found = self._accumulator.topics.get(name) if type(name) is str else None
        if found is None:
            found = await self._engine.find_topic(name)
        if partition is not None and not found.has(partition):
            await self._engine.check_partition(found, partition)
        return found

    async def _room(self, size: int) -> Ticket:
        """Wait until so many bytes are free, and ours."""
        granted = asyncio.get_running_loop().create_future()

        def wake() -> None:
            if not granted.done():
                granted.set_result(None)

        ticket = self._accumulator.queue_up(size, wake)
        try:
            async with asyncio.timeout(self._options.max_block_ms / 1000):
                await granted
        except TimeoutError:
            self._accumulator.leave(ticket)
            raise self._engine.buffer_exhausted(size) from None
        except asyncio.CancelledError:
            self._accumulator.leave(ticket)
            raise
        if not ticket.is_granted:
            raise ClientClosed("the producer was closed")
        return ticket
