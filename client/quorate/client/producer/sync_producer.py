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
from quorate.core.clock import SystemClock
from quorate.core.transport import Transport
from quorate.errors import BufferExhausted, ClientClosed

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
        self._options = options_of("Producer", options)
        self._max_block_s = self._options.max_block_ms / 1000
        addresses = parse_bootstrap(bootstrap)
        self._background = BackgroundLoop.acquire()
        self._engine = ProducerEngine(
            self._options,
            transport or client_transport(),
            addresses,
            clock=SystemClock(),
            rng=random.Random(),
            wake=self._background.call_soon,
        )
        self._accumulator = self._engine.accumulator
        self._topics = self._accumulator.topics
        self._append = self._engine.append
        self._append_value = self._accumulator.append_value
        #: as they are, and wherever it is best
        self._takes_values = self._options.value_serializer is None and self._options.partitioner is None
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
        """Hand a record over without waiting for its delivery; the future's ``result()`` says where it is.

        Blocks while the topic is not known yet or the buffer is full, for up to ``max_block_ms``. Then it
        raises ``UnknownTopicOrPartition``, ``DeliveryExpired`` or ``BufferExhausted``: it is not sent.
        With ``expected_offset`` the record is written only if the partition ends exactly there; otherwise its
        end is ``OffsetMismatch``, with the actual offset.
        """
        queues = self._topics.get(topic) if type(topic) is str else None
        if queues is None or (partition is not None and not queues.has(partition)):
            queues = self._topic(topic, partition)
        elif (
            partition is None
            and type(value) is bytes
            and key is None
            and headers is None
            and on_delivery is None
            and timestamp_ms is None
            and acks is None
            and expected_offset is None
            and self._takes_values
        ):
            placed = self._append_value(queues, value)
            if placed is not None:
                return placed
        appended = self._append(
            queues, value, key, headers, partition, timestamp_ms, acks, expected_offset, on_delivery
        )
        if type(appended) is RecordFuture:
            return appended
        return appended.place(self._accumulator, self._room(appended.size))

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
        placement = self._engine.plan(
            queues, values, keys, headers, partition, timestamp_ms, acks, expected_offset
        )
        missing = placement.place()
        while missing is not None:
            ticket = None
            try:
                ticket = self._room(missing)
            except BufferExhausted as error:
                placement.refuse(error)
            missing = placement.place(ticket)
        return placement.delivery()

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
        found = self._topics.get(name) if type(name) is str else None
        if found is None:
            found = self._background.call(self._engine.find_topic(name))
        if partition is not None and not found.has(partition):
            self._background.call(self._engine.check_partition(found, partition))
        return found

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
