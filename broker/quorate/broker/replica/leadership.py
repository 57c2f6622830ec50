"""One leader epoch of one partition: appending, committing, and what followers and clients see of it.

A ``Leadership`` is made when committed metadata says that this broker leads, and ended by the next leader
epoch, by a failing disk or by the node's end. A new epoch gets a new object, so nothing about followers can
leak from one into the next (rule 7), and whoever still holds an old one gets an error from it.

**Committing.** The high watermark is the smallest log end over the maximal ISR (``IsrMembership``), the
leader's own copy included (``OwnCopy``); it does not move while the committed ISR has fewer than MinISR
members (rules 13 and 14). From this follows rule 1: whoever the controller may elect has every record below
it. Three events can move it: a follower's fetch, a sync or append here, a change of the ISR.

**Outcomes.** What was appended and cannot be confirmed here any more ends as unknown, exactly once (rule 19):
never as done, and never as failed, for the next leader may have it. An append that is refused before anything
is written is an error like any other.

Everything here is synchronous: between a check and what it allows nothing else can happen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from quorate.broker.replica.commit_waiters import CommitWaiter, CommitWaiters, OnDone
from quorate.broker.replica.compacted_copies import has_to_hear
from quorate.broker.replica.divergence import Divergence, find_divergence
from quorate.broker.replica.high_watermark import HighWatermark
from quorate.broker.replica.isr_membership import IsrMembership
from quorate.broker.replica.leader_errors import (
    outcome_unknown,
    too_few,
    too_few_after_append,
    unreadable,
)
from quorate.broker.replica.log_trouble import LOG_TROUBLE, is_log_trouble
from quorate.broker.replica.news import News, Wake, Wakers
from quorate.broker.replica.own_copy import OwnCopy
from quorate.broker.replica.partition_state import PartitionState
from quorate.core.clock import Clock, Timer
from quorate.core.disk import Bytes
from quorate.core.ids import BrokerEpoch, BrokerId, LeaderEpoch, Offset, TimestampMs, TopicPartition
from quorate.core.logging import get_logger
from quorate.errors import (
    LogDamaged,
    NotLeaderOrFollower,
    OffsetNotAvailable,
    QuorateError,
    StaleBrokerEpoch,
    StorageError,
    StorageFailed,
    copy_of,
)
from quorate.metadata.records import RECOVERY_OF_STATE
from quorate.storage import Appended, Compacted, LogRead, PartitionLog, TimestampedOffset
from quorate.storage.leader_epochs import EpochEnd
from quorate.v1.controller_pb2 import PartitionAlteration, PartitionAlterationResult

__all__ = ["Divergence", "Leadership", "LeadershipHooks", "LogEndsLater", "News"]

log = get_logger(__name__)


class LogEndsLater(NamedTuple):
    """A conditional append expected an earlier end. To be told once ``actual_offset`` is committed."""

    actual_offset: Offset


class LeadershipHooks(NamedTuple):
    """What the replica does for its leadership."""

    #: the ISR ought to change: ask ``next_alteration``
    on_isr_wish: Callable[[], None]
    #: the log cannot be relied on: end this leadership
    on_failure: Callable[[QuorateError], None]


class Leadership:
    """See the module. Made by ``Partition`` alone."""

    __slots__ = (
        "_broker_id",
        "_clock",
        "_ended",
        "_high_watermark",
        "_hooks",
        "_join_timer",
        "_log",
        "_membership",
        "_own_copy",
        "_state",
        "_stored_waiters",
        "_topic_partition",
        "_waiters",
        "_wakers",
        "_wanted_log_start",
        "epoch",
        "epoch_start_offset",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        partition_log: PartitionLog,
        high_watermark: HighWatermark,
        state: PartitionState,
        *,
        clock: Clock,
        replica_lag_s: float,
        hooks: LeadershipHooks,
    ) -> None:
        """The epoch is on record before anything can be appended in it (rule 6); raises StorageError."""
        self.epoch = state.image.leader_epoch
        partition_log.become_leader(self.epoch)
        #: where this epoch's records begin
        self.epoch_start_offset = partition_log.log_end_offset
        self._topic_partition = topic_partition
        self._log = partition_log
        self._high_watermark = high_watermark
        self._state = state
        self._broker_id = state.image.leader
        self._clock = clock
        self._hooks = hooks
        self._membership = IsrMembership(
            state,
            partition_log,
            high_watermark,
            epoch_start_offset=self.epoch_start_offset,
            replica_lag_s=replica_lag_s,
            now=clock.monotonic(),
        )
        self._join_timer: Timer | None = None
        self._waiters = CommitWaiters()
        self._stored_waiters = CommitWaiters()
        self._wakers = Wakers()
        self._wanted_log_start = Offset(0)
        #: what every call gets from when this leadership is over
        self._ended: QuorateError | None = None
        self._own_copy = OwnCopy(
            partition_log,
            state.durability,
            clock=clock,
            name=str(topic_partition),
            on_synced=self._synced,
            on_failed=self._sync_failed,
        )

    # -- the metadata

    def begin(self) -> None:
        """Once, when everybody knows of this leadership: committing alone, or asking for another ISR."""
        self._advance_high_watermark()
        self._note_own_sync()
        self._wish_if_any()

    def apply(self, state: PartitionState) -> None:
        """The same leader epoch; anything else may have changed."""
        assert state.image.leader_epoch == self.epoch
        self._state = state
        self._membership.apply(state, self._clock.monotonic())
        self._own_copy.set_durability(state.durability)
        self._isr_changed()
        self._wish_if_any()

    def _isr_changed(self) -> None:
        """Who has to store a record, or how many, is not what it was."""
        if not self._membership.has_enough:
            self._waiters.give_up(
                too_few_after_append(self._topic_partition, self._state, self._membership.isr.committed)
            )
        self._advance_high_watermark()

    def _wish_if_any(self) -> None:
        if self._membership.has_wish(self._clock.monotonic()):
            self._hooks.on_isr_wish()

    # -- its end

    @property
    def is_ended(self) -> bool:
        return self._ended is not None

    def end(self, error: QuorateError, reason: str) -> asyncio.Task[None] | None:
        """``error`` is for later calls; what waits ends as unknown. Returns a sync under way."""
        if self._ended is not None:
            return None
        self._ended = error
        if self._join_timer is not None:
            self._join_timer.cancel()
            self._join_timer = None
        syncing = self._own_copy.stop()
        unknown = outcome_unknown(self._topic_partition, reason)
        self._waiters.give_up(unknown)
        self._stored_waiters.give_up(unknown)
        self._wakers.wake(News.ENDED)
        self._wakers.clear()
        return syncing

    def _check_leading(self) -> None:
        if self._ended is not None:
            raise copy_of(self._ended)

    # -- appending

    def append(self, batch: Bytes, *, acks_all: bool) -> Appended:
        """One batch, whole or not at all. With ``acks_all`` only if it could be committed now (rule 15)."""
        # As ``_check_leading``, which would be one more call for every batch that is produced.
        if self._ended is not None:
            raise copy_of(self._ended)
        if acks_all and not self._membership.has_enough:
            return self._duplicate_or_too_few(batch)
        try:
            appended = self._log.append_as_leader(batch, leader_epoch=self.epoch)
        except StorageError as error:
            raise self._append_failed(error) from error
        if not appended.is_duplicate:
            self._high_watermark.count_appended(len(batch))
            self._log_grew()
        return appended

    def append_if(self, batch: Bytes, expected_offset: Offset) -> Appended | LogEndsLater:
        """As ``append`` with acks=all, if the log ends at ``expected_offset``: compare and set.

        A retry of a batch that was appended gives the original, whatever the log's end is by now. A batch
        that is refused leaves no trace, not even in the producer's state.
        """
        self._check_leading()
        if not self._membership.has_enough:
            return self._duplicate_or_too_few(batch)
        duplicate = self._find_duplicate(batch)
        if duplicate is not None:
            return duplicate
        log_end_offset = self._log.log_end_offset
        if expected_offset < log_end_offset:
            return LogEndsLater(log_end_offset)
        if expected_offset > log_end_offset:
            raise OffsetNotAvailable(
                f"{self._topic_partition} ends at {log_end_offset}, not yet at {expected_offset}",
                expected_offset=expected_offset,
                log_end_offset=log_end_offset,
            )
        return self.append(batch, acks_all=True)

    def _find_duplicate(self, batch: Bytes) -> Appended | None:
        try:
            return self._log.find_duplicate(batch)
        except StorageError as error:
            raise self._append_failed(error) from error

    def _duplicate_or_too_few(self, batch: Bytes) -> Appended:
        """A retry of what was written must not be told that nothing was (rules 19 and 50)."""
        duplicate = self._find_duplicate(batch)
        if duplicate is None:
            raise too_few(self._topic_partition, self._state, self._membership.isr.committed)
        return duplicate

    def _log_grew(self) -> None:
        if self._membership.followers.is_anyone_at_end:
            self._membership.followers.log_grows(self._clock.monotonic())
        if self._own_copy.needs_sync:
            self._own_copy.sync_soon()
        elif self._membership.is_leader_alone:
            self._advance_high_watermark()
        self._wakers.wake(News.APPENDED)

    def _append_failed(self, error: StorageError) -> QuorateError:
        """A full disk refuses the append and nothing else; a disk that fails ends the leadership."""
        if is_log_trouble(error):
            self._hooks.on_failure(error)
        if isinstance(error, StorageFailed):
            # What the failed write left behind may be found at the next start.
            return outcome_unknown(self._topic_partition, error.message)
        if isinstance(error, LogDamaged):
            return unreadable(self._topic_partition, self.epoch, error)
        return error

    # -- waiting

    def when_committed(self, next_offset: Offset, on_done: OnDone) -> CommitWaiter | None:
        """``on_done`` is told once everything below ``next_offset`` is committed. None: it is.

        An error that it is told, or that is raised here, always means that the outcome is unknown.
        """
        if self._high_watermark.offset >= next_offset:
            return None
        if self._ended is not None:
            raise outcome_unknown(self._topic_partition, self._ended.message)
        if not self._membership.has_enough:
            raise too_few_after_append(self._topic_partition, self._state, self._membership.isr.committed)
        return self._waiters.add(next_offset, on_done)

    def when_stored(self, next_offset: Offset, on_done: OnDone) -> CommitWaiter | None:
        """As ``when_committed``, for this replica's own copy alone: acks=1."""
        if self._ended is not None:
            raise outcome_unknown(self._topic_partition, self._ended.message)
        if self._own_copy.end_offset >= next_offset:
            return None
        return self._stored_waiters.add(next_offset, on_done)

    # -- committing

    def _advance_high_watermark(self) -> None:
        """Rules 13 and 14."""
        membership, high_watermark = self._membership, self._high_watermark
        offset = membership.stored_everywhere(self._own_copy.end_offset)
        if self._ended is not None or offset <= high_watermark.offset or not membership.has_enough:
            return
        if membership.is_anyone_outside:
            offset = self._wait_for_joining(offset)
        if offset <= high_watermark.offset:
            return
        high_watermark.advance(offset)
        self._waiters.reached(offset)
        self._wakers.wake(News.HIGH_WATERMARK)

    def _wait_for_joining(self, offset: Offset) -> Offset:
        now = self._clock.monotonic()
        offset, wait_end = self._membership.stored_by_joining(offset, now)
        if wait_end > now and self._join_timer is None:
            self._join_timer = self._clock.call_later(wait_end - now, self._joining_took_too_long)
        return offset

    def _joining_took_too_long(self) -> None:
        self._join_timer = None
        self._advance_high_watermark()

    def _synced(self) -> None:
        self._stored_waiters.reached(self._own_copy.end_offset)
        self._advance_high_watermark()
        self._note_own_sync()

    def _note_own_sync(self) -> None:
        if self._own_copy.needs_sync and self._membership.leader_synced(self._own_copy.end_offset):
            self._hooks.on_isr_wish()

    def _sync_failed(self, error: QuorateError) -> None:
        log.error("sync_failed", partition=self._topic_partition, code=error.code, error=error.message)
        if is_log_trouble(error):
            self._hooks.on_failure(error)
            return
        # Nothing was lost, and it is tried again; who waits now cannot be told when.
        unknown = outcome_unknown(self._topic_partition, error.message)
        self._waiters.give_up(unknown)
        self._stored_waiters.give_up(unknown)

    @property
    def is_high_watermark_known(self) -> bool:
        """Of records of earlier epochs a new leader does not know whether they were committed (rule 17)."""
        return self._high_watermark.offset >= self.epoch_start_offset

    # -- clients read

    @property
    def high_watermark(self) -> Offset:
        return self._high_watermark.offset

    @property
    def log_start_offset(self) -> Offset:
        return self._log.log_start_offset

    def read(self, offset: Offset, *, bytes_max: int) -> LogRead:
        """Whole committed batches from ``offset`` on; at least one, if there is one.

        From the high watermark to the end of the log there is nothing to read *yet* (rule 18).
        """
        self._check_leading()
        try:
            return self._log.read(offset, bytes_max=bytes_max, end_offset=self._high_watermark.offset)
        except LOG_TROUBLE as error:
            raise self._read_failed(error) from error

    def bytes_from(self, offset: Offset) -> int:
        try:
            return self._log.bytes_from(offset)
        except LOG_TROUBLE as error:
            raise self._read_failed(error) from error

    def find_timestamp(self, timestamp: TimestampMs) -> TimestampedOffset | None:
        """The first committed record at or after ``timestamp``."""
        self.latest_offset()
        try:
            found = self._log.find_timestamp(timestamp)
        except LOG_TROUBLE as error:
            raise self._read_failed(error) from error
        return found if found is not None and found.offset < self._high_watermark.offset else None

    def end_of_epoch(self, leader_epoch: LeaderEpoch) -> EpochEnd | None:
        """Where an epoch's committed records end; None: none at or below that epoch is known here."""
        latest_offset = self.latest_offset()
        end = self._log.end_of_epoch(leader_epoch)
        return None if end is None else EpochEnd(end.epoch, min(end.end_offset, latest_offset))

    def latest_offset(self) -> Offset:
        """The high watermark, once it is known to be no older than this leadership (rule 17)."""
        self._check_leading()
        if not self.is_high_watermark_known:
            raise OffsetNotAvailable(
                f"{self._topic_partition}: leader epoch {self.epoch} began at {self.epoch_start_offset}, "
                f"and is known to be committed only up to {self._high_watermark.offset}",
                high_watermark=self._high_watermark.offset,
            )
        return self._high_watermark.offset

    def earliest_offset(self) -> Offset:
        """The log start, once nobody who may lead next has an earlier one: it never goes back."""
        self._check_leading()
        log_start_offset = self._log.log_start_offset
        # Nobody begins before 0, also who has not said so.
        if max(self._membership.lowest_log_start(), 0) < log_start_offset:
            self._wakers.wake(News.LOG_START)
            raise OffsetNotAvailable(
                f"{self._topic_partition}: the log begins at {log_start_offset} here, and is not known to do "
                "so at every replica in sync",
                log_start_offset=log_start_offset,
            )
        return log_start_offset

    def _read_failed(self, error: StorageError) -> QuorateError:
        self._hooks.on_failure(error)
        return unreadable(self._topic_partition, self.epoch, error)

    # -- followers

    def follower_at(
        self,
        broker_id: BrokerId,
        broker_epoch: BrokerEpoch,
        fetch_offset: Offset,
        last_epoch: LeaderEpoch,
        log_start_offset: Offset,
    ) -> Divergence | None:
        """A follower's log ends at ``fetch_offset`` with a batch of ``last_epoch`` (-1: it has none).

        It counts as an acknowledgement only if that log is a prefix of this one (rules 8 and 16).
        """
        self._check_leading()
        membership = self._membership
        follower = membership.followers.get(broker_id)
        if follower is None:
            raise NotLeaderOrFollower(
                f"broker {broker_id} has no replica of {self._topic_partition}",
                leader=self._broker_id,
                leader_epoch=self.epoch,
            )
        self._check_broker_epoch(broker_id, broker_epoch)
        log_end_offset = self._log.log_end_offset
        # Nearly always its last batch is of this epoch, and then there is nothing to look up.
        if last_epoch != self.epoch or not self._log.log_start_offset <= fetch_offset <= log_end_offset:
            divergence = find_divergence(
                self._log,
                log_start_offset,
                fetch_offset,
                last_epoch,
                is_anything_given_up=bool(self._state.image.unclean_leader_epochs),
                holds_all_committed=partial(membership.holds_all_committed, broker_id, broker_epoch),
            )
            if divergence is not None:
                return divergence
        now = self._clock.monotonic()
        membership.followers.note(follower, broker_epoch, fetch_offset, log_start_offset, log_end_offset, now)
        self._advance_high_watermark()
        if membership.is_wish_due(follower, now):
            self._hooks.on_isr_wish()
        return None

    def _check_broker_epoch(self, broker_id: BrokerId, broker_epoch: BrokerEpoch) -> None:
        """Rule 25. A newer one than is known here may fetch; it counts once the metadata is here, too."""
        broker = self._state.brokers.get(broker_id)
        if broker is not None and broker_epoch < broker.broker_epoch:
            raise StaleBrokerEpoch(
                f"broker {broker_id} is registered with epoch {broker.broker_epoch}, not {broker_epoch}",
                broker_id=broker_id,
                broker_epoch=broker_epoch,
            )

    def read_for_follower(self, offset: Offset, *, bytes_max: int) -> LogRead:
        """Up to the end of the log."""
        self._check_leading()
        try:
            return self._log.read(offset, bytes_max=bytes_max)
        except LOG_TROUBLE as error:
            raise self._read_failed(error) from error

    def untold_compaction(
        self, broker_id: BrokerId, *, end_offset: Offset, known: Compacted, is_empty: bool
    ) -> Compacted | None:
        """What a follower has to hear before it copies on from its end; None: it knows enough (rule 48)."""
        compacted = self._log.compacted
        if not has_to_hear(compacted, end_offset=end_offset, known=known):
            return None
        # One that may be elected must not drop its log, whatever a damaged checkpoint here makes of this.
        if not is_empty and self._membership.is_trusted(broker_id, end_offset):
            return None
        return compacted

    def wake_on_news(self, broker_id: BrokerId, wake: Wake) -> None:
        """``wake`` is called at every append and move of the high watermark; it has to be cheap."""
        self._check_leading()
        self._wakers.add(broker_id, wake)

    def forget(self, broker_id: BrokerId) -> None:
        self._wakers.remove(broker_id)

    # -- retention

    @property
    def wanted_log_start(self) -> Offset:
        """Where the log is to begin at every replica; here it begins there last."""
        return max(self._wanted_log_start, self._log.log_start_offset)

    def want_log_start(self) -> None:
        """Look what is past its retention and committed: followers are told to let go of it."""
        wanted = self._log.expired_below(high_watermark=self._high_watermark.offset)
        if wanted > self.wanted_log_start:
            self._wanted_log_start = wanted
            self._wakers.wake(News.LOG_START)

    @property
    def deletable_below(self) -> Offset:
        """What is gone at everybody who may lead next (rule 48)."""
        return min(self.wanted_log_start, self._membership.lowest_log_start())

    # -- the ISR

    @property
    def isr(self) -> tuple[BrokerId, ...]:
        """As committed, as far as is known here."""
        return tuple(sorted(self._membership.isr.committed))

    @property
    def partition_epoch(self) -> int:
        return self._membership.isr.partition_epoch

    def check_lag(self, now: float) -> None:
        """Now and then: followers that stopped fetching are noticed by nothing else (rule 26)."""
        if self._ended is None and self._membership.has_wish(now):
            self._hooks.on_isr_wish()

    def next_alteration(self) -> PartitionAlteration | None:
        """What to ask the controller for now. None: nothing, or it was asked and has not answered."""
        if self._ended is not None:
            return None
        return self._membership.next_alteration(self._clock.monotonic())

    def alteration_answered(self, result: PartitionAlterationResult) -> None:
        """The controller's word on the last ``next_alteration``."""
        if self._ended is not None:
            return
        isr = self._membership.isr
        if result.HasField("error"):
            isr.refused(result.error.code)
        elif result.leader_epoch != self.epoch:
            # A new epoch comes from the metadata, with the MinISR that belongs to it; until then both count.
            isr.unanswered()
        else:
            recovery = RECOVERY_OF_STATE.get(result.recovery_state, isr.recovery)
            isr.answered(
                [BrokerId(each) for each in result.isr],
                result.partition_epoch,
                recovery,
                is_synced=result.is_synced,
            )
        self._membership.recount()
        self._isr_changed()

    def alteration_unanswered(self) -> None:
        """The same wish is sent again."""
        if self._ended is None:
            self._membership.isr.unanswered()

    # -- invariants

    def validate(self) -> None:
        """For tests, after every step."""
        self._membership.validate()
        self._waiters.validate(self._high_watermark.offset)
        self._stored_waiters.validate(self._own_copy.end_offset)
        assert self.epoch_start_offset <= self._log.log_end_offset
        assert self._membership.has_enough or len(self._waiters) == 0
