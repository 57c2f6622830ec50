"""What the asynchronous and the synchronous producer share: everything but how they wait."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable

from quorate.client.cluster import ClusterView
from quorate.client.producer.accumulator import Accumulator, TopicQueues
from quorate.client.producer.batch import ProducerBatch
from quorate.client.producer.options import ProducerOptions
from quorate.client.producer.record_future import wait_for
from quorate.client.producer.sender import Sender
from quorate.client.producer.statistics import ProducerStatistics
from quorate.core.clock import Clock
from quorate.core.transport import Transport
from quorate.errors import BufferExhausted, ClientClosed, InvalidRequest
from quorate.v1 import broker_pb2

__all__ = ["ProducerEngine", "check_condition"]


class ProducerEngine:
    """Made anywhere; from ``start`` on it belongs to the loop that called it."""

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
        self.cluster = ClusterView(transport, bootstrap, clock=clock, rng=rng)
        self.accumulator = Accumulator(
            options,
            clock=clock,
            rng=rng,
            wake=lambda: wake(self.sender.drain),
            is_on_loop=self.is_on_loop,
        )
        self.sender = Sender(options, self.accumulator, self.cluster, clock)
        self._loop_thread: int | None = None
        self._is_closed = False

    def is_on_loop(self) -> bool:
        return threading.get_ident() == self._loop_thread

    async def find_topic(self, name: str) -> TopicQueues:
        """Its partitions, once they are known; raises if that takes longer than ``max_block_ms``."""
        self._check_open()
        self._loop_thread = threading.get_ident()
        await self.cluster.topic(name, timeout_s=self.options.max_block_ms / 1000)
        self.sender.learn_topic(name)
        return self.accumulator.topics[name]

    async def check_partition(self, topic: TopicQueues, partition: int) -> None:
        """It may be one that was added a moment ago."""
        if partition >= len(topic.queues):
            await self.cluster.refreshed()
        if not 0 <= partition < len(topic.queues):
            raise InvalidRequest(
                f"{topic.name} has no partition {partition}: it has {len(topic.queues)}",
                topic=topic.name,
                partition=partition,
            )

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


def check_condition(topic: TopicQueues, acks: broker_pb2.Acks, *, has_place: bool) -> None:
    """Whether ``expected_offset`` makes sense with the rest of what was asked for."""
    if acks != broker_pb2.ACKS_ALL:
        raise InvalidRequest('expected_offset needs acks="all": with less, the condition would be a guess')
    if not has_place and len(topic.queues) > 1:
        raise InvalidRequest(f"expected_offset needs a partition: {topic.name} has {len(topic.queues)}")
