"""Fetching from one broker: one stream, and on it one request at a time for all partitions read there.

The next request leaves as soon as an answer is here, long before the application has polled it, and names
every partition: what has nothing new waits at the broker (long poll), and the first record anywhere wakes it.
It does not leave while the broker's share of the buffer is full.

Answers come in the order of the requests, so a request with a partition that has just been assigned or sought
would wait behind a long poll. Then the stream is ended and begun anew; what was on its way is asked for
again.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, Protocol

from quorate.client.cluster import ClusterView
from quorate.client.consumer.buffer import Account, Chunk, FetchBuffer
from quorate.client.consumer.options import ConsumerOptions
from quorate.client.consumer.positions import PartitionReader
from quorate.client.consumer.statistics import ConsumerStatistics
from quorate.core.backoff import Backoff
from quorate.core.clock import Clock, Timer
from quorate.core.transport import method_of
from quorate.errors import QuorateError, RequestTimedOut, Unavailable, UnknownServerError
from quorate.rpc.error_detail import error_from_detail
from quorate.v1 import broker_pb2

__all__ = ["BrokerFetcher", "FetchTroubles"]

_FETCH_STREAM: Final = method_of(
    broker_pb2.DESCRIPTOR.services_by_name["BrokerService"],
    "FetchStream",
    broker_pb2.FetchStreamRequest,
    broker_pb2.FetchStreamResponse,
)


class FetchTroubles(Protocol):
    """Who decides what to do about them."""

    def partition_refused(
        self, reader: PartitionReader, result: broker_pb2.FetchPartitionResult, *, is_follower: bool
    ) -> None: ...

    def broker_failed(self, address: str, error: QuorateError) -> None: ...


@dataclass(frozen=True, slots=True)
class _Asked:
    """A partition of the request that is under way."""

    reader: PartitionReader
    generation: int
    fetch_offset: int


class BrokerFetcher:
    def __init__(
        self,
        address: str,
        cluster: ClusterView,
        buffer: FetchBuffer,
        options: ConsumerOptions,
        *,
        clock: Clock,
        rng: random.Random,
        share_bytes: Callable[[], int],
        troubles: FetchTroubles,
        statistics: ConsumerStatistics,
    ) -> None:
        self.address = address
        self._cluster = cluster
        self._buffer = buffer
        self._options = options
        self._clock = clock
        self._share_bytes = share_bytes
        self._troubles = troubles
        self._statistics = statistics
        self._backoff = Backoff(rng)
        #: whether each partition is read from a follower; those at the front are served first
        self._readers: dict[PartitionReader, bool] = {}
        self._account = Account(self._on_room)
        self._loop = asyncio.get_running_loop()
        #: set when a request may have become possible
        self._news = asyncio.Event()
        self._is_full = False
        self._under_way: list[_Asked] | None = None
        self._correlation_id = 0
        self._watchdog: Timer | None = None
        self._silence: RequestTimedOut | None = None
        self._conversation: asyncio.Task[None] | None = None

    # -- which partitions

    @property
    def is_idle(self) -> bool:
        return not self._readers

    def place(self, reader: PartitionReader, *, is_follower: bool) -> None:
        if self._readers.get(reader) == is_follower:
            return
        self._readers[reader] = is_follower
        self._news.set()
        if self._under_way is not None and self._conversation is not None:
            self._conversation.cancel()

    def displace(self, reader: PartitionReader) -> None:
        self._readers.pop(reader, None)

    # -- the stream

    async def run(self) -> None:
        while True:
            await self._until_possible()
            error = await self._converse_once()
            if error is not None:
                self._troubles.broker_failed(self.address, error)
                await self._clock.sleep(self._backoff.next_s())

    async def _converse_once(self) -> QuorateError | None:
        """Until the stream fails, with why; or until it has to begin anew."""
        self._silence = None
        self._conversation = conversation = self._loop.create_task(self._converse())
        try:
            await asyncio.wait([conversation])
        finally:
            conversation.cancel()
            await asyncio.wait([conversation])
            # Looked at here, also for a fetcher that is stopped itself: its stream may fail in that very
            # moment instead of being cancelled, and asyncio would print an error that nobody has looked at.
            error = None if conversation.cancelled() else conversation.exception()
            self._conversation = None
            self._answer_came()
        if conversation.cancelled():
            return self._silence
        if error is None:
            return Unavailable(f"{self.address} ended the stream of fetches", address=self.address)
        if not isinstance(error, QuorateError):
            raise error
        return error

    async def _converse(self) -> None:
        channel = self._cluster.channel(self.address)
        async with aclosing(channel.stream(_FETCH_STREAM, self._requests(), timeout_s=None)) as responses:
            async for response in responses:
                asked = self._under_way
                self._answer_came()
                if response.HasField("error"):
                    raise error_from_detail(response.error)
                if asked is None or len(asked) != len(response.response.partitions):
                    raise UnknownServerError(
                        f"{self.address} answers what was not asked", address=self.address
                    )
                self._backoff.reset()
                self._statistics.fetches += 1
                for each, result in zip(asked, response.response.partitions, strict=True):
                    self._take_in(each, result)

    async def _requests(self) -> AsyncGenerator[broker_pb2.FetchStreamRequest, None]:
        while True:
            await self._until_possible()
            yield self._request()

    async def _until_possible(self) -> None:
        while self._under_way is not None or not self._readers or not self._has_room():
            self._news.clear()
            await self._news.wait()

    def _request(self) -> broker_pb2.FetchStreamRequest:
        options = self._options
        room = self._share_bytes() - self._account.buffered_bytes
        request = broker_pb2.FetchRequest(
            max_wait_ms=options.fetch_max_wait_ms,
            min_bytes=options.fetch_min_bytes,
            max_bytes=max(1, min(options.fetch_max_bytes, room)),
            format=broker_pb2.RECORD_FORMAT_BATCHES,
            allow_follower=any(self._readers.values()),
        )
        asked = []
        for reader in self._readers:
            assert reader.fetch_offset is not None, "only partitions with a position are placed"
            request.partitions.add(
                topic=reader.topic_partition.topic,
                topic_id=reader.topic_id,
                partition=reader.topic_partition.partition,
                # Only in the epoch in which the position was found good (rule 66).
                current_leader_epoch=reader.validated_epoch,
                fetch_offset=reader.fetch_offset,
                partition_max_bytes=options.max_partition_fetch_bytes,
            )
            asked.append(_Asked(reader, reader.generation, reader.fetch_offset))
        self._under_way = asked
        self._correlation_id += 1
        patience_s = (options.fetch_max_wait_ms + options.request_timeout_ms) / 1000
        self._watchdog = self._clock.call_later(patience_s, self._give_up)
        return broker_pb2.FetchStreamRequest(correlation_id=self._correlation_id, request=request)

    def _answer_came(self) -> None:
        self._under_way = None
        if self._watchdog is not None:
            self._watchdog.cancel()
            self._watchdog = None
        self._news.set()

    def _give_up(self) -> None:
        self._silence = RequestTimedOut(f"{self.address} does not answer a fetch", address=self.address)
        if self._conversation is not None:
            self._conversation.cancel()

    # -- answers

    def _take_in(self, asked: _Asked, result: broker_pb2.FetchPartitionResult) -> None:
        reader = asked.reader
        is_follower = self._readers.get(reader)
        if is_follower is None or reader.generation != asked.generation or reader.failure is not None:
            return
        if result.HasField("high_watermark"):
            reader.high_watermark = result.high_watermark
        if result.HasField("error"):
            self._troubles.partition_refused(reader, result, is_follower=is_follower)
        elif result.batches:
            self._keep(asked, result)
            # Its turn is over: the next answer's bytes go to the others first.
            self._readers[reader] = self._readers.pop(reader)

    def _keep(self, asked: _Asked, result: broker_pb2.FetchPartitionResult) -> None:
        if result.next_fetch_offset <= asked.fetch_offset:
            raise UnknownServerError(
                f"{self.address} answers a fetch of {asked.reader} at {asked.fetch_offset} with records "
                f"that end at {result.next_fetch_offset}",
                address=self.address,
            )
        chunk = Chunk(
            result.batches,
            from_offset=asked.fetch_offset,
            next_offset=result.next_fetch_offset,
            account=self._account,
        )
        asked.reader.fetch_offset = result.next_fetch_offset
        self._statistics.bytes_fetched += len(result.batches)
        self._buffer.put(asked.reader, chunk)

    # -- room in the buffer

    def _has_room(self) -> bool:
        # In this order: room that is made in between, on another thread, is then told by `_on_room`.
        self._is_full = True
        self._is_full = self._account.buffered_bytes > self._share_bytes() // 2
        return not self._is_full

    def _on_room(self) -> None:
        if self._is_full:
            self._loop.call_soon_threadsafe(self._news.set)
