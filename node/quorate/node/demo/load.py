"""Producers that write at a steady pace whatever happens to the cluster, and consumers that read along.

Every partition has one writer, so the order in which its records were handed over is known, and the log has
to keep it. A writer hands over the next batch without waiting for the last: while a leader is gone, batches
pile up as they would in any application, up to a bound.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from quorate.client import AsyncConsumer, AsyncProducer, Delivery, TopicPartition
from quorate.core.clock import Clock
from quorate.core.ids import PartitionId, TopicName
from quorate.errors import QuorateError
from quorate.node.demo.ledger import Ledger, value_of

__all__ = ["TOPIC", "Reading", "Writing", "reading", "writing"]

TOPIC: Final = TopicName("demo")

_BATCH_RECORDS: Final = 40
_PACE_S: Final = 0.04
#: batches of one partition that may be without an answer; then its writer waits
_UNANSWERED_MAX: Final = 200
_POLL_RECORDS: Final = 5_000
_POLL_S: Final = 0.2


class Writing:
    """Made by ``writing``."""

    def __init__(self, ledgers: Sequence[Ledger], clock: Clock, tasks: asyncio.TaskGroup) -> None:
        self._ledgers = ledgers
        self._clock = clock
        self._tasks = tasks
        self._is_over = False
        self._writers: list[asyncio.Task[None]] = []
        #: when the newest acknowledged batch of a partition had been handed over
        self._handed_over_at: dict[int, float] = {}
        self._acknowledged = asyncio.Condition()

    @property
    def acknowledged_count(self) -> int:
        return sum(len(ledger.acknowledged) for ledger in self._ledgers)

    @property
    def unanswered_count(self) -> int:
        return sum(len(ledger.unknown) for ledger in self._ledgers)

    def start(self, producers: Sequence[AsyncProducer]) -> None:
        for index, ledger in enumerate(self._ledgers):
            producer = producers[index % len(producers)]
            self._writers.append(self._tasks.create_task(self._write(producer, ledger)))

    async def until_acknowledged(self, partitions: Iterable[int], *, since: float) -> float:
        """Until each of them has acknowledged a batch that was handed over later; returns when that was."""
        wanted = list(partitions)

        def have_all() -> bool:
            return all(self._handed_over_at.get(partition, -1.0) > since for partition in wanted)

        async with self._acknowledged:
            await self._acknowledged.wait_for(have_all)
        return self._clock.monotonic()

    async def finish(self) -> None:
        """Write nothing more, and wait until every record has its answer."""
        self._is_over = True
        await asyncio.wait(self._writers)

    def give_up(self) -> None:
        """Write nothing more, and wait for nothing."""
        for writer in self._writers:
            writer.cancel()

    async def _write(self, producer: AsyncProducer, ledger: Ledger) -> None:
        room = asyncio.Semaphore(_UNANSWERED_MAX)
        async with asyncio.TaskGroup() as settling:
            while not self._is_over:
                await room.acquire()
                numbers = ledger.send(_BATCH_RECORDS)
                values = [value_of(ledger.partition, number) for number in numbers]
                now = self._clock.monotonic()
                delivery = await producer.send_many(TOPIC, values, partition=ledger.partition)
                settling.create_task(self._settle(delivery, ledger, numbers, now, room))
                await self._clock.sleep(_PACE_S)

    async def _settle(
        self,
        delivery: Delivery,
        ledger: Ledger,
        numbers: Sequence[int],
        handed_over_at: float,
        room: asyncio.Semaphore,
    ) -> None:
        try:
            places = await delivery
        except QuorateError:
            _settle_one_by_one(delivery, ledger, numbers)
        else:
            ledger.acknowledge(numbers, [place.offset for place in places if place.offset is not None])
            self._handed_over_at[ledger.partition] = handed_over_at
        room.release()
        async with self._acknowledged:
            self._acknowledged.notify_all()


def _settle_one_by_one(delivery: Delivery, ledger: Ledger, numbers: Sequence[int]) -> None:
    """Some of the records have failed, perhaps not all."""
    errors = delivery.errors()
    for index, number in enumerate(numbers):
        error = errors.get(index)
        if error is None:
            offset = delivery.metadata(index).offset
            assert offset is not None  # with acks=all there is one
            ledger.acknowledge([number], [offset])
        elif not error.outcome_unknown:
            ledger.refuse([number])


@asynccontextmanager
async def writing(
    bootstrap: str, ledgers: Sequence[Ledger], clock: Clock, *, producers: int
) -> AsyncIterator[Writing]:
    """On leaving, what has no answer yet is given up, and stays unknown."""
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
        found = [AsyncProducer(bootstrap) for _ in range(producers)]
        for producer in found:
            stack.push_async_callback(producer.close, 0)
        load = Writing(ledgers, clock, tasks)
        load.start(found)
        yield load
        load.give_up()


class Reading:
    """Made by ``reading``."""

    def __init__(self, partitions: Iterable[int]) -> None:
        #: partition -> every (offset, value) that a consumer has handed out, in that order
        self.records: dict[int, list[tuple[int, bytes]]] = {partition: [] for partition in partitions}
        self._arrived = asyncio.Condition()

    @property
    def count(self) -> int:
        return sum(map(len, self.records.values()))

    async def until(self, ends: Mapping[int, int]) -> None:
        """Until everything below these offsets was read."""

        def have_all() -> bool:
            return all(self._next_offset(partition) >= end for partition, end in ends.items())

        async with self._arrived:
            await self._arrived.wait_for(have_all)

    async def read(self, consumer: AsyncConsumer) -> None:
        while True:
            for record in await consumer.poll(_POLL_RECORDS, _POLL_S):
                self.records[record.partition].append((record.offset, record.value or b""))
            async with self._arrived:
                self._arrived.notify_all()

    def _next_offset(self, partition: int) -> int:
        records = self.records[partition]
        return records[-1][0] + 1 if records else 0


@asynccontextmanager
async def reading(bootstrap: str, partitions: Sequence[int], *, consumers: int) -> AsyncIterator[Reading]:
    """The partitions are shared out among the consumers, each from its beginning."""
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
        found = Reading(partitions)
        running = []
        for index in range(consumers):
            consumer = await stack.enter_async_context(AsyncConsumer(bootstrap))
            own = [TopicPartition(TOPIC, PartitionId(each)) for each in partitions[index::consumers]]
            consumer.assign(own)
            running.append(tasks.create_task(found.read(consumer)))
        yield found
        for task in running:
            task.cancel()
