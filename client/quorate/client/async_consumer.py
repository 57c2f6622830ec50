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
from typing import Final, Self

from quorate.client.cluster import ClusterView
from quorate.client.connection import parse_bootstrap
from quorate.client.consumer_iteration import RecordsAhead
from quorate.client.consumer_options import AutoOffsetReset, ConsumerOptions
from quorate.client.consumer_statistics import ConsumerStatistics
from quorate.client.consumer_topics import TopicSearch
from quorate.client.fetching import Fetching, start_for
from quorate.client.fetching_buffer import FetchBuffer
from quorate.client.positions import BEGINNING, END, PartitionReader, Position, Start
from quorate.core.clock import Clock, SystemClock
from quorate.core.ids import PartitionId, TopicName, TopicPartition
from quorate.core.records import ConsumerRecord
from quorate.core.transport import Transport
from quorate.errors import ClientClosed, InvalidRequest, RequestTimedOut, UnsupportedOperation
from quorate.rpc.grpcio_transport import GrpcioOptions, GrpcioTransport
from quorate.v1 import broker_pb2

__all__ = ["AsyncConsumer"]

#: A single batch may be as large as 128 MiB, whatever a fetch asks for.
_MESSAGE_BYTES_MAX: Final = 160 << 20
#: How many records an iteration takes out at once.
_ITERATION_RECORDS: Final = 1000


class AsyncConsumer:
    """Use as an asynchronous context manager, or close it. It begins to fetch with the first coroutine."""

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        *,
        group: str | None = None,
        topics: Sequence[str] | None = None,
        auto_offset_reset: AutoOffsetReset = "earliest",
        out_of_range_reset: AutoOffsetReset = "fail",
        client_rack: str | None = None,
        fetch_min_bytes: int = 1,
        fetch_max_wait_ms: int = 500,
        fetch_max_bytes: int = 50 << 20,
        max_partition_fetch_bytes: int = 1 << 20,
        prefetch_bytes: int = 32 << 20,
        request_timeout_ms: int = 30_000,
        metadata_max_age_ms: int = 60_000,
        transport: Transport | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        """What the options mean: `ConsumerOptions`. The last three are for simulations."""
        if group is not None:
            raise UnsupportedOperation(
                "consumer groups are not there yet: assign partitions, or give topics alone"
            )
        self._options = ConsumerOptions(
            auto_offset_reset=auto_offset_reset,
            out_of_range_reset=out_of_range_reset,
            client_rack=client_rack,
            fetch_min_bytes=fetch_min_bytes,
            fetch_max_wait_ms=fetch_max_wait_ms,
            fetch_max_bytes=fetch_max_bytes,
            max_partition_fetch_bytes=max_partition_fetch_bytes,
            prefetch_bytes=prefetch_bytes,
            request_timeout_ms=request_timeout_ms,
            metadata_max_age_ms=metadata_max_age_ms,
        )
        self._clock = clock or SystemClock()
        self._readers: dict[TopicPartition, PartitionReader] = {}
        self._statistics = ConsumerStatistics()
        self._buffer = FetchBuffer()
        self._ahead = RecordsAhead(self._buffer)
        self._connect(bootstrap, transport or _grpcio(), rng or random.Random())
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
        self._start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # -- which partitions

    def assign(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Read these, and no others; those that were assigned before keep their position."""
        self._prepare()
        wanted = dict.fromkeys(
            TopicPartition(TopicName(topic), PartitionId(number)) for topic, number in partitions
        )
        self._topics.forget_whole()
        for topic_partition in [each for each in self._readers if each not in wanted]:
            self._fetching.remove(self._readers.pop(topic_partition))
        for topic_partition in wanted:
            if topic_partition.partition < 0:
                raise InvalidRequest(f"partitions are numbered from 0, there is no {topic_partition}")
            self._topics.want(topic_partition.topic)
            self._add_partition(topic_partition, is_new=False)

    def assignment(self) -> list[TopicPartition]:
        return list(self._readers)

    def _add_partition(self, topic_partition: TopicPartition, is_new: bool) -> None:  # noqa: FBT001 - a callback
        if topic_partition not in self._readers:
            start = BEGINNING if is_new else start_for(self._options.auto_offset_reset)
            reader = self._readers[topic_partition] = PartitionReader(topic_partition, start)
            self._fetching.add(reader)

    def pause(self, *partitions: tuple[str, int]) -> None:
        """Hand out no records of these, and fetch none; no partition given: all that are assigned."""
        self._prepare()
        for reader in self._chosen(partitions):
            reader.is_paused = True
            self._buffer.pause(reader)
            self._fetching.changed(reader)

    def resume(self, *partitions: tuple[str, int]) -> None:
        self._prepare()
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
        self._prepare()
        reader = self._reader(partition)
        self._buffer.drop(reader)
        reader.seek(Position(offset, leader_epoch))
        self._fetching.changed(reader)

    def seek_to_beginning(self, *partitions: tuple[str, int]) -> None:
        """No partition given: all that are assigned."""
        self._seek_to(partitions, BEGINNING)

    def seek_to_end(self, *partitions: tuple[str, int]) -> None:
        """Behind the last committed record, as of when the leader is asked."""
        self._seek_to(partitions, END)

    def seek_to_time(self, partition: tuple[str, int], timestamp_ms: int) -> None:
        """To the first record of that time or later; to the end if there is none."""
        self._seek_to([partition], Start(broker_pb2.OFFSET_SPEC_AT_TIMESTAMP, timestamp_ms))

    def _seek_to(self, partitions: Sequence[tuple[str, int]], start: Start) -> None:
        self._prepare()
        for reader in self._chosen(partitions):
            self._buffer.drop(reader)
            reader.seek_to(start)
            self._fetching.changed(reader)

    async def position(self, partition: tuple[str, int], *, timeout: float = 30.0) -> int:  # noqa: ASYNC109
        """The offset of the next record that a poll will bring of this partition."""
        self._prepare()
        self._start()
        reader = self._reader(partition)
        deadline = self._clock.monotonic() + timeout
        while reader.position is None:
            if reader.failure is not None:
                raise reader.failure
            if self._clock.monotonic() >= deadline:
                raise RequestTimedOut(
                    f"{reader}: no leader says where it starts", topic=reader.topic_partition.topic
                )
            await self._fetching.progress(deadline - self._clock.monotonic())
        return reader.position.offset

    def lag(self) -> dict[TopicPartition, int | None]:
        """Committed records that are not polled yet, as of the last answers; None: not known yet."""
        self._ahead.put_back()
        return {each: _lag(reader) for each, reader in self._readers.items()}

    # -- records

    async def poll(self, max_records: int = 500, timeout: float = 1.0) -> list[ConsumerRecord]:  # noqa: ASYNC109
        """At most so many records; none if none came in time. Raises what has befallen a partition.

        A partition whose records were lost (`LogTruncated`, `OffsetOutOfRange`), or whose topic is gone, says
        so again and again, until it is sought or no longer assigned. The others go on meanwhile.
        """
        self._prepare()
        return await self._poll(max_records, timeout)

    async def _poll(self, max_records: int, timeout: float) -> list[ConsumerRecord]:  # noqa: ASYNC109
        self._start()
        deadline = self._clock.monotonic() + timeout
        while not (records := self.take(max_records)):
            remaining_s = deadline - self._clock.monotonic()
            if remaining_s <= 0:
                break
            await self._buffer.wait(remaining_s)
        return records

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord:
        while (record := self._ahead.next()) is None:
            self._check_open()
            self._ahead.fill(await self._poll(_ITERATION_RECORDS, timeout=1.0))
        return record

    def statistics(self) -> ConsumerStatistics:
        return replace(
            self._statistics,
            records=self._buffer.records_taken - len(self._ahead),
            bytes_buffered=self._buffer.buffered_bytes(),
        )

    # -- for the synchronous consumer, which takes records on its own thread

    def take(self, max_records: int) -> list[ConsumerRecord]:
        """What is there already, without waiting; raises as ``poll`` does."""
        self._check_open()
        if max_records < 1:
            raise InvalidRequest(f"max_records is at least 1, not {max_records}")
        if self._running is not None and self._running.done():
            self._running.result()
        return self._buffer.take(max_records)

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

    def _start(self) -> None:
        if self._running is None and not self._is_closed:
            self._running = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._fetching.run())
            tasks.create_task(self._topics.run())

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClientClosed("the consumer was closed")

    def _prepare(self) -> None:
        """Before everything that the application does, but for going on with an iteration."""
        self._check_open()
        self._ahead.put_back()

    def _chosen(self, partitions: Sequence[tuple[str, int]]) -> list[PartitionReader]:
        if not partitions:
            return list(self._readers.values())
        return [self._reader(partition) for partition in partitions]

    def _reader(self, partition: tuple[str, int]) -> PartitionReader:
        topic, number = partition
        reader = self._readers.get(TopicPartition(TopicName(topic), PartitionId(number)))
        if reader is None:
            raise InvalidRequest(f"{topic}-{number} is not assigned", topic=topic, partition=number)
        return reader


def _lag(reader: PartitionReader) -> int | None:
    if reader.position is None or reader.high_watermark is None:
        return None
    return max(0, reader.high_watermark - reader.position.offset)


def _grpcio() -> Transport:
    return GrpcioTransport(GrpcioOptions(message_bytes_max=_MESSAGE_BYTES_MAX))
