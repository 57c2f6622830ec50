"""What the asynchronous and the synchronous producer share: everything but how they wait."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

from quorate.client.arguments import check_integer, check_offset, check_topic_argument, shown
from quorate.client.cluster import ClusterView
from quorate.client.producer.accumulator import Accumulator, TopicQueues
from quorate.client.producer.batch import OnDelivery, ProducerBatch
from quorate.client.producer.bulk import Placement, columns_of, plan
from quorate.client.producer.options import AcksName, ProducerOptions, acks_of
from quorate.client.producer.postponed import Postponed
from quorate.client.producer.record_future import RecordFuture, wait_for
from quorate.client.producer.record_values import HeadersArgument, as_bytes, as_headers
from quorate.client.producer.sender import Sender
from quorate.client.producer.statistics import ProducerStatistics
from quorate.core.clock import Clock
from quorate.core.ids import PartitionId, TopicPartition
from quorate.core.transport import Transport
from quorate.errors import (
    BufferExhausted,
    ClientClosed,
    DeliveryExpired,
    InvalidRequest,
    Unavailable,
)
from quorate.v1 import broker_pb2

__all__ = ["ProducerEngine"]


class ProducerEngine:
    """Made anywhere. It belongs to the loop that first finds a topic with it, and to that loop's thread.

    Any thread may ``append`` and ``plan``.
    """

    def __init__(
        self,
        options: ProducerOptions,
        transport: Transport,
        bootstrap: list[str],
        *,
        clock: Clock,
        rng: random.Random,
        wake: Callable[[Callable[[], None]], object],
    ) -> None:
        self.options = options
        self._clock = clock
        self._acks = acks_of(options.acks)
        self._key_serializer = options.key_serializer
        self._value_serializer = options.value_serializer
        self.cluster = ClusterView(transport, bootstrap, clock=clock, rng=rng)
        self.accumulator = Accumulator(
            options,
            clock=clock,
            rng=rng,
            wake=lambda: wake(self.sender.drain),
            is_on_loop=self.is_on_loop,
        )
        self._append = self.accumulator.append
        self.sender = Sender(options, self.accumulator, self.cluster, clock)
        self._loop_thread: int | None = None
        self._is_closed = False

    def is_on_loop(self) -> bool:
        return threading.get_ident() == self._loop_thread

    async def find_topic(self, name: str) -> TopicQueues:
        """Its partitions, once they are known; raises if that takes too long."""
        check_topic_argument(name)
        self._check_open()
        self._loop_thread = threading.get_ident()
        async with self._lookup(name) as timeout_s:
            await self.cluster.topic(name, timeout_s=timeout_s)
        self.sender.learn_topic(name)
        return self.accumulator.topics[name]

    async def check_partition(self, topic: TopicQueues, partition: int) -> None:
        """It may be one that was added a moment ago."""
        number = check_integer("partition", partition)
        if number < 0:
            raise InvalidRequest(f"partition is {number}: partitions are numbered from 0", topic=topic.name)
        named = TopicPartition(topic.name, PartitionId(number))
        async with self._lookup(topic.name) as timeout_s:
            await self.cluster.topic_with(named, timeout_s=timeout_s)

    @asynccontextmanager
    async def _lookup(self, name: str) -> AsyncIterator[float]:
        """How long it may take: ``max_block_ms``, or ``delivery_timeout_ms``.

        Nobody who asked for the last word on a record within three seconds should wait any longer for the
        first batch.
        """
        wait_ms = min(self.options.max_block_ms, self.options.delivery_timeout_ms)
        try:
            yield wait_ms / 1000
        except Unavailable as error:
            # A lookup's own error leaves open what was done; of the record it is known: nothing.
            raise DeliveryExpired(
                f"{name}: not sent within {wait_ms} ms, since its leaders are not known: {error.message}",
                topic=name,
                last_code=error.code,
            ) from error

    def append(
        self,
        topic: TopicQueues,
        value: Any,
        key: Any,
        headers: HeadersArgument,
        partition: int | None,
        timestamp_ms: int | None,
        acks: AcksName | None,
        expected_offset: int | None,
        on_delivery: OnDelivery | None,
    ) -> RecordFuture | Postponed:
        """Put a record into a batch, if there is room. By position: see ``Accumulator.append``."""
        if timestamp_ms is not None:
            timestamp_ms = check_integer("timestamp_ms", timestamp_ms)
        if on_delivery is not None and not callable(on_delivery):
            raise InvalidRequest(f"on_delivery is {shown(on_delivery)}: a callable is expected")
        if type(value) is not bytes or self._value_serializer is not None:
            value = as_bytes("value", value, self._value_serializer)
        if key is not None and (type(key) is not bytes or self._key_serializer is not None):
            key = as_bytes("key", key, self._key_serializer)
        chosen_acks = self._acks if acks is None else acks_of(acks)
        if expected_offset is not None:
            expected_offset = check_offset("expected_offset", expected_offset)
            _check_condition(topic, chosen_acks, has_place=partition is not None or key is not None)
        pairs = as_headers(headers) if headers else None
        appended = self._append(
            topic, value, key, pairs, partition, timestamp_ms, chosen_acks, expected_offset, on_delivery, None
        )
        if type(appended) is RecordFuture:
            return appended
        return Postponed(
            size=appended.bytes,
            topic=topic,
            value=value,
            key=key,
            headers=pairs,
            partition=appended.partition,
            timestamp_ms=timestamp_ms,
            acks=chosen_acks,
            expected_offset=expected_offset,
            on_delivery=on_delivery,
        )

    def plan(
        self,
        topic: TopicQueues,
        values: Iterable[Any],
        keys: Iterable[Any] | None,
        headers: Iterable[HeadersArgument] | None,
        partition: int | None,
        timestamp_ms: int | None,
        acks: AcksName | None,
        expected_offset: int | None,
    ) -> Placement:
        """Where many records go; nothing is placed yet."""
        chosen_acks = self._acks if acks is None else acks_of(acks)
        if expected_offset is not None:
            expected_offset = check_offset("expected_offset", expected_offset)
            _check_condition(topic, chosen_acks, has_place=partition is not None)
            partition = partition or 0
        columns = columns_of(
            values,
            keys,
            headers,
            key_serializer=self._key_serializer,
            value_serializer=self._value_serializer,
        )
        timestamp = (
            self._clock.wall_ms() if timestamp_ms is None else check_integer("timestamp_ms", timestamp_ms)
        )
        planned = plan(columns, topic, partition, timestamp, self.accumulator)
        return Placement(self.accumulator, topic, planned, chosen_acks, expected_offset)

    async def flush(self) -> None:
        """Until everything that was sent before has its last word."""
        self.sender.begin_flush()
        try:
            for batch in self._incomplete():
                await wait_for(batch)
        finally:
            self.sender.end_flush()

    async def close(self, timeout_s: float | None) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self.accumulator.close()
        try:
            async with asyncio.timeout(timeout_s):
                await self.flush()
        except TimeoutError:
            pass  # what is left ends now, each batch with what is known of it
        finally:
            await self.sender.close()
            await self.cluster.close()

    def buffer_exhausted(self, size: int) -> BufferExhausted:
        return BufferExhausted(
            f"no room for {size} bytes within {self.options.max_block_ms} ms: "
            f"{self.options.buffer_bytes} bytes of records wait to be acknowledged",
            buffer_bytes=self.options.buffer_bytes,
        )

    async def statistics_on_loop(self) -> ProducerStatistics:
        """For another thread: the counts are the loop's."""
        return self.statistics()

    def statistics(self) -> ProducerStatistics:
        return self.sender.counts.snapshot(
            batches_in_flight=self.sender.batches_in_flight(), buffered_bytes=self.accumulator.buffer.used
        )

    def _incomplete(self) -> list[ProducerBatch]:
        with self.accumulator.lock:
            return list(self.accumulator.incomplete)

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClientClosed("the producer was closed")


def _check_condition(topic: TopicQueues, acks: broker_pb2.Acks, *, has_place: bool) -> None:
    """Whether ``expected_offset`` makes sense with the rest of what was asked for."""
    if acks != broker_pb2.ACKS_ALL:
        raise InvalidRequest('expected_offset needs acks="all": with less, the condition would be a guess')
    if not has_place and topic.partition_count > 1:
        raise InvalidRequest(f"expected_offset needs a partition: {topic.name} has {topic.partition_count}")
