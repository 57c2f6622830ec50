"""One replica on this broker: the log, the part that it plays, and how far it is committed.

Committed metadata decides the part, and nothing else does (rules 2 to 4): ``apply`` ends a leadership and
begins the next one in the same turn of the event loop, so no request is answered in an epoch that this broker
knows to be over. As a follower the replica is moved by ``quorate.broker.replication``; here is only what both
parts share, and the door to each: ``require_leadership``, ``require_reader``.

Two things keep a replica from the part that the metadata gives it:

- *A cut is under way.* A follower that is just truncating its log may be elected. It leads when the cut is
  done (``begin_waiting_leadership``): the new epoch starts where the log ends, and that is being decided.
- *A failure.* A damaged log, or a disk that refuses (rule 44). The broker is told (``on_failure``) and tells
  the controller, which has another replica lead. Damage ends when the log is reset to be fetched anew; a
  failing disk lasts until the node restarts. What was told is void in a later leader epoch
  (``damage_reports``): it is told again in each one in which the replica is to lead, or to follow although it
  is counted on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from quorate.broker.replica.fetch_watch import FetchWatch
from quorate.broker.replica.high_watermark import HighWatermark
from quorate.broker.replica.leadership import Leadership, LeadershipHooks
from quorate.broker.replica.partition_state import PartitionState
from quorate.broker.replica.reader import FollowerReader, Reader
from quorate.broker.replica.unclean_epochs import crosses_unclean_epoch
from quorate.core.clock import Clock
from quorate.core.ids import (
    NO_LEADER_EPOCH,
    BrokerId,
    LeaderEpoch,
    Offset,
    ReplicaKey,
    TopicId,
    TopicPartition,
)
from quorate.core.logging import get_logger
from quorate.errors import Fact, NotLeaderOrFollower, QuorateError, wrong_leader_epoch
from quorate.metadata.image import NO_LEADER, PartitionImage
from quorate.storage import PartitionLog

__all__ = ["Partition"]

log = get_logger(__name__)


def _tell_nobody(_: Partition) -> None:
    pass


class Partition:
    __slots__ = (
        "_broker_id",
        "_clock",
        "_failure",
        "_high_watermark",
        "_is_stopped",
        "_is_waiting_to_lead",
        "_leader_log_start",
        "_may_show_what_was_given_up",
        "_on_failure",
        "_on_isr_wish",
        "_reader",
        "_replica_lag_s",
        "_syncing",
        "leadership",
        "log",
        "state",
        "topic_id",
        "topic_partition",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        partition_log: PartitionLog,
        *,
        broker_id: BrokerId,
        clock: Clock,
        high_watermark: Offset,
        replica_lag_s: float,
        on_isr_wish: Callable[[Partition], None],
        on_failure: Callable[[Partition], None] = _tell_nobody,
    ) -> None:
        """``high_watermark``: from the last checkpoint, a lower bound (rule 18)."""
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.log = partition_log
        #: while this broker leads
        self.leadership: Leadership | None = None
        #: what the metadata said last; None before the first time
        self.state: PartitionState | None = None
        self._broker_id = broker_id
        self._clock = clock
        self._high_watermark = HighWatermark(partition_log, high_watermark)
        self._replica_lag_s = replica_lag_s
        self._on_isr_wish = on_isr_wish
        self._on_failure = on_failure
        self._reader = FollowerReader(partition_log, self._high_watermark, self.fail)
        #: where the leader wants the log to begin, as it said last
        self._leader_log_start = Offset(0)
        self._is_waiting_to_lead = False
        #: until a leader that may lack some of it has found this log to be a prefix of its own
        self._may_show_what_was_given_up = False
        self._is_stopped = False
        #: why the replica is of no use, beside damage, of which the log itself tells
        self._failure: QuorateError | None = None
        #: syncs for leaderships that are over, to be awaited before the log is closed
        self._syncing: list[asyncio.Task[None]] = []

    # -- state

    @property
    def key(self) -> ReplicaKey:
        return ReplicaKey(self.topic_id, self.topic_partition.partition)

    @property
    def high_watermark(self) -> Offset:
        """Exclusive; a lower bound of what is committed, never beyond this log's end."""
        return min(max(self._high_watermark.offset, self.log.log_start_offset), self.log.log_end_offset)

    @property
    def deletable_below(self) -> Offset:
        """As far as retention may go by itself (rule 48): a follower deletes what its leader says."""
        return self.log.log_start_offset if self.leadership is None else self.leadership.deletable_below

    @property
    def leader(self) -> BrokerId:
        return NO_LEADER if self.state is None else self.state.image.leader

    @property
    def leader_epoch(self) -> LeaderEpoch:
        return NO_LEADER_EPOCH if self.state is None else self.state.image.leader_epoch

    @property
    def partition_epoch(self) -> int:
        """The highest that was heard of, in the metadata or in an answer (rule 4)."""
        if self.leadership is not None:
            return self.leadership.partition_epoch
        return -1 if self.state is None else self.state.image.partition_epoch

    @property
    def failure(self) -> QuorateError | None:
        """Quarantined, or the disk failed: it neither leads nor follows."""
        return self._failure or self.log.failure

    def is_following(self, leader_epoch: LeaderEpoch) -> bool:
        """Another broker leads in that epoch, as far as is known here (rule 10).

        Also if the log is damaged: a follower repairs it, by a reset.
        """
        state = self.state
        return (
            state is not None
            and state.image.leader_epoch == leader_epoch
            and state.image.leader not in (NO_LEADER, self._broker_id)
            and self._failure is None
            and not self._is_stopped
        )

    # -- the metadata

    def apply(self, state: PartitionState) -> None:
        """Committed metadata, in its order."""
        before = self.state
        if before is not None and state.image.partition_epoch < before.image.partition_epoch:
            return
        self.state = state
        if before is None:
            self.log.reject_epochs_beyond(state.image.leader_epoch)
        if before is not None and before.image.leader_epoch == state.image.leader_epoch:
            if self.leadership is not None:
                self.leadership.apply(state)
            return
        self._end_leadership(f"leader epoch {state.image.leader_epoch} has begun")
        if not self.log.is_being_cut:
            self._high_watermark.clamp()
        self._may_show_what_was_given_up = crosses_unclean_epoch(
            self.log,
            high_watermark=self._high_watermark.offset,
            leader_epoch=state.image.leader_epoch,
            unclean_leader_epochs=state.image.unclean_leader_epochs,
        )
        self._is_waiting_to_lead = state.image.leader == self._broker_id
        self._begin_leadership()
        if self._failure is not None and self._counts_for_another_leader(state.image):
            # Damage is told of by whoever follows; with any other failure, nobody does.
            self._on_failure(self)
        self._high_watermark.wake_watches()

    def _counts_for_another_leader(self, image: PartitionImage) -> bool:
        is_counted_on = self._broker_id in image.isr or self._broker_id in image.elr
        return is_counted_on and image.leader not in (NO_LEADER, self._broker_id)

    def begin_waiting_leadership(self) -> None:
        """To be called after every cut of the log, whoever leads by now."""
        if self.log.is_being_cut:
            return
        self._high_watermark.clamp()
        self._begin_leadership()

    def _begin_leadership(self) -> None:
        state = self.state
        if state is None or not self._is_waiting_to_lead or self._is_stopped or self.log.is_being_cut:
            return
        self._is_waiting_to_lead = False
        if self.failure is not None:
            self._on_failure(self)
            return
        hooks = LeadershipHooks(on_isr_wish=lambda: self._on_isr_wish(self), on_failure=self.fail)
        self._high_watermark.forget_sizes()
        try:
            self.leadership = Leadership(
                self.topic_partition,
                self.log,
                self._high_watermark,
                state,
                clock=self._clock,
                replica_lag_s=self._replica_lag_s,
                hooks=hooks,
            )
        except QuorateError as error:
            self.fail(error)
            return
        if not state.image.unclean_leader_epochs:
            # Elected for having everything, and nobody ever was for anything else (rule 48).
            self.log.note_complete()
        log.info(
            "leadership_begun",
            partition=self.topic_partition,
            leader_epoch=self.leadership.epoch,
            start_offset=self.leadership.epoch_start_offset,
        )
        self.leadership.begin()
        self._high_watermark.wake_watches()

    def _end_leadership(self, reason: str) -> None:
        leadership, self.leadership = self.leadership, None
        if leadership is None:
            return
        syncing = leadership.end(self._not_leading(), reason)
        self._high_watermark.forget_sizes()
        if syncing is not None:
            self._syncing = [task for task in self._syncing if not task.done()]
            self._syncing.append(syncing)

    @property
    def is_to_lead(self) -> bool:
        """It leads, or will as soon as its log has been cut."""
        return self.leadership is not None or self._is_waiting_to_lead

    # -- doors

    def require_leadership(self, current_leader_epoch: int | None) -> Leadership:
        """For a caller that knows the current epoch, or names none (rule 3)."""
        leadership = self.leadership
        if leadership is None and self._is_waiting_to_lead:
            self.begin_waiting_leadership()
            leadership = self.leadership
        if leadership is None or (
            current_leader_epoch is not None and current_leader_epoch != leadership.epoch
        ):
            self._check_epoch(current_leader_epoch)
            raise self._not_leading()
        return leadership

    def require_reader(self, current_leader_epoch: int | None, *, allow_follower: bool) -> Reader:
        """The leadership; or what a follower may serve, for whoever asks for it (rule 18)."""
        if not allow_follower or self.leadership is not None:
            return self.require_leadership(current_leader_epoch)
        self._check_epoch(current_leader_epoch)
        if self.failure is not None or self._is_stopped or self.leader in (NO_LEADER, self._broker_id):
            raise self._not_leading()
        if self._may_show_what_was_given_up:
            # In an epoch that whoever asks may know: from its leader it hears other things (rule 11).
            raise self._not_leading()
        return self._reader

    def _check_epoch(self, current_leader_epoch: int | None) -> None:
        if current_leader_epoch is not None and current_leader_epoch != self.leader_epoch:
            raise wrong_leader_epoch(
                self.topic_partition, request=current_leader_epoch, current=self.leader_epoch
            )

    def _not_leading(self) -> NotLeaderOrFollower:
        topic, partition = self.topic_partition
        facts: dict[str, Fact] = {"topic": topic, "partition": partition, "leader_epoch": self.leader_epoch}
        if self.leader not in (NO_LEADER, self._broker_id):
            facts["leader"] = self.leader
            reason = f"is led by broker {self.leader}"
        elif self.leader == NO_LEADER:
            reason = "has no leader"
        elif self.failure is not None:
            reason = f"cannot be led here: {self.failure.message}"
        else:
            reason = f"is not ready to be led by broker {self._broker_id}"
        return NotLeaderOrFollower(f"{self.topic_partition} {reason}", **facts)

    # -- following

    def advance_high_watermark_from_leader(self, leader_high_watermark: Offset) -> None:
        """No further than this log reaches, and never back."""
        assert self.leadership is None, "only the leader moves the high watermark (rule 13)"
        self._may_show_what_was_given_up = False
        if leader_high_watermark <= self._high_watermark.offset:
            return
        log_end_offset = self.log.log_end_offset
        offset = leader_high_watermark if leader_high_watermark < log_end_offset else log_end_offset
        if offset > self._high_watermark.offset:
            self._high_watermark.advance(offset)
            self._high_watermark.wake_watches()

    def note_leader_log_start(self, offset: Offset) -> None:
        self._leader_log_start = offset

    @property
    def log_start_due(self) -> Offset | None:
        """What the leader lets go of goes here first; as far as this replica knows that it is committed."""
        if self._leader_log_start <= self.log.log_start_offset:
            return None
        offset = min(self._leader_log_start, self.high_watermark)
        return offset if offset > self.log.log_start_offset else None

    # -- waiting for something to read

    def watch(self, watch: FetchWatch) -> None:
        """Told of what becomes readable, and woken when another replica leads. ``unwatch`` must follow."""
        self._high_watermark.watch(watch)

    def unwatch(self, watch: FetchWatch) -> None:
        self._high_watermark.unwatch(watch)

    # -- ends

    def fail(self, error: QuorateError) -> None:
        """The log cannot be relied on: no part is played any more. The first reason stays."""
        if self.log.failure is None and self._failure is None:
            self._failure = error
        log.error("replica_failed", partition=self.topic_partition, code=error.code, error=error.message)
        self._end_leadership(error.message)
        self._high_watermark.wake_watches()
        self._on_failure(self)

    def stop(self) -> None:
        """The node stops, or the replica goes; the log stays open for its owner to close."""
        self._is_stopped = True
        self._end_leadership("the replica is being stopped")
        self._high_watermark.wake_watches()

    async def wait_stopped(self) -> None:
        """Syncs that were under way are over."""
        if self._syncing:
            await asyncio.wait(self._syncing)

    def validate(self) -> None:
        """The invariants, for tests after every step."""
        self.log.validate()
        if not self.log.is_being_cut:
            assert self.log.log_start_offset <= self.high_watermark
            assert self.high_watermark <= self.log.log_end_offset
        if self.leadership is not None:
            assert not self.leadership.is_ended
            assert self.leadership.epoch == self.leader_epoch
            assert self.leader == self._broker_id
            assert self.failure is None
            self.leadership.validate()
