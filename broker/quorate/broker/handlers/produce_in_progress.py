"""A produce request whose batches are appended, until it is known what became of them.

It keeps what the answer needs and nothing of the request: the batches are in the log, and while followers
fetch them their bytes must not fill this broker's memory as well.

Each partition ends in one of three ways (rule 19):

- *acknowledged*, and then, only then, the answer has its offsets (rule 20);
- *refused*: surely not written;
- *unknown*: written here, and whether it stays is not known. Leadership was lost, or the time is over.

A conditional append that came too late is refused, but with the offset at which the log ends, and on that its
client decides. So it waits like an append until that offset is committed: a refusal must not rest on a record
that may vanish. If that never happens the refusal names no offset.

Answers that rest on this broker being the leader *now* need its lease, at the moment when they leave
(rule 37): acknowledgements by the leader alone, and conditional refusals. acks=all needs none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from quorate.broker.controller_link.lease import Lease, fenced
from quorate.broker.handlers.client_errors import appended_while_fenced
from quorate.core.ids import LeaderEpoch, Offset
from quorate.errors import (
    OffsetMismatch,
    OffsetNotAvailable,
    QuorateError,
    RequestTimedOut,
)
from quorate.rpc.error_detail import detail_from_error
from quorate.storage import Appended
from quorate.v1 import broker_pb2, errors_pb2

__all__ = ["PartitionAppend", "ProduceInProgress"]


class Waiter(Protocol):
    """Something that will be called back, unless it is cancelled before."""

    def cancel(self) -> None: ...


class PartitionAppend:
    """What becomes of one partition of the request."""

    __slots__ = (
        "_produce",
        "base_offset",
        "error",
        "is_mismatch",
        "leader_epoch",
        "log_start_offset",
        "needs_lease",
        "next_offset",
        "partition",
        "tells_offsets",
        "topic",
        "topic_id",
        "waiter",
    )

    def __init__(self, produce: ProduceInProgress, topic: str, topic_id: str, partition: int) -> None:
        self._produce = produce
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        #: as a message: an exception's traceback would hold the batch
        self.error: errors_pb2.ErrorDetail | None = None
        #: in which the batch was appended; None: it was not
        self.leader_epoch: LeaderEpoch | None = None
        self.log_start_offset = Offset(0)
        self.base_offset = Offset(0)
        #: exclusive end of the batch
        self.next_offset = Offset(0)
        #: a conditional append that was not made, because the log is longer
        self.is_mismatch = False
        #: acknowledged with its offsets, which ACKS_NONE is not
        self.tells_offsets = True
        #: the answer holds only if this broker is still the leader when it leaves (rule 37)
        self.needs_lease = False
        #: while it is not known what became of it
        self.waiter: Waiter | None = None

    def appended(self, appended: Appended, leader_epoch: LeaderEpoch, log_start_offset: Offset) -> None:
        self.base_offset = appended.base_offset
        self.next_offset = Offset(appended.last_offset + 1)
        self.leader_epoch = leader_epoch
        self.log_start_offset = log_start_offset

    def refuse(self, error: QuorateError) -> None:
        self.error = detail_from_error(error)

    def refused_at(self, log_end_offset: Offset) -> None:
        """A conditional append that was not made; the refusal counts once that offset is committed."""
        self.is_mismatch = True
        self.needs_lease = True
        self.refuse(
            OffsetMismatch(
                f"the log ends at offset {log_end_offset}: nothing was appended", actual_offset=log_end_offset
            )
        )

    def wait_for(self, waiter: Waiter | None) -> None:
        """None: there is nothing to wait for."""
        if waiter is not None:
            self.waiter = waiter
            self._produce.unanswered += 1

    def concluded(self, error: QuorateError | None) -> None:
        """Called back by the replica: what was waited for is committed, or will never be known to be."""
        self.waiter = None
        if error is not None:
            self.refuse(_not_committed() if self.is_mismatch else error)
        self._produce.one_answered()

    def time_out(self, timeout_s: float) -> None:
        if self.waiter is not None:
            self.waiter.cancel()
            self.concluded(
                RequestTimedOut(
                    f"appended, but not acknowledged within {timeout_s} seconds",
                    timeout_ms=round(timeout_s * 1000),
                )
            )

    def give_up(self) -> None:
        """Nobody is left to be told."""
        if self.waiter is not None:
            self.waiter.cancel()
            self.waiter = None

    def fill(self, result: broker_pb2.ProducePartitionResult, lease: Lease) -> None:
        """The answer as it leaves, now."""
        result.topic, result.topic_id, result.partition = self.topic, self.topic_id, self.partition
        if self.leader_epoch is not None:
            result.leader_epoch = self.leader_epoch
            result.log_start_offset = self.log_start_offset
        error = self.error
        if self.needs_lease and not lease.is_valid:
            error = self._error_if_fenced()
        if error is not None:
            result.error.CopyFrom(error)
        elif self.tells_offsets:
            result.base_offset = self.base_offset
            result.next_offset = self.next_offset

    def _error_if_fenced(self) -> errors_pb2.ErrorDetail:
        if self.is_mismatch:
            return detail_from_error(fenced())
        return self.error if self.error is not None else detail_from_error(appended_while_fenced())


def _not_committed() -> OffsetNotAvailable:
    return OffsetNotAvailable(
        "the log ends later than expected, by records that may not stay; nothing was appended"
    )


class ProduceInProgress:
    __slots__ = (
        "_on_answered",
        "appends",
        "correlation_id",
        "deadline",
        "places",
        "timeout_s",
        "unanswered",
    )

    def __init__(
        self,
        on_answered: Callable[[ProduceInProgress], None],
        *,
        timeout_s: float,
        deadline: float,
        correlation_id: int,
        partition_count: int,
    ) -> None:
        self._on_answered = on_answered
        self.timeout_s = timeout_s
        #: by the monotonic clock
        self.deadline = deadline
        self.correlation_id = correlation_id
        self.appends: list[PartitionAppend] = []
        #: what it counts for where requests are bounded: one without partitions has an answer, too
        self.places = partition_count or 1
        #: partitions that wait, and one for the request itself until all of it is appended
        self.unanswered = 1

    @property
    def is_answered(self) -> bool:
        return self.unanswered == 0

    def one_answered(self) -> None:
        self.unanswered -= 1
        if self.unanswered == 0:
            self._on_answered(self)

    def time_out(self) -> None:
        for append in self.appends:
            append.time_out(self.timeout_s)

    def give_up(self) -> None:
        for append in self.appends:
            append.give_up()

    def fill(self, response: broker_pb2.ProduceResponse, lease: Lease) -> None:
        """The answer as it leaves, now."""
        results = response.partitions
        for append in self.appends:
            append.fill(results.add(), lease)
