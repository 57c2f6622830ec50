"""Writes records to partitions, on the application's event loop."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, Self, Unpack

from quorate.client.connection import parse_bootstrap
from quorate.client.producer.accumulator import Placed, Run, TopicQueues
from quorate.client.producer.batch import OnDelivery
from quorate.client.producer.buffer import Ticket
from quorate.client.producer.bulk import columns_of, plan
from quorate.client.producer.delivery import Delivery
from quorate.client.producer.engine import ProducerEngine, check_condition
from quorate.client.producer.options import AcksName, OptionArguments, ProducerOptions, acks_of
from quorate.client.producer.record_future import RecordFuture
from quorate.client.producer.record_values import HeadersArgument, as_bytes, as_headers
from quorate.client.producer.statistics import ProducerStatistics
from quorate.client.transport import client_transport
from quorate.core.clock import Clock, SystemClock
from quorate.core.transport import Transport
from quorate.errors import BufferExhausted, ClientClosed
from quorate.v1 import broker_pb2

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
        self._options = ProducerOptions(**options)
        self._acks = acks_of(self._options.acks)
        self._clock = clock or SystemClock()
        self._engine = ProducerEngine(
            self._options,
            transport or client_transport(),
            parse_bootstrap(bootstrap),
            clock=self._clock,
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

        Waits while the buffer is full; ``BufferExhausted`` after ``max_block_ms``: the record is not sent.
        With ``expected_offset`` the record is written only if the partition ends exactly there; otherwise its
        end is ``OffsetMismatch``, with the actual offset.
        """
        queues = await self._topic(topic, partition)
        chosen_acks = self._acks if acks is None else acks_of(acks)
        if expected_offset is not None:
            check_condition(queues, chosen_acks, has_place=partition is not None or key is not None)
        value = as_bytes("value", value, self._options.value_serializer)
        key = as_bytes("key", key, self._options.key_serializer)
        header_pairs = as_headers(headers) if headers else None
        ticket = None
        while True:
            appended = self._accumulator.append(
                queues, value, key, header_pairs, partition, timestamp_ms, chosen_acks, expected_offset,
                on_delivery, ticket,
            )  # fmt: skip
            if isinstance(appended, RecordFuture):
                return appended
            ticket = await self._room(appended)

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
        chosen_acks = self._acks if acks is None else acks_of(acks)
        if expected_offset is not None:
            check_condition(queues, chosen_acks, has_place=partition is not None)
            partition = partition or 0
        columns = columns_of(
            values,
            keys,
            headers,
            key_serializer=self._options.key_serializer,
            value_serializer=self._options.value_serializer,
        )
        timestamp = self._clock.wall_ms() if timestamp_ms is None else timestamp_ms
        planned = plan(columns, queues, partition, timestamp, self._accumulator)
        placed: list[Placed] = []
        for chosen, run in planned.runs:
            await self._place(placed, queues, chosen, run, chosen_acks, expected_offset)
        return Delivery(placed, planned.indices)

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
        found = self._accumulator.topics.get(name)
        if found is None:
            found = await self._engine.find_topic(name)
        if partition is not None and not 0 <= partition < len(found.queues):
            await self._engine.check_partition(found, partition)
        return found

    async def _place(
        self,
        placed: list[Placed],
        queues: TopicQueues,
        partition: int | None,
        run: Run,
        acks: broker_pb2.Acks,
        expected_offset: int | None,
    ) -> None:
        """Put a whole run into batches, as room allows."""
        start, ticket = 0, None
        while start < len(run.ends):
            found = self._accumulator.append_run(queues, partition, run, start, acks, expected_offset, ticket)
            if found is not None:
                placed.append(found)
                start, ticket = start + found.records, None
                continue
            try:
                ticket = await self._room(self._accumulator.run_bytes(run, start, expected_offset))
            except BufferExhausted as error:
                placed.append(self._accumulator.refused(queues.queues[partition or 0], run, start, error))
                return

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
