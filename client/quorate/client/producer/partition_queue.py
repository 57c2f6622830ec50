"""One partition's batches: which may leave now, what its number is, and what an answer means.

Problem: batches of a partition must get into the log in the order they were sent, each once, although
several are on their way at a time, answers get lost, and leaders change. And each must end with the truth:
done, refused (it is not in the log and never will be), or unknown.

A broker accepts a producer's batches of one epoch only in a row of sequence numbers without gaps, and knows
the last five again (rules 49 to 51). So a numbered batch can be sent again and again without harm, to
whoever leads: it is written once, behind its predecessor, or it is refused as out of order. From that follow
the rules here:

- A number belongs to its batch. A batch is numbered anew only if it is *clean*: each attempt was answered,
  with an error that says "not written". Giving another number to a batch that may be in the log would write
  it twice.
- If a batch is clean, so are all behind it: without it the log cannot have taken them, and cannot take them
  later, since its number is never sent again.
- A batch is sent again only when none behind it is on its way. The answers for those come first; then all of
  them follow it again in order.
- When a batch is given up, the row has a hole where it was, or might have been, so no later number fits.
  Clean batches then begin a new row: the next producer epoch, from sequence 0. As soon as its first batch is
  in the log, whatever may still linger on the way with the old epoch is refused, so it cannot turn up out of
  order. Batches behind the hole that may be written keep their number: the log knows them, and says where
  they are; or it does not, and then their outcome stays unknown.
- From the oldest undecided batch on at most five are numbered, also where those behind it are acknowledged by
  now, as they are when it waits for another partition in its request: with one more, the broker would forget
  the oldest, and could not say any more where it is.

A batch with a condition (``expected_offset``) travels alone. Refused for its condition, it gives its number
back: what the condition was checked against is committed, so no attempt of it that still lingers can succeed
either.

Without numbers (acks 0 or 1, or idempotence switched off) a batch also travels alone, which keeps the order,
and is sent again only after an answer that says "not written".

Rejected: a new producer id where a row is broken (its batches and the old row's would not know of each
other, and one that lingers could come out of order), and renumbering in place (an old request with a number
that has been given to another batch would be answered, wrongly, as that batch).

Everything below ``open`` and ``waiting`` belongs to the client's loop; those two are shared, under ``lock``.
"""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from quorate.client.producer.batch import ProducerBatch
from quorate.core.backoff import Backoff
from quorate.core.clock import Timer
from quorate.core.ids import TopicPartition
from quorate.core.logging import get_logger
from quorate.core.records import renumbered
from quorate.errors import (
    ClientClosed,
    DeliveryExpired,
    DeliveryTimedOut,
    DeliveryUnknown,
    DuplicateSequence,
    OffsetMismatch,
    OutOfOrderSequence,
    ProducerError,
    QuorateError,
)

__all__ = ["Ended", "PartitionQueue", "Route"]

log = get_logger(__name__)

_SEQUENCES: Final = 1 << 31
_EPOCH_MAX: Final = (1 << 15) - 1


class Ended(NamedTuple):
    """A batch that got its last word."""

    batch: ProducerBatch
    error: QuorateError


class Route(NamedTuple):
    """Where a partition's batches go: looked up once, until the cluster view learns something."""

    address: str
    #: of the topic; empty: not known
    topic_id: str


class PartitionQueue:
    __slots__ = (
        "_backoff",
        "_is_row_broken",
        "_next_sequence",
        "_numbered",
        "_producer_epoch",
        "in_flight_max",
        "is_marked",
        "is_on_loop",
        "lock",
        "open",
        "producer_id",
        "retry_at",
        "route",
        "topic_partition",
        "trouble",
        "undecided",
        "waiting",
        "wake_at",
        "wake_timer",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        *,
        lock: threading.Lock,
        is_on_loop: Callable[[], bool],
        in_flight_max: int,
        rng: random.Random,
    ) -> None:
        self.topic_partition = topic_partition
        self.lock = lock
        self.is_on_loop = is_on_loop
        self.in_flight_max = in_flight_max
        #: takes records
        self.open: ProducerBatch | None = None
        #: full, or closed for another reason; never sent
        self.waiting: deque[ProducerBatch] = deque()
        #: somebody has told the sender to look here
        self.is_marked = False
        # -- the loop's
        #: sent at least once, without a last word; in order, with holes where one was acknowledged
        self.undecided: deque[ProducerBatch] = deque()
        #: where it leaves for, as far as is known; None: the cluster view is to be asked
        self.route: Route | None = None
        #: nothing leaves before
        self.retry_at = 0.0
        #: when the sender looks here again by itself
        self.wake_at = float("inf")
        self.wake_timer: Timer | None = None
        #: why nothing has been acknowledged of late
        self.trouble: QuorateError | None = None
        self._backoff = Backoff(rng)
        #: -1: none yet
        self.producer_id = -1
        self._producer_epoch = -1
        self._next_sequence = 0
        #: batches that got a number: what the next one's rank is
        self._numbered = 0
        self._is_row_broken = False

    def take_open(self) -> ProducerBatch:
        """It takes no more records, from whomever; under the lock."""
        batch, self.open = self.open, None
        assert batch is not None
        batch.columns.bytes_max = 0
        return batch

    # -- what leaves

    @property
    def is_empty(self) -> bool:
        return not (self.undecided or self.waiting or self.open)

    @property
    def needs_producer_id(self) -> bool:
        return self.producer_id < 0 or self._producer_epoch > _EPOCH_MAX

    @property
    def waits_for_producer_id(self) -> bool:
        """Something is left that cannot leave without one."""
        if not self.needs_producer_id:
            return False
        first = self.undecided[0] if self.undecided else self.waiting[0] if self.waiting else self.open
        return first is not None and first.is_numbered

    def use_producer_id(self, producer_id: int, producer_epoch: int) -> None:
        assert self.needs_producer_id
        assert producer_id != self.producer_id
        self.producer_id, self._producer_epoch, self._next_sequence = producer_id, producer_epoch, 0
        self._renumber()

    def next_to_send(self, now: float, *, linger_s: float) -> ProducerBatch | None:
        """None: nothing may leave now. Under the lock."""
        if now < self.retry_at:
            return None
        if self._is_row_broken and not any(batch.attempt is not None for batch in self.undecided):
            self._begin_new_row()
        for batch in self.undecided:
            if batch.attempt is None:
                return batch if self._may_leave_again(batch) else None
        return self._next_new(now, linger_s)

    def _may_leave_again(self, batch: ProducerBatch) -> bool:
        return self._has_or_can_get_number(batch) and all(each.attempt is None for each in self._from(batch))

    def _from(self, batch: ProducerBatch) -> list[ProducerBatch]:
        """This one and those behind it."""
        undecided = list(self.undecided)
        return undecided[undecided.index(batch) :]

    def _has_or_can_get_number(self, batch: ProducerBatch) -> bool:
        return batch.base_sequence >= 0 or not batch.is_numbered or not self.needs_producer_id

    def _next_new(self, now: float, linger_s: float) -> ProducerBatch | None:
        batch = self.waiting[0] if self.waiting else self.open
        if batch is None or self._is_row_broken or (batch.is_numbered and self.needs_producer_id):
            return None
        if self.undecided:
            if not self.waiting or self._numbered - self.undecided[0].rank >= self.in_flight_max:
                return None  # an open batch fills while others are on their way
            if not (_may_have_company(batch) and _may_have_company(self.undecided[-1])):
                return None
        elif batch is self.open and now < batch.created_at + linger_s:
            return None
        if batch is self.open:
            self.take_open()
        else:
            self.waiting.popleft()
        self.undecided.append(batch)
        if batch.is_numbered:
            self._number(batch)
        return batch

    # -- numbers

    def _number(self, batch: ProducerBatch) -> None:
        batch.producer_id, batch.producer_epoch = self.producer_id, self._producer_epoch
        batch.base_sequence, batch.rank = self._next_sequence, self._numbered
        self._numbered += 1
        self._next_sequence = (self._next_sequence + len(batch.columns.timestamps)) % _SEQUENCES

    def _begin_new_row(self) -> None:
        """If every batch that is left is clean. Those that are not come to their end with the old numbers."""
        if any(batch.may_be_written for batch in self.undecided):
            return
        self._is_row_broken = False
        self._next_sequence = 0
        self._producer_epoch += 1
        for batch in self.undecided:
            batch.base_sequence = -1
        if not self.needs_producer_id:
            self._renumber()
        log.info("producer_row_begun", partition=self.topic_partition, epoch=self._producer_epoch)

    def _renumber(self) -> None:
        for batch in self.undecided:
            assert not batch.may_be_written
            self._number(batch)
            batch.encoded = renumbered(
                batch.encoded, batch.producer_id, batch.producer_epoch, batch.base_sequence
            )

    def _break_row(self, at: ProducerBatch) -> None:
        """This batch's number will never be in the log, or it is not known whether it will."""
        self._is_row_broken = True
        if not at.may_be_written:
            # Those behind it cannot be written either. Those before it can.
            for batch in self._from(at):
                batch.may_be_written = False

    # -- what answers mean

    def acknowledged(self, batch: ProducerBatch) -> None:
        batch.attempt = None
        if self.undecided[0] is batch:
            self.undecided.popleft()
        else:
            self.undecided.remove(batch)
        self.trouble = None
        if self._backoff.failures:
            self._backoff.reset()

    def refused(self, batch: ProducerBatch, error: QuorateError, now: float) -> QuorateError | None:
        """The broker's answer to an attempt. Returns the batch's end; None: it is sent again."""
        batch.attempt = None
        if isinstance(error, ProducerError):
            return self._out_of_row(batch, error, now)
        self._note(batch, error)
        batch.may_be_written |= error.outcome_unknown
        if isinstance(error, OffsetMismatch):
            self._give_number_back(batch)
            return error
        if error.retriable and (batch.is_numbered or not error.outcome_unknown):
            self.retry_at = now + self._backoff.next_s()
            return None
        return self._give_up(batch, error)

    def unanswered(
        self, batch: ProducerBatch, error: QuorateError, now: float, *, was_sent: bool
    ) -> QuorateError | None:
        """An attempt ended without an answer. Returns the batch's end; None: it is sent again."""
        batch.attempt = None
        self._note(batch, error)
        batch.may_be_written |= was_sent
        if batch.is_numbered or not was_sent:
            self.retry_at = now + self._backoff.next_s()
            return None
        return self._give_up(batch, error)

    def cannot_be_encoded(self, batch: ProducerBatch) -> None:
        """It was the last to be numbered, and was never sent: as if it had never been."""
        assert self.undecided[-1] is batch
        self._give_number_back(batch)

    def _give_number_back(self, batch: ProducerBatch) -> None:
        self.undecided.remove(batch)
        if batch.is_numbered:
            assert not self.undecided or batch.attempts == 0, "what has a condition travels alone"
            self._next_sequence, self._numbered = batch.base_sequence, batch.rank

    def _out_of_row(self, batch: ProducerBatch, error: ProducerError, now: float) -> QuorateError | None:
        first = self.undecided[0]
        if first is not batch:
            # Its predecessor is sent again, and this behind it.
            if first.attempt is not None:
                self.retry_at = now + self._backoff.next_s()
            return None
        is_own_doing = isinstance(error, OutOfOrderSequence) and self._is_row_broken
        if not is_own_doing:
            self._note(batch, error)
        if isinstance(error, DuplicateSequence) or batch.may_be_written:
            return self._give_up(batch, error, (self.trouble or error) if is_own_doing else error)
        if isinstance(error, OutOfOrderSequence) and not self._is_row_broken:
            # Everything before it was acknowledged, and the log does not have it.
            log.error("acknowledged_records_missing", partition=self.topic_partition, error=error.message)
        self._break_row(batch)
        return None

    def _note(self, batch: ProducerBatch, error: QuorateError) -> None:
        """Why nothing is acknowledged: what befell the first batch, for those behind it suffer from that.

        A batch that is out of order because one before it was refused, or given up, is never the reason.
        """
        if self.trouble is None or batch is self.undecided[0]:
            self.trouble = error

    def _give_up(
        self, batch: ProducerBatch, error: QuorateError, reason: QuorateError | None = None
    ) -> QuorateError:
        """``reason``: what is told, where the error is only a consequence of it."""
        reason = reason or error
        is_written = isinstance(error, DuplicateSequence)
        if batch.is_numbered and not is_written:
            self._break_row(batch)
        self.undecided.remove(batch)
        if (batch.may_be_written or is_written) and not error.outcome_unknown:
            unknown = DeliveryUnknown(
                f"{self.topic_partition}: whether the batch was written cannot be found out; "
                f"the last answer was: {reason.message}",
                last_code=reason.code,
            )
            unknown.__cause__ = reason
            return unknown
        return error

    # -- time

    def next_deadline(self) -> float:
        """When ``expire`` is to be called. Without the lock, too: who adds a batch has it looked at again."""
        oldest = self.undecided[0] if self.undecided else self.waiting[0] if self.waiting else self.open
        return float("inf") if oldest is None else oldest.deadline

    def expire(self, now: float) -> list[Ended]:
        """Batches whose time is over; under the lock."""
        ended = []
        for batch in [each for each in self.undecided if each.deadline <= now]:
            batch.may_be_written |= batch.attempt is not None
            batch.attempt = None
            if batch.is_numbered:
                self._break_row(batch)
            self.undecided.remove(batch)
            ended.append(Ended(batch, self._too_late(batch)))
        while self.waiting and self.waiting[0].deadline <= now:
            batch = self.waiting.popleft()
            ended.append(Ended(batch, self._too_late(batch)))
        if self.open is not None and self.open.deadline <= now:
            batch = self.take_open()
            ended.append(Ended(batch, self._too_late(batch)))
        return ended

    def _too_late(self, batch: ProducerBatch) -> QuorateError:
        kind = DeliveryTimedOut if batch.may_be_written else DeliveryExpired
        what = "it may be written" if batch.may_be_written else "it is not written"
        timeout_ms = round((batch.deadline - batch.created_at) * 1000)
        message = f"{self.topic_partition}: not acknowledged within {timeout_ms} ms; {what}"
        trouble = self.trouble
        if trouble is None:
            return kind(message, attempts=batch.attempts)
        error = kind(f"{message}; {trouble.message}", attempts=batch.attempts, last_code=trouble.code)
        error.__cause__ = trouble
        return error

    def partition_is_gone(self, error: QuorateError) -> list[Ended]:
        """The topic was made anew, with fewer: what is not on its way ends here; under the lock."""
        idle = [batch for batch in self.undecided if batch.attempt is None]
        unsent = [*self.waiting, *([self.take_open()] if self.open is not None else [])]
        self.waiting.clear()
        return [
            *(Ended(batch, self._give_up(batch, error)) for batch in idle),
            *(Ended(batch, error) for batch in unsent),
        ]

    def abandon_all(self) -> list[Ended]:
        """The client is closed: everything that is left ends, with the truth; under the lock."""
        ended = []
        unsent = [*self.waiting, *([self.take_open()] if self.open is not None else [])]
        for batch in [*self.undecided, *unsent]:
            is_unknown = batch.may_be_written or batch.attempt is not None
            batch.attempt = None
            kind = DeliveryUnknown if is_unknown else ClientClosed
            what = "before the broker answered; it may be written" if is_unknown else "before it was written"
            ended.append(Ended(batch, kind(f"{self.topic_partition}: the producer was closed {what}")))
        self.undecided.clear()
        self.waiting.clear()
        return ended

    def validate(self) -> None:
        """Invariants, for tests."""
        assert len(self.undecided) <= self.in_flight_max
        if self.undecided and self.undecided[0].base_sequence >= 0:
            assert self._numbered - self.undecided[0].rank <= self.in_flight_max
        assert all(batch.columns.bytes_max == 0 for batch in (*self.undecided, *self.waiting))
        for batch in self.undecided:
            assert not batch.is_done
            assert batch.encoded or batch.attempts == 0
        if len(self.undecided) > 1:
            assert all(_may_have_company(batch) for batch in self.undecided)
            numbers = [batch.base_sequence for batch in self.undecided if batch.base_sequence >= 0]
            assert numbers == sorted(numbers) or max(numbers) - min(numbers) > _SEQUENCES // 2


def _may_have_company(batch: ProducerBatch) -> bool:
    return batch.is_numbered and batch.expected_offset is None
