"""Fetch: read many partitions, and wait if there is too little to read.

A fetch that has to wait keeps nothing but its request and a watch on its partitions; what it has read so
far is dropped and read again when it wakes, because holding it would cost memory for as long as the topic
is quiet. It wakes when enough bytes were committed, when somebody else leads, when its time is over, or when
the node stops.

Requests that wait have a bound for all of them (queued.max.request.bytes), by what they weigh here: one may
be large by what nobody here knows of it, and that is kept with it. One that names too many partitions is
refused before it waits for anything.

What answers hold until the transport has taken them has one bound for all (queued.max.response.bytes). A
fetch gets what is left of it, and at least one batch; if nothing is left it waits for a while. So readers
that are slow take the memory from each other, and not from the node.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quorate.broker.handlers.bounded_memory import BoundedMemory
from quorate.broker.handlers.reading import Budget, PartitionReading, fill_fetch_response, read_partition
from quorate.broker.handlers.request_memory import RequestMemory
from quorate.broker.handlers.targets import KnownValues, find_partitions
from quorate.broker.hosted import Hosted
from quorate.broker.replica.fetch_watch import FetchWatch
from quorate.broker.replica.partition import Partition
from quorate.core.clock import Clock
from quorate.core.config import NodeConfig
from quorate.core.transport import Call
from quorate.errors import InvalidRequest, Overloaded, QuorateError
from quorate.v1 import broker_pb2

__all__ = ["FetchHandler"]

#: where the request does not say, as Kafka's consumer
_BYTES_MAX: Final = 50 << 20
#: how long a fetch waits for others' answers to leave before it is refused
_ROOM_WAIT_S: Final = 10.0
#: of memory for each partition of a request, beside what it takes on the wire
_ENTRY_BYTES: Final = 64
_FORMATS: Final = KnownValues(broker_pb2.RecordFormat.DESCRIPTOR, "format")


class FetchHandler:
    def __init__(self, config: NodeConfig, hosted: Hosted, clock: Clock) -> None:
        self._config = config
        self._hosted = hosted
        self._clock = clock
        self._memory = BoundedMemory(config.queued_max_response_bytes)
        self._request_memory = RequestMemory(config.queued_max_request_bytes, kind="fetches that wait")
        #: an ordered set of the fetches that wait
        self._waiting: dict[FetchWatch, None] = {}
        self._is_stopping = False

    async def __call__(self, request: broker_pb2.FetchRequest, call: Call) -> broker_pb2.FetchResponse:
        response = broker_pb2.FetchResponse()
        held_bytes = await self.fetch_into(response, request)
        call.when_over(lambda: self.release(held_bytes))
        return response

    async def fetch_into(self, response: broker_pb2.FetchResponse, request: broker_pb2.FetchRequest) -> int:
        """Filled in at the end, without an await after that: it is to leave at once (rule 37).

        How many bytes it holds: to be released when the transport has taken them.
        """
        _check(request)
        readings, bytes_read = await self._read_or_wait(request)
        fill_fetch_response(response, readings, self._hosted.lease)
        # No await since there was room: over the bound by one batch at most.
        self._memory.hold(bytes_read)
        return bytes_read

    def release(self, held_bytes: int) -> None:
        self._memory.release(held_bytes)

    def stop(self) -> None:
        """Answer all that wait with what there is; from now on, nobody waits."""
        self._is_stopping = True
        for watch in self._waiting:
            watch.wake()

    async def _read_or_wait(self, request: broker_pb2.FetchRequest) -> tuple[Sequence[PartitionReading], int]:
        """And how many bytes were read."""
        wait_s = min(request.max_wait_ms, self._config.fetch_wait_max_ms) / 1000
        deadline = self._clock.monotonic() + wait_s
        asked = request.max_bytes if request.HasField("max_bytes") else _BYTES_MAX
        bytes_max = min(asked, self._config.fetch_max_bytes)
        # More than an answer may have is never there.
        min_bytes = min(max(request.min_bytes, 1), bytes_max)
        while True:
            targets = find_partitions(
                self._hosted, request.partitions, partitions_max=self._config.request_partitions_max
            )
            if not self._memory.has_room:
                with self._request_memory.hold_or_refuse(_weight(request)):
                    await self._wait_for_room()
                continue
            budget = Budget(min(bytes_max, self._memory.bytes_left))
            readings = [
                read_partition(request, entry, target, budget, self._hosted)
                for entry, target in zip(request.partitions, targets, strict=True)
            ]
            remaining_s = deadline - self._clock.monotonic()
            if (
                budget.bytes_read >= min(min_bytes, self._memory.bytes_left)
                or remaining_s <= 0
                or self._is_stopping
                or not self._hosted.lease.is_valid
                or any(reading.error is not None for reading in readings)
            ):
                return readings, budget.bytes_read
            del readings
            missing_bytes = min_bytes - budget.bytes_read
            if request.format == broker_pb2.RECORD_FORMAT_RECORDS:
                missing_bytes = 1  # nobody knows before it is read how much a batch unpacks to
            with self._request_memory.hold_or_refuse(_weight(request)):
                await self._wait(targets, missing_bytes, remaining_s)

    async def _wait_for_room(self) -> None:
        deadline = self._clock.monotonic() + _ROOM_WAIT_S
        # Once woken, somebody else may have been quicker.
        while not self._memory.has_room:
            remaining_s = deadline - self._clock.monotonic()
            if self._is_stopping or remaining_s <= 0:
                bytes_max = self._config.queued_max_response_bytes
                raise Overloaded(
                    f"answers that wait for their readers hold all of queued.max.response.bytes, {bytes_max}",
                    queued_max_response_bytes=bytes_max,
                )
            watch = FetchWatch(1)
            self._memory.call_when_room(watch.wake)
            try:
                await self._until_woken(watch, remaining_s)
            finally:
                self._memory.forget(watch.wake)

    async def _wait(
        self, targets: Sequence[Partition | QuorateError], missing_bytes: int, timeout_s: float
    ) -> None:
        """Registered before the first await: what is committed after the reading is not missed."""
        watch = FetchWatch(missing_bytes)
        partitions = [target for target in targets if isinstance(target, Partition)]
        for partition in partitions:
            partition.watch(watch)
        try:
            await self._until_woken(watch, timeout_s)
        finally:
            for partition in partitions:
                partition.unwatch(watch)

    async def _until_woken(self, watch: FetchWatch, timeout_s: float) -> None:
        """Also by the end of its time, and by the stop of the node."""
        self._waiting[watch] = None
        timer = self._clock.call_later(timeout_s, watch.wake)
        try:
            await watch.done
        finally:
            timer.cancel()
            del self._waiting[watch]


def _weight(request: broker_pb2.FetchRequest) -> int:
    return request.ByteSize() + _ENTRY_BYTES * len(request.partitions)


def _check(request: broker_pb2.FetchRequest) -> None:
    _FORMATS.check(request.format)
    if request.max_wait_ms < 0 or request.min_bytes < 0:
        raise InvalidRequest("max_wait_ms and min_bytes cannot be negative")
    if request.HasField("max_bytes") and request.max_bytes <= 0:
        raise InvalidRequest("max_bytes has to be positive")
    for entry in request.partitions:
        if entry.HasField("partition_max_bytes") and entry.partition_max_bytes <= 0:
            raise InvalidRequest("partition_max_bytes has to be positive")
        if entry.fetch_offset < 0:
            raise InvalidRequest(f"fetch_offset {entry.fetch_offset} is negative; ListOffsets finds a start")
