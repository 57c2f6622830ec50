"""Fetch: read many partitions, and wait if there is too little to read.

A fetch that has to wait keeps nothing but a watch on its partitions; what it has read so far is
dropped and read again when it wakes, because holding it would cost memory for as long as the topic
is quiet. It wakes when enough bytes were committed, when its time is over, or when the node stops.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

from quorate.broker.handlers.structured_records import decode_records
from quorate.broker.handlers.targets import answer, check_enum, find_partitions
from quorate.broker.partition import FetchWatch, Partition
from quorate.broker.topic_registry import TopicRegistry
from quorate.core.clock import Clock
from quorate.core.config import NodeConfig
from quorate.core.ids import Offset
from quorate.core.transport import Call
from quorate.errors import InvalidRequest, QuorateError
from quorate.v1 import broker_pb2

__all__ = ["FetchHandler"]

#: where the request does not say, as Kafka's consumer
_BYTES_MAX: Final = 50 << 20
_PARTITION_BYTES_MAX: Final = 1 << 20


class _Reading(NamedTuple):
    response: broker_pb2.FetchResponse
    size: int
    has_error: bool


class FetchHandler:
    def __init__(self, config: NodeConfig, topics: TopicRegistry, clock: Clock) -> None:
        self._config = config
        self._topics = topics
        self._clock = clock
        #: an ordered set of the fetches that wait
        self._waiting: dict[FetchWatch, None] = {}
        self._is_stopping = False

    async def __call__(self, request: broker_pb2.FetchRequest, _call: Call) -> broker_pb2.FetchResponse:
        _check(request)
        wait_s = min(request.max_wait_ms, self._config.fetch_wait_max_ms) / 1000
        deadline = self._clock.monotonic() + wait_s
        min_bytes = max(request.min_bytes, 1)
        while True:
            targets = find_partitions(
                self._topics, request.partitions, partitions_max=self._config.request_partitions_max
            )
            reading = self._read_all(request, targets)
            remaining_s = deadline - self._clock.monotonic()
            if reading.size >= min_bytes or reading.has_error or remaining_s <= 0 or self._is_stopping:
                return reading.response
            missing_bytes = min_bytes - reading.size
            del reading
            await self._wait(targets, missing_bytes, remaining_s)

    def stop(self) -> None:
        """Answer all that wait with what there is; from now on, nobody waits."""
        self._is_stopping = True
        for watch in self._waiting:
            watch.wake()

    async def _wait(
        self, targets: Sequence[Partition | QuorateError], missing_bytes: int, timeout_s: float
    ) -> None:
        """Registered before the first await: what is committed after the reading is not missed."""
        watch = FetchWatch(missing_bytes)
        partitions = [target for target in targets if isinstance(target, Partition)]
        self._waiting[watch] = None
        for partition in partitions:
            partition.watch(watch)
        timer = self._clock.call_later(timeout_s, watch.wake)
        try:
            await watch.done
        finally:
            timer.cancel()
            for partition in partitions:
                partition.unwatch(watch)
            del self._waiting[watch]

    def _read_all(
        self, request: broker_pb2.FetchRequest, targets: Sequence[Partition | QuorateError]
    ) -> _Reading:
        asked = request.max_bytes if request.HasField("max_bytes") else _BYTES_MAX
        budget = min(asked, self._config.fetch_max_bytes)
        structured = request.format == broker_pb2.RECORD_FORMAT_RECORDS
        response = broker_pb2.FetchResponse()
        size, has_error = 0, False
        for entry, target in zip(request.partitions, targets, strict=True):
            result = response.partitions.add()
            read = partial(
                _read, result, entry, bytes_left=budget - size, is_first=size == 0, structured=structured
            )
            size += answer(result, entry, target, read) or 0
            has_error = has_error or result.HasField("error")
        return _Reading(response, size, has_error)


def _check(request: broker_pb2.FetchRequest) -> None:
    check_enum(broker_pb2.RecordFormat.DESCRIPTOR, request.format, "format")
    if request.max_wait_ms < 0 or request.min_bytes < 0:
        raise InvalidRequest("max_wait_ms and min_bytes cannot be negative")
    if request.HasField("max_bytes") and request.max_bytes <= 0:
        raise InvalidRequest("max_bytes has to be positive")
    for entry in request.partitions:
        if entry.HasField("partition_max_bytes") and entry.partition_max_bytes <= 0:
            raise InvalidRequest("partition_max_bytes has to be positive")
        if entry.fetch_offset < 0:
            raise InvalidRequest(f"fetch_offset {entry.fetch_offset} is negative; ListOffsets finds a start")


def _describe(
    result: broker_pb2.FetchPartitionResult, partition: Partition, entry: broker_pb2.FetchPartition
) -> None:
    result.high_watermark = partition.high_watermark
    result.log_start_offset = partition.log_start_offset
    result.leader_epoch = partition.leader_epoch
    # Until something is read, the reader stays where it is.
    result.next_fetch_offset = entry.fetch_offset


def _read(
    result: broker_pb2.FetchPartitionResult,
    entry: broker_pb2.FetchPartition,
    partition: Partition,
    *,
    bytes_left: int,
    is_first: bool,
    structured: bool,
) -> int:
    """Fill in what the partition has, and return its size in the answer.

    The first partition that has something sends at least one batch, however large, so that a reader
    never gets stuck; in any other, what is larger than the bytes left waits for a fetch in which it
    comes first.
    """
    _describe(result, partition, entry)
    if bytes_left <= 0:
        return 0
    fetch_offset = Offset(entry.fetch_offset)
    asked = entry.partition_max_bytes if entry.HasField("partition_max_bytes") else _PARTITION_BYTES_MAX
    bytes_max = min(asked, bytes_left)
    read = partition.read(fetch_offset, bytes_max=bytes_max)
    if not structured:
        if len(read.batches) <= bytes_left or is_first:
            result.batches = read.batches
            result.next_fetch_offset = read.next_offset
        return len(result.batches)
    decoded = decode_records(read.batches, from_offset=fetch_offset, bytes_max=bytes_max)
    if decoded.size > bytes_left and not is_first:
        return 0
    result.records.extend(decoded.records)
    result.next_fetch_offset = decoded.next_offset
    return decoded.size
