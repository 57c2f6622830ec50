"""Clients of a real cluster: producers that write unique records, a reader, and what all of them were told.

The load goes on through whatever is done to the cluster. Nothing is repeated by hand: a record has the end
that the producer gives it, which tries again by itself until its delivery time-out is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self

from quorate.chaos.cluster.checks import Violation
from quorate.chaos.cluster.history import History, Sent
from quorate.client import AsyncConsumer, AsyncProducer
from quorate.client.producer import RecordMetadata
from quorate.core.ids import Offset, PartitionId, TopicName, TopicPartition
from quorate.errors import QuorateError

__all__ = ["LedgerLoad"]

#: so many records at a time, then a pause: enough to strike a cluster at work, and little enough that two
#: cores have time for the cluster
_BURST: Final = 10
_PAUSE_S: Final = 0.01
#: a producer that gets no answers stops here, as a careful application does
_UNANSWERED_MAX: Final = 2_000
#: part of each value, for records of an ordinary size
_PADDING: Final = "." * 100
_TIMEOUT_S: Final = 60.0
_DELIVERY_TIMEOUT_MS: Final = 120_000


@dataclass(slots=True)
class _Awaited:
    """Somebody waits until records that were sent from here on have their ends."""

    #: the first record that counts, in the order of the history
    since: int
    #: only acknowledgements count, or every end
    is_choosy: bool
    #: by partition; one that is done is not in it
    missing: dict[TopicPartition, int]
    is_over: asyncio.Event = field(default_factory=asyncio.Event)

    def count(self, number: int, sent: Sent) -> None:
        is_counted = sent.is_acknowledged or not self.is_choosy
        if number < self.since or sent.partition not in self.missing or not is_counted:
            return
        self.missing[sent.partition] -= 1
        if not self.missing[sent.partition]:
            del self.missing[sent.partition]
        if not self.missing:
            self.is_over.set()


class LedgerLoad:
    """As an asynchronous context manager: clients run inside; on the way out every record gets its end."""

    def __init__(
        self,
        bootstrap: str,
        partitions: Sequence[TopicPartition],
        *,
        producers: int = 2,
        delivery_timeout_ms: int = _DELIVERY_TIMEOUT_MS,
        history: History | None = None,
        name: str = "writer",
    ) -> None:
        """With a ``history``: one that other loads, under other names, write to as well."""
        self.history = History() if history is None else history
        self._bootstrap = bootstrap
        self._partitions = partitions
        self._names = [f"{name}-{number}{_PADDING}" for number in range(producers)]
        self._delivery_timeout_ms = delivery_timeout_ms
        self._is_over = False
        self._awaited: list[_Awaited] = []
        self._writing: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._writing = [asyncio.create_task(self._write(name)) for name in self._names]
        self._reading = asyncio.create_task(self._read(f"reader beside {self._names[0]}"))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            for task in self._writing:
                task.cancel()
            await asyncio.wait(self._writing)
        await self.end()

    async def end(self) -> None:
        """Send nothing more, and wait until every record has its end."""
        self._is_over = True
        await asyncio.wait(self._writing)
        self._reading.cancel()
        await asyncio.wait([self._reading])
        self._raise_failure()

    def _raise_failure(self) -> None:
        for task in (*self._writing, self._reading):
            if task.done() and not task.cancelled():
                task.result()

    async def acknowledges(self, count: int = 20, *, partitions: Sequence[TopicPartition] = ()) -> None:
        """Until each of the partitions has acknowledged so many records that were sent from now on.

        No partition named: all of them.
        """
        await self._counted(count, partitions, is_choosy=True)

    async def ends(self, count: int = 20, *, partitions: Sequence[TopicPartition] = ()) -> None:
        """The same with every end: acknowledged, refused or unknown."""
        await self._counted(count, partitions, is_choosy=False)

    async def _counted(self, count: int, partitions: Sequence[TopicPartition], *, is_choosy: bool) -> None:
        missing = dict.fromkeys(partitions or self._partitions, count)
        awaited = _Awaited(len(self.history.sent), is_choosy, missing)
        self._awaited.append(awaited)
        over = asyncio.ensure_future(awaited.is_over.wait())
        try:
            # A client ends early only with an error, which is then the better answer.
            async with asyncio.timeout(_TIMEOUT_S):
                await asyncio.wait([over, *self._writing, self._reading], return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            names = ", ".join(f"{each.topic}-{each.partition}" for each in awaited.missing)
            raise Violation(f"records without an end after {_TIMEOUT_S:g} s: {names}") from None
        finally:
            over.cancel()
            self._awaited.remove(awaited)
        self._raise_failure()

    # -- one client

    async def _write(self, name: str) -> None:
        room = asyncio.Semaphore(_UNANSWERED_MAX)
        async with AsyncProducer(
            self._bootstrap, acks="all", delivery_timeout_ms=self._delivery_timeout_ms
        ) as producer:
            while not self._is_over:
                for _ in range(_BURST):
                    await room.acquire()
                    await self._send(producer, name, room)
                await asyncio.sleep(_PAUSE_S)

    async def _send(self, producer: AsyncProducer, name: str, room: asyncio.Semaphore) -> None:
        number = len(self.history.sent)
        sent = self.history.begin(name, self._partitions[number % len(self._partitions)])

        def delivered(metadata: RecordMetadata | None, error: QuorateError | None) -> None:
            room.release()
            self._note(sent, number, metadata, error)

        try:
            await producer.send(
                sent.partition.topic,
                sent.value,
                partition=sent.partition.partition,
                on_delivery=delivered,
            )
        except QuorateError as error:
            delivered(None, error)

    def _note(
        self, sent: Sent, number: int, metadata: RecordMetadata | None, error: QuorateError | None
    ) -> None:
        assert sent.offset is None, "a record has one outcome"
        assert sent.error is None, "a record has one outcome"
        if metadata is None:
            sent.error = error
        else:
            sent.offset = metadata.offset
        assert sent.is_acknowledged != (sent.error is not None), "acks=all tells the offset (rule 20)"
        for awaited in self._awaited:
            awaited.count(number, sent)

    async def _read(self, name: str) -> None:
        """Until cancelled. What a reader is shown must stay (rule 17), so it goes into the history."""
        async with AsyncConsumer(self._bootstrap) as consumer:
            consumer.assign(self._partitions)
            while True:
                for record in await consumer.poll(timeout=1.0):
                    partition = TopicPartition(TopicName(record.topic), PartitionId(record.partition))
                    self.history.read.append((name, partition, Offset(record.offset), record.value or b""))
