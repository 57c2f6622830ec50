"""Reads records from partitions, on the application's event loop.

The pieces: a `PartitionReader` knows where one partition stands, `Fetching` keeps all of them being fetched,
`FetchBuffer` holds what has arrived. This class is what the application sees of them.

Calls that need nobody's answer are plain functions and take effect at once; what has to wait is a coroutine.
One task uses a consumer at a time. Groups are not there yet: partitions are assigned by the application, or
all partitions of ``topics`` are read.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Final, Self, Unpack

from quorate.client.cluster import ClusterView
from quorate.client.connection import parse_bootstrap
from quorate.client.consumer.buffer import FetchBuffer
from quorate.client.consumer.fetching import Fetching, start_for
from quorate.client.consumer.iteration import RecordsAhead
from quorate.client.consumer.options import ConsumerOptions, OptionArguments
from quorate.client.consumer.positions import BEGINNING, END, PartitionReader, Position, Start
from quorate.client.consumer.statistics import ConsumerStatistics
from quorate.client.consumer.topic_search import TopicSearch
from quorate.client.transport import client_transport
from quorate.core.clock import Clock, SystemClock
from quorate.core.ids import PartitionId, TopicName, TopicPartition
from quorate.core.records import ConsumerRecord
from quorate.core.transport import Transport
from quorate.errors import (
    ClientClosed,
    InvalidRequest,
    RequestTimedOut,
    UnsupportedOperation,
    copy_of,
)
from quorate.v1 import broker_pb2

__all__ = ["AsyncConsumer"]

#: How many records an iteration takes out at once.
_ITERATION_RECORDS: Final = 1000
#: An iteration waits for ever, in steps of so long.
_ITERATION_STEP_S: Final = 1.0


class AsyncConsumer:
    """Use as an asynchronous context manager, or close it. It begins to fetch with the first coroutine."""

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        *,
        group: str | None = None,
        topics: Sequence[str] | None = None,
        transport: Transport | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        **options: Unpack[OptionArguments],
    ) -> None:
        """What the options mean: `ConsumerOptions`. The transport, clock and rng are for simulations."""
        if group is not None:
            raise UnsupportedOperation(
                "consumer groups are not there yet: assign partitions, or give topics alone"
            )
        self._options = ConsumerOptions(**options)
        self._clock = clock or SystemClock()
        self._readers: dict[TopicPartition, PartitionReader] = {}
        #: where to begin in a partition that has no position
        self._first_start = start_for(self._options.auto_offset_reset)
        self._statistics = ConsumerStatistics()
        self._buffer = FetchBuffer()
        self.ahead = RecordsAhead(self._buffer)
        self._connect(bootstrap, transport or client_transport(), rng or random.Random())
        self._running: asyncio.Task[None] | None = None
        self._is_closed = False
        for topic in topics or ():
            self._topics.want_whole(TopicName(topic))

    def _connect(self, bootstrap: str | Sequence[str], transport: Transport, rng: random.Random) -> None:
        options = self._options
        addresses = parse_bootstrap(bootstrap if isinstance(bootstrap, str) else ",".join(bootstrap))
        self._cluster = ClusterView(
            transport, addresses, clock=self._clock, rng=rng, rack=options.client_rack
        )
        self._fetching = Fetching(
            self._cluster, self._buffer, options, clock=self._clock, rng=rng, statistics=self._statistics
        )
        self._topics = TopicSearch(
            self._cluster,
            self._buffer,
            self._add_partition,
            clock=self._clock,
            rng=rng,
            timeout_s=options.request_timeout_ms / 1000,
            metadata_age_s=options.metadata_max_age_ms / 1000,
        )

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # -- which partitions

    def assign(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Read these, and no others; those that were assigned before keep their position."""
        self.put_back()
        wanted = dict.fromkeys(
            TopicPartition(TopicName(topic), PartitionId(number)) for topic, number in partitions
        )
        if any(each.partition < 0 for each in wanted):
            raise InvalidRequest("partitions are numbered from 0")
        self._topics.forget_whole()
        for topic_partition in [each for each in self._readers if each not in wanted]:
            self._fetching.remove(self._readers.pop(topic_partition))
        for topic_partition in wanted:
            self._topics.want(topic_partition.topic)
            self._add_partition(topic_partition, is_new=False)

    def assignment(self) -> list[TopicPartition]:
        return list(self._readers)

    def _add_partition(self, topic_partition: TopicPartition, is_new: bool) -> None:  # noqa: FBT001 - a callback
        if topic_partition not in self._readers:
            start = BEGINNING if is_new else self._first_start
            reader = self._readers[topic_partition] = PartitionReader(topic_partition, start)
            self._fetching.add(reader)

    def pause(self, *partitions: tuple[str, int]) -> None:
        """Hand out no records of these, and fetch none; no partition given: all that are assigned."""
        self.put_back()
        for reader in self._chosen(partitions):
            reader.is_paused = True
            self._buffer.pause(reader)
            self._fetching.changed(reader)

    def resume(self, *partitions: tuple[str, int]) -> None:
        self.put_back()
        for reader in self._chosen(partitions):
            reader.is_paused = False
            self._buffer.resume(reader)
            self._fetching.changed(reader)

    def paused(self) -> list[TopicPartition]:
        return [each for each, reader in self._readers.items() if reader.is_paused]

    # -- where in them

    def seek(self, partition: tuple[str, int], offset: int, *, leader_epoch: int | None = None) -> None:
        """Go on at ``offset``.

        With the leader epoch of the record before it, as kept from when it was read, the position is checked
        before it is used: `LogTruncated` if what was read is no longer there.
        """
        if offset < 0:
            raise InvalidRequest(f"an offset is 0 or more, not {offset}")
        self.put_back()
        reader = self._reader(partition)
        self._buffer.drop(reader)
        reader.seek(Position(offset, leader_epoch))
        self._fetching.changed(reader)

    def seek_to_beginning(self, *partitions: tuple[str, int]) -> None:
        """No partition given: all that are assigned, and all of ``topics`` that are still to be found."""
        self._seek_to(partitions, BEGINNING)

    def seek_to_end(self, *partitions: tuple[str, int]) -> None:
        """Behind the last committed record, as of when the leader is asked. None given: as above."""
        self._seek_to(partitions, END)

    def seek_to_time(self, partition: tuple[str, int], timestamp_ms: int) -> None:
        """To the first record of that time or later; to the end if there is none."""
        self._seek_to([partition], Start(broker_pb2.OFFSET_SPEC_AT_TIMESTAMP, timestamp_ms))

    def _seek_to(self, partitions: Sequence[tuple[str, int]], start: Start) -> None:
        self.put_back()
        if not partitions and self._topics.is_any_awaited():
            self._first_start = start
        for reader in self._chosen(partitions):
            self._buffer.drop(reader)
            reader.seek_to(start)
            self._fetching.changed(reader)

    async def position(self, partition: tuple[str, int], *, timeout: float = 30.0) -> int:  # noqa: ASYNC109
        """The offset of the next record that a poll will bring of this partition."""
        self.put_back()
        self.start()
        reader = self._reader(partition)
        deadline = self._clock.monotonic() + timeout
        while reader.position is None:
            if reader.failure is not None:
                raise copy_of(reader.failure)
            if self._clock.monotonic() >= deadline:
                raise RequestTimedOut(
                    f"{reader}: no leader says where it starts", topic=reader.topic_partition.topic
                )
            await self._fetching.progress(deadline - self._clock.monotonic())
        return reader.position.offset

    def lag(self) -> dict[TopicPartition, int | None]:
        """Committed records that are not polled yet, as of the last answers; None: not known yet."""
        self.ahead.put_back()
        return {each: _lag(reader) for each, reader in self._readers.items()}

    # -- records

    async def poll(self, max_records: int = 500, timeout: float = 1.0) -> list[ConsumerRecord]:  # noqa: ASYNC109
        """At most so many records; none if none came in time. Raises what has befallen a partition.

        A partition whose records were lost (`LogTruncated`, `OffsetOutOfRange`), or whose topic is gone, says
        so again and again, until it is sought or no longer assigned. The others go on meanwhile.
        """
        self.put_back()
        return await self._poll(max_records, timeout)

    async def _poll(self, max_records: int, timeout: float) -> list[ConsumerRecord]:  # noqa: ASYNC109
        self.start()
        # Also an application that always finds records here has to let the next ones be fetched.
        await asyncio.sleep(0)
        records = self.take(max_records, is_patient=True)
        if not records and timeout > 0:
            await self.wait(timeout)
        return records or self.take(max_records)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord:
        while (record := self.ahead.next()) is None:
            self._check_open()
            self.ahead.fill(await self._poll(_ITERATION_RECORDS, _ITERATION_STEP_S))
        return record

    def statistics(self) -> ConsumerStatistics:
        return replace(
            self._statistics,
            records=self._buffer.records_taken - len(self.ahead),
            bytes_buffered=self._buffer.buffered_bytes(),
        )

    # -- pieces of a poll, for the synchronous consumer: all but ``wait`` on the application's thread

    def take(self, max_records: int, *, is_patient: bool = False) -> list[ConsumerRecord]:
        """What is there already, without waiting; raises as ``poll`` does.

        Patient: a failure that was told before is not told again yet.
        """
        self._check_open()
        if max_records < 1:
            raise InvalidRequest(f"max_records is at least 1, not {max_records}")
        if self._running is not None and self._running.done():
            self._running.result()
        return self._buffer.take(max_records, is_patient=is_patient)

    async def wait(self, timeout_s: float) -> None:
        """Until a patient ``take`` would bring something, or the time is over."""
        await self._buffer.wait(timeout_s)

    def put_back(self) -> None:
        """What an iteration has taken out and not yielded: before anything else is done."""
        self._check_open()
        self.ahead.put_back()

    # -- life

    async def close(self) -> None:
        """Records that were not polled stay in the log; closing twice is harmless."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])
        for reader in self._readers.values():
            self._buffer.drop(reader)
        await self._cluster.close()

    def start(self) -> None:
        if self._running is None and not self._is_closed:
            self._running = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._fetching.run())
            tasks.create_task(self._topics.run())

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClientClosed("the consumer was closed")

    def _chosen(self, partitions: Sequence[tuple[str, int]]) -> list[PartitionReader]:
        if not partitions:
            return list(self._readers.values())
        return [self._reader(partition) for partition in partitions]

    def _reader(self, partition: tuple[str, int]) -> PartitionReader:
        topic, number = partition
        reader = self._readers.get(TopicPartition(TopicName(topic), PartitionId(number)))
        if reader is None and self._topics.is_awaited(TopicName(topic)):
            self._add_partition(TopicPartition(TopicName(topic), PartitionId(number)), is_new=False)
            return self._reader(partition)
        if reader is None:
            raise InvalidRequest(f"{topic}-{number} is not assigned", topic=topic, partition=number)
        return reader


def _lag(reader: PartitionReader) -> int | None:
    if reader.position is None or reader.high_watermark is None:
        return None
    return max(0, reader.high_watermark - reader.position.offset)
