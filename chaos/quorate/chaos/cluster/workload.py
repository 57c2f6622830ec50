"""Clients of a simulated cluster: producers that write unique records, readers that follow them.

They are the real clients. Everything that they are told goes into the history; nothing is repeated by hand.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.cluster.history import History, Sent
from quorate.client.consumer.async_consumer import AsyncConsumer
from quorate.client.producer.async_producer import AsyncProducer
from quorate.core.ids import Offset, PartitionId, TopicName, TopicPartition
from quorate.errors import QuorateError

__all__ = ["Workload"]

#: long enough to outlive every fault of a run, so that few outcomes are unknown
_DELIVERY_TIMEOUT_MS: Final = 60_000
_PAUSE_S: Final = 0.04


class Workload:
    def __init__(self, cluster: SimCluster, history: History, partitions: Sequence[TopicPartition]) -> None:
        self._cluster = cluster
        self._history = history
        self._partitions = partitions
        self._is_over = False
        self._answers: dict[asyncio.Task[None], None] = {}

    def end(self) -> None:
        """Producers send nothing more; what they have sent still gets its outcome."""
        self._is_over = True

    async def produce(self, name: str) -> None:
        """Until the end, and until every record has its outcome."""
        cluster = self._cluster
        rng = cluster.client_rng()
        async with AsyncProducer(
            cluster.bootstrap,
            transport=cluster.client_transport(),
            clock=cluster.clock,
            rng=cluster.client_rng(),
            delivery_timeout_ms=_DELIVERY_TIMEOUT_MS,
        ) as producer:
            while not self._is_over:
                partition = rng.choice(self._partitions)
                await self._send(producer, self._history.begin(name, partition))
                if rng.random() < 0.7:
                    await cluster.clock.sleep(rng.uniform(0, 2 * _PAUSE_S))
            while self._answers:
                await asyncio.wait(self._answers)

    async def _send(self, producer: AsyncProducer, sent: Sent) -> None:
        async def outcome() -> None:
            try:
                written_at = (await future).offset
                assert written_at is not None, "acks=all tells the offset"
                sent.offset = written_at
            except QuorateError as error:
                sent.error = error

        try:
            future = await producer.send(sent.partition.topic, sent.value, partition=sent.partition.partition)
        except QuorateError as error:
            sent.error = error
            return
        answer = asyncio.create_task(outcome(), name=f"outcome of {sent.value!r}")
        self._answers[answer] = None
        answer.add_done_callback(self._answers.pop)

    async def read(self, name: str) -> None:
        """Until cancelled."""
        cluster = self._cluster
        async with AsyncConsumer(
            cluster.bootstrap,
            transport=cluster.client_transport(),
            clock=cluster.clock,
            rng=cluster.client_rng(),
        ) as consumer:
            consumer.assign(self._partitions)
            while True:
                for record in await consumer.poll(timeout=1.0):
                    partition = TopicPartition(TopicName(record.topic), PartitionId(record.partition))
                    self._history.read.append((name, partition, Offset(record.offset), record.value or b""))
