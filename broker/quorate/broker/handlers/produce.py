"""Produce: append to many partitions, answer when what ``acks`` asks for has happened.

All appends of a request happen in one go, without an await between them, so they reach the log in
the order of the request. Then the handler waits, once, for all of them together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from quorate.broker.handlers.structured_records import encode_records
from quorate.broker.handlers.targets import answer, check_enum, find_partitions
from quorate.broker.partition import AppendResult, Partition
from quorate.broker.topic_registry import TopicRegistry
from quorate.core.clock import Clock
from quorate.core.config import NodeConfig
from quorate.core.records import parse_header
from quorate.core.transport import Call
from quorate.errors import InvalidRequest, QuorateError, RequestTimedOut, UnsupportedBatch
from quorate.rpc.error_detail import detail_from_error
from quorate.v1 import broker_pb2

__all__ = ["ProduceHandler"]

_DEFAULT_TIMEOUT_MS: Final = 30_000


@dataclass(slots=True)
class _Append:
    """What became of one partition of the request, so far."""

    result: broker_pb2.ProducePartitionResult
    #: not done yet: the request still waits for it
    waits_for: asyncio.Future[None] | None


class ProduceHandler:
    def __init__(self, config: NodeConfig, topics: TopicRegistry, clock: Clock) -> None:
        self._config = config
        self._topics = topics
        self._clock = clock

    async def __call__(self, request: broker_pb2.ProduceRequest, _call: Call) -> broker_pb2.ProduceResponse:
        check_enum(broker_pb2.Acks.DESCRIPTOR, request.acks, "acks")
        timeout_s = self._timeout_s(request)
        targets = find_partitions(
            self._topics, request.partitions, partitions_max=self._config.request_partitions_max
        )
        appends = [
            self._append(entry, target, request.acks)
            for entry, target in zip(request.partitions, targets, strict=True)
        ]
        await self._wait(appends, timeout_s)
        return broker_pb2.ProduceResponse(partitions=[append.result for append in appends])

    def _timeout_s(self, request: broker_pb2.ProduceRequest) -> float:
        timeout_ms = request.timeout_ms if request.HasField("timeout_ms") else _DEFAULT_TIMEOUT_MS
        if timeout_ms < 0:
            raise InvalidRequest(f"timeout_ms is {timeout_ms}, it cannot be negative")
        return min(timeout_ms, self._config.produce_timeout_max_ms) / 1000

    def _append(
        self,
        entry: broker_pb2.ProducePartition,
        target: Partition | QuorateError,
        acks: broker_pb2.Acks,
    ) -> _Append:
        result = broker_pb2.ProducePartitionResult()

        def append(partition: Partition) -> asyncio.Future[None] | None:
            appended = partition.append(self._batch_of(entry))
            result.log_start_offset = partition.log_start_offset
            result.leader_epoch = partition.leader_epoch
            if acks == broker_pb2.ACKS_NONE:
                return None
            _set_offsets(result, appended)
            if acks == broker_pb2.ACKS_LEADER:
                return partition.when_stored(appended.next_offset)
            return partition.when_committed(appended.next_offset)

        return _Append(result, answer(result, entry, target, append))

    async def _wait(self, appends: Sequence[_Append], timeout_s: float) -> None:
        """Until each append is acknowledged, or the time is over."""
        waiting = {append.waits_for: append.result for append in appends if append.waits_for is not None}
        if not waiting:
            return
        futures = list(waiting)
        timer = self._clock.call_later(timeout_s, lambda: _cancel(futures))
        try:
            await asyncio.wait(futures)
        finally:
            timer.cancel()
            # Also when the client has gone: nobody is left to tell.
            _cancel(futures)
        for future, result in waiting.items():
            _conclude(result, future, timeout_s)

    def _batch_of(self, entry: broker_pb2.ProducePartition) -> bytes:
        if bool(entry.batch) == bool(entry.records):
            raise InvalidRequest("a partition gets either records or a batch; this one has both or neither")
        if entry.records:
            return encode_records(entry.records, received_ms=self._clock.wall_ms())
        header = parse_header(entry.batch)
        if header.is_transactional or header.is_control:
            kind = "control" if header.is_control else "transactional"
            raise UnsupportedBatch(f"{kind} batches are not accepted from clients")
        return entry.batch


def _set_offsets(result: broker_pb2.ProducePartitionResult, appended: AppendResult) -> None:
    result.base_offset = appended.base_offset
    result.next_offset = appended.next_offset


def _cancel(futures: Sequence[asyncio.Future[None]]) -> None:
    for future in futures:
        future.cancel()  # does nothing to one that is done


def _conclude(
    result: broker_pb2.ProducePartitionResult, future: asyncio.Future[None], timeout_s: float
) -> None:
    if future.cancelled():
        error: QuorateError = RequestTimedOut(
            f"appended, but not acknowledged within {timeout_s} seconds",
            timeout_ms=round(timeout_s * 1000),
        )
    else:
        failure = future.exception()
        if failure is None:
            return
        if not isinstance(failure, QuorateError):
            raise failure
        error = failure
    # An offset stands in an answer only if it was acknowledged (rule 20).
    result.ClearField("base_offset")
    result.ClearField("next_offset")
    result.error.CopyFrom(detail_from_error(error))
