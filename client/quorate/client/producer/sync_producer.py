"""Writes records to partitions, from ordinary threads.

The work is done on the process's background loop; a send only appends to a batch under a short lock, and
wakes the loop if it is not awake. So a loop of sends fills large batches, and the cost of a record is that
of a few Python calls. Any number of threads may use one producer.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, Self, Unpack

from quorate.client.background import BackgroundLoop
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
from quorate.core.clock import SystemClock
from quorate.core.transport import Transport
from quorate.errors import BufferExhausted, ClientClosed
from quorate.v1 import broker_pb2

__all__ = ["Producer"]


class Producer:
    """Use as a context manager, or close it: closing delivers what is left."""

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        *,
        transport: Transport | None = None,
        **options: Unpack[OptionArguments],
    ) -> None:
        """What the options mean: `ProducerOptions`."""
        self._options = ProducerOptions(**options)
        self._acks = acks_of(self._options.acks)
        self._clock = SystemClock()
        self._max_block_s = self._options.max_block_ms / 1000
        addresses = parse_bootstrap(bootstrap)
        self._background = BackgroundLoop.acquire()
        self._engine = ProducerEngine(
            self._options,
            transport or client_transport(),
            addresses,
            clock=self._clock,
            rng=random.Random(),
            wake=self._background.call_soon,
        )
        self._accumulator = self._engine.accumulator
        self._topics = self._accumulator.topics
        self._append = self._accumulator.append
        self._value_serializer = self._options.value_serializer
        self._key_serializer = self._options.key_serializer
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def send(
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
        """Hand a record over and return at once; the future's ``result()`` says where it is.

        Blocks while the buffer is full; ``BufferExhausted`` after ``max_block_ms``: the record is not sent.
        With ``expected_offset`` the record is written only if the partition ends exactly there; otherwise its
        end is ``OffsetMismatch``, with the actual offset.
        """
        queues = self._topics.get(topic)
        if queues is None or partition is not None:
            queues = self._topic(topic, partition)
        if type(value) is not bytes or self._value_serializer is not None:
            value = as_bytes("value", value, self._value_serializer)
        if key is not None and (type(key) is not bytes or self._key_serializer is not None):
            key = as_bytes("key", key, self._key_serializer)
        chosen_acks = self._acks if acks is None else acks_of(acks)
        if expected_offset is not None:
            check_condition(queues, chosen_acks, has_place=partition is not None or key is not None)
        header_pairs = as_headers(headers) if headers else None
        ticket = None
        while True:
            appended = self._append(
                queues, value, key, header_pairs, partition, timestamp_ms, chosen_acks, expected_offset,
                on_delivery, ticket,
            )  # fmt: skip
            if isinstance(appended, RecordFuture):
                return appended
            ticket = self._room(appended)

    def send_many(
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

        Blocks while the buffer is full. Records that found no room within ``max_block_ms`` are not sent, and
        the delivery says so of them. With ``expected_offset`` all of them are one batch with that condition.
        """
        queues = self._topic(topic, partition)
        chosen_acks = self._acks if acks is None else acks_of(acks)
        if expected_offset is not None:
            check_condition(queues, chosen_acks, has_place=partition is not None)
            partition = partition or 0
        columns = columns_of(
            values,
            keys,
            headers,
            key_serializer=self._key_serializer,
            value_serializer=self._value_serializer,
        )
        timestamp = self._clock.wall_ms() if timestamp_ms is None else timestamp_ms
        planned = plan(columns, queues, partition, timestamp, self._accumulator)
        placed: list[Placed] = []
        for chosen, run in planned.runs:
            self._place(placed, queues, chosen, run, chosen_acks, expected_offset)
        return Delivery(placed, planned.indices)

    def flush(self, timeout: float | None = None) -> None:
        """Until every record that was sent before has its end; ``TimeoutError`` if that takes longer."""
        self._background.call(self._engine.flush(), timeout_s=timeout)

    def close(self, timeout: float | None = None) -> None:
        """Deliver what is left, for so long; then whatever is not acknowledged ends, refused or unknown."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            self._background.call(self._engine.close(timeout))
        finally:
            self._background.release()

    def statistics(self) -> ProducerStatistics:
        return self._background.call(self._engine.statistics_on_loop())

    def _topic(self, name: str, partition: int | None) -> TopicQueues:
        found = self._topics.get(name)
        if found is None:
            found = self._background.call(self._engine.find_topic(name))
        if partition is not None and not 0 <= partition < len(found.queues):
            self._background.call(self._engine.check_partition(found, partition))
        return found

    def _place(
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
                ticket = self._room(self._accumulator.run_bytes(run, start, expected_offset))
            except BufferExhausted as error:
                placed.append(self._accumulator.refused(queues.queues[partition or 0], run, start, error))
                return

    def _room(self, size: int) -> Ticket:
        """Block until so many bytes are free, and ours."""
        gate = threading.Lock()
        gate.acquire()
        ticket = self._accumulator.queue_up(size, gate.release)
        try:
            # On the loop itself, in a callback, nobody else would make room meanwhile.
            wait_s = 0.0 if self._background.is_current_thread() else self._max_block_s
            if not gate.acquire(timeout=wait_s):
                raise self._engine.buffer_exhausted(size)
        except BaseException:
            self._accumulator.leave(ticket)
            raise
        if not ticket.is_granted:
            raise ClientClosed("the producer was closed")
        return ticket
