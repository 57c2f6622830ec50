"""From a produce request to appends, all of them in one go.

There is no await between the partitions of a request, nor between looking at a partition and appending to it:
batches reach each log in the order in which their requests came, and what was checked still holds when the
batch is written (compare and set depends on it).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from quorate.broker.handlers.client_batches import batch_of
from quorate.broker.handlers.client_errors import for_client
from quorate.broker.handlers.produce_in_progress import PartitionAppend, ProduceInProgress
from quorate.broker.handlers.targets import KnownValues, find_partitions, known_epoch
from quorate.broker.hosted import Hosted
from quorate.broker.replica.leadership import Leadership, LogEndsLater
from quorate.broker.replica.partition import Partition
from quorate.core.clock import Clock
from quorate.core.config import NodeConfig
from quorate.core.ids import Offset, TimestampMs
from quorate.core.topic_names import check_not_internal
from quorate.errors import InvalidRequest, QuorateError
from quorate.v1 import broker_pb2

__all__ = ["Appender"]

_DEFAULT_TIMEOUT_MS: Final = 30_000
_ACKS: Final = KnownValues(broker_pb2.Acks.DESCRIPTOR, "acks")
_ALL: Final = (broker_pb2.ACKS_ALL, broker_pb2.ACKS_UNSPECIFIED)


class Appender:
    def __init__(self, config: NodeConfig, hosted: Hosted, clock: Clock) -> None:
        self._hosted = hosted
        self._clock = clock
        self._partitions_max = config.request_partitions_max
        self._timeout_max_ms = config.produce_timeout_max_ms

    def begin(
        self,
        request: broker_pb2.ProduceRequest,
        on_answered: Callable[[ProduceInProgress], None],
        *,
        correlation_id: int = 0,
    ) -> ProduceInProgress:
        """Append everything, or raise for the request as a whole and append nothing.

        ``on_answered`` is called once, when it is known what became of every partition; before this returns
        if it is known by then.
        """
        acks = request.acks
        _ACKS.check(acks)
        timeout_s = self._timeout_s(request)
        # As a list: an iteration over protobuf's own ends by an exception, which costs more than the rest.
        entries = request.partitions[:]
        targets = find_partitions(self._hosted, entries, partitions_max=self._partitions_max)
        produce = ProduceInProgress(
            on_answered,
            timeout_s=timeout_s,
            deadline=self._clock.monotonic() + timeout_s,
            correlation_id=correlation_id,
            partition_count=len(entries),
        )
        now_ms = self._clock.wall_ms()
        for entry, target in zip(entries, targets, strict=True):
            if isinstance(target, QuorateError):
                append = PartitionAppend(produce, entry.topic, entry.topic_id, entry.partition)
                append.refuse(target)
            else:
                # A request may name a topic by one of the two; the answer has both.
                append = PartitionAppend(
                    produce, target.topic_partition.topic, target.topic_id, entry.partition
                )
                try:
                    self._append(append, entry, target, acks, now_ms)
                except QuorateError as error:
                    append.refuse(for_client(error, self._hosted))
            produce.appends.append(append)
        produce.one_answered()
        return produce

    def _timeout_s(self, request: broker_pb2.ProduceRequest) -> float:
        timeout_ms = request.timeout_ms
        if timeout_ms == 0 and not request.HasField("timeout_ms"):
            timeout_ms = _DEFAULT_TIMEOUT_MS
        if timeout_ms < 0:
            raise InvalidRequest(f"timeout_ms is {timeout_ms}, it cannot be negative")
        return (timeout_ms if timeout_ms < self._timeout_max_ms else self._timeout_max_ms) / 1000

    def _append(
        self,
        append: PartitionAppend,
        entry: broker_pb2.ProducePartition,
        partition: Partition,
        acks: broker_pb2.Acks,
        now_ms: TimestampMs,
    ) -> None:
        check_not_internal(partition.topic_partition.topic, "written by clients")
        leadership = partition.require_leadership(known_epoch(entry))
        is_all = acks in _ALL
        if not is_all:
            # Nobody but the leader will ever vouch for it, so it has to be the leader (rule 37).
            self._hosted.lease.check()
            append.needs_lease = True
        batch = batch_of(entry, self._hosted.topic_config(partition.topic_id), now_ms=now_ms)
        if entry.HasField("expected_offset"):
            self._append_if(append, leadership, batch, Offset(entry.expected_offset), is_all=is_all)
            return
        appended = leadership.append(batch, acks_all=is_all)
        append.appended(appended, leadership.epoch, partition.log.log_start_offset)
        if is_all:
            append.wait_for(leadership.when_committed(append.next_offset, append.concluded))
        elif acks == broker_pb2.ACKS_LEADER:
            append.wait_for(leadership.when_stored(append.next_offset, append.concluded))
        else:
            append.tells_offsets = False

    @staticmethod
    def _append_if(
        append: PartitionAppend,
        leadership: Leadership,
        batch: bytes,
        expected_offset: Offset,
        *,
        is_all: bool,
    ) -> None:
        """Compare and set: whether the log ends there is asked and answered within one call."""
        if not is_all:
            raise InvalidRequest("expected_offset needs ACKS_ALL: nothing less tells who was first")
        if expected_offset < 0:
            raise InvalidRequest(f"expected_offset {expected_offset} is negative")
        appended = leadership.append_if(batch, expected_offset)
        if isinstance(appended, LogEndsLater):
            append.refused_at(appended.actual_offset)
            append.wait_for(leadership.when_committed(appended.actual_offset, append.concluded))
            return
        append.appended(appended, leadership.epoch, leadership.log_start_offset)
        append.wait_for(leadership.when_committed(append.next_offset, append.concluded))
