"""Clients of a real cluster: producers that write unique records, readers, and what all of them were told.

The load goes on through whatever is done to the cluster. Nothing is repeated by hand: a record has the end
that the producer gives it, which tries again by itself until its delivery time-out is over.

Before records are handed to a producer, the recorder of the history has written down that they will be: one
write for a burst of them. So a ledger that outlives this process knows of every record that may be in a log.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Final, Protocol, Self

from quorate.chaos.checks.violation import Violation
from quorate.chaos.history.entries import Acks, Sent
from quorate.chaos.history.history import History
from quorate.chaos.live.reader import LedgerReader
from quorate.client import AsyncProducer
from quorate.client.producer import RecordMetadata
from quorate.client.producer.batch import OnDelivery
from quorate.core.ids import TopicPartition
from quorate.errors import QuorateError

__all__ = ["LedgerLoad", "Sender"]

#: so many records at a time, then a pause: enough to strike a cluster at work, and little enough that two
#: cores have time for the cluster
_BURST_MAX: Final = 10
_RECORDS_PER_S: Final = 1_000.0
#: of a producer that writes slowly: bursts would make it look like one that writes now and then
_BURSTS_PER_S: Final = 20.0
#: a producer that gets no answers stops here, as a careful application does
_UNANSWERED_MAX: Final = 2_000
#: records of an ordinary size
_VALUE_BYTES: Final = 110
_TIMEOUT_S: Final = 60.0
#: longer than any fault, so that every record is delivered in the end
_DELIVERY_TIMEOUT_MS: Final = 120_000


class Sender(Protocol):
    """What a load asks of a producer."""

    async def send(
        self, topic: str, value: bytes, *, key: bytes | None, partition: int, on_delivery: OnDelivery
    ) -> object:
        """Returns once it is on its way; ``on_delivery`` tells of its end."""


@dataclass(slots=True)
class _Awaited:
    """Somebody waits until records that were sent from here on have their ends."""

    #: records up to this serial number do not count
    since: int
    #: only acknowledgements count, or every end
    only_acknowledged: bool
    #: by partition; one that is done is not in it
    missing: dict[TopicPartition, int]
    is_over: asyncio.Event = field(default_factory=asyncio.Event)

    def count(self, sent: Sent) -> None:
        is_counted = sent.is_acknowledged or not self.only_acknowledged
        if sent.serial <= self.since or sent.partition not in self.missing or not is_counted:
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
        acks: Acks = "all",
        records_per_s: float = _RECORDS_PER_S,
        keys: int = 0,
        value_bytes: int = _VALUE_BYTES,
        delivery_timeout_ms: int = _DELIVERY_TIMEOUT_MS,
        hasty_timeout_ms: int | None = None,
        readers: int = 1,
        history: History | None = None,
        name: str = "writer",
        rng: random.Random | None = None,
        sender: Callable[[], AbstractAsyncContextManager[Sender]] | None = None,
    ) -> None:
        """``partitions``: of as many topics as you like; they take turns.

        ``records_per_s``: of each producer. ``keys``: with so many keys, drawn for each record; those of one
        key go to one partition. ``hasty_timeout_ms``: the last producer gives up as soon as that, so that
        records are refused, and some have an end that nobody knows. ``history``: one that other loads, under
        other names, write to as well. ``rng``: for the keys. ``sender``: makes producers of another system
        than ours.
        """
        self.history = History() if history is None else history
        self._bootstrap = bootstrap
        self._partitions = list(partitions)
        self._acks: Acks = acks
        self._keys = keys
        self._value_bytes = value_bytes
        self._rng = rng or random.Random()
        self._burst = max(1, min(_BURST_MAX, round(records_per_s / _BURSTS_PER_S)))
        self._pause_s = self._burst / records_per_s
        timeouts_ms = [delivery_timeout_ms] * producers
        if hasty_timeout_ms is not None:
            timeouts_ms[-1] = hasty_timeout_ms
        self._senders: dict[str, Callable[[], AbstractAsyncContextManager[Sender]]] = {
            f"{name}-{number}": sender or partial(self._our_producer, timeout_ms)
            for number, timeout_ms in enumerate(timeouts_ms)
        }
        self._is_over = False
        self._count = 0
        #: records so far
        self.acknowledged_count = 0
        #: records that are on their way
        self.unanswered_count = 0
        self._awaited: list[_Awaited] = []
        self._writing: list[asyncio.Task[None]] = []
        self.readers = [
            LedgerReader(
                bootstrap, self._partitions, history=self.history, name=f"reader-{number} beside {name}"
            )
            for number in range(readers)
        ]

    async def __aenter__(self) -> Self:
        self._writing = [asyncio.create_task(self._write(name)) for name in self._senders]
        for reader in self.readers:
            reader.start()
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
        for reader in self.readers:
            await reader.kill()
        self._raise_failure()

    def _raise_failure(self) -> None:
        for task in self._tasks():
            if task.done() and not task.cancelled():
                task.result()

    def _tasks(self) -> list[asyncio.Task[None]]:
        return [*self._writing, *(reader.task for reader in self.readers if reader.task is not None)]

    async def take_up(self, partitions: Sequence[TopicPartition]) -> None:
        """Partitions that there were not when it began: they are written to and read from now on."""
        self._partitions.extend(partitions)
        for reader in self.readers:
            await reader.take_up(partitions)

    async def acknowledges(self, count: int = 20, *, partitions: Sequence[TopicPartition] = ()) -> None:
        """Until each of the partitions has acknowledged so many records that were sent from now on.

        No partition named: all of them.
        """
        await self._counted(count, partitions, only_acknowledged=True)

    async def ends(self, count: int = 20, *, partitions: Sequence[TopicPartition] = ()) -> None:
        """The same with every end: acknowledged, refused or unknown."""
        await self._counted(count, partitions, only_acknowledged=False)

    async def _counted(
        self, count: int, partitions: Sequence[TopicPartition], *, only_acknowledged: bool
    ) -> None:
        missing = dict.fromkeys(partitions or self._partitions, count)
        awaited = _Awaited(self.history.last_serial, only_acknowledged, missing)
        self._awaited.append(awaited)
        over = asyncio.ensure_future(awaited.is_over.wait())
        try:
            # A client ends early only with an error, which is then the better answer.
            async with asyncio.timeout(_TIMEOUT_S):
                await asyncio.wait([over, *self._tasks()], return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            names = ", ".join(map(str, awaited.missing))
            message = f"records without an end after {_TIMEOUT_S:g} s: {names}"
            raise Violation(message, check="unavailable") from None
        finally:
            over.cancel()
            self._awaited.remove(awaited)
        self._raise_failure()

    # -- one producer

    def _our_producer(self, delivery_timeout_ms: int) -> AsyncProducer:
        return AsyncProducer(self._bootstrap, acks=self._acks, delivery_timeout_ms=delivery_timeout_ms)

    async def _write(self, name: str) -> None:
        room = asyncio.Semaphore(_UNANSWERED_MAX)
        async with self._senders[name]() as producer:
            while not self._is_over:
                for _ in range(self._burst):
                    await room.acquire()
                drawn = [self._draw() for _ in range(self._burst)]
                burst = [
                    (self.history.begin(name, at, acks=self._acks, value_bytes=self._value_bytes), key)
                    for at, key in drawn
                ]
                self.history.flush()
                for sent, key in burst:
                    await self._send(producer, sent, key, room)
                await asyncio.sleep(self._pause_s)

    def _draw(self) -> tuple[TopicPartition, bytes | None]:
        self._count += 1
        if not self._keys:
            return self._partitions[self._count % len(self._partitions)], None
        key = self._rng.randrange(self._keys)
        return self._partitions[key % len(self._partitions)], f"key-{key}".encode()

    async def _send(self, producer: Sender, sent: Sent, key: bytes | None, room: asyncio.Semaphore) -> None:
        def delivered(metadata: RecordMetadata | None, error: QuorateError | None) -> None:
            room.release()
            self.unanswered_count -= 1
            if error is not None:
                self.history.fail(sent, error)
            else:
                assert metadata is not None, "it has arrived, or there is an error"
                self.history.acknowledge(sent, metadata.offset)
                self.acknowledged_count += 1
            for awaited in self._awaited:
                awaited.count(sent)

        self.unanswered_count += 1
        try:
            await producer.send(
                sent.partition.topic,
                sent.value,
                key=key,
                partition=sent.partition.partition,
                on_delivery=delivered,
            )
        except QuorateError as error:
            delivered(None, error)
