"""One partition as its leader sees it: the log, the epoch, the high watermark, and who waits for it.

The high watermark is the exclusive end of what is committed: consumers read below it, acks=all waits
for it, and it never moves back. With a single replica it follows that replica alone:

- ``durability=replicated``: the end of the log, as soon as an append returns;
- ``durability=fsync``: the end of what was synced. Moving it at the append would show consumers a
  record that a power loss takes back (rules 16 and 17).

Invariant: log_start_offset <= high_watermark <= log_end_offset.

A partition can be read from the moment it is opened, and written to once it leads. On a full disk
there may be no room to put the new leader epoch on record: then it is read only, and tries again.

Two kinds of waiters, both woken from the one place that moves the high watermark:

- producers wait for an offset (``when_committed``). Offsets are handed out in order, so the waiters
  form a queue and each move pops its front;
- fetches wait for a number of bytes over several partitions (``FetchWatch``). A partition reports how
  many bytes became readable; the watch counts down and wakes its fetch once. Waking every fetch at
  every append, to let it read and find too little, was rejected: with many partitions in one fetch
  it makes each append cost a pass over all of them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import NamedTuple

from quorate.core.config import Durability
from quorate.core.disk import Bytes
from quorate.core.ids import LeaderEpoch, Offset, TimestampMs, TopicId, TopicPartition
from quorate.core.logging import get_logger
from quorate.errors import (
    NotLeaderOrFollower,
    QuorateError,
    Unavailable,
    copy_of,
    wrong_leader_epoch,
)
from quorate.storage import LogRead, PartitionLog, TimestampedOffset

__all__ = ["AppendResult", "FetchWatch", "Partition"]

log = get_logger(__name__)


class AppendResult(NamedTuple):
    base_offset: Offset
    #: exclusive end of the batch
    next_offset: Offset


class FetchWatch:
    """One waiting fetch: ``done`` is set once enough bytes were committed in the partitions it watches."""

    __slots__ = ("_missing_bytes", "done")

    def __init__(self, missing_bytes: int) -> None:
        self._missing_bytes = missing_bytes
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def add_bytes(self, count: int) -> None:
        self._missing_bytes -= count
        if self._missing_bytes <= 0:
            self.wake()

    def wake(self) -> None:
        if not self.done.done():
            self.done.set_result(None)


class _CommitWaiter(NamedTuple):
    next_offset: Offset
    committed: asyncio.Future[None]


class Partition:
    __slots__ = (
        "_commit_waiters",
        "_durability",
        "_is_closed",
        "_log",
        "_not_leading",
        "_syncing",
        "_uncommitted_bytes",
        "_watches",
        "high_watermark",
        "leader_epoch",
        "topic_id",
        "topic_partition",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        partition_log: PartitionLog,
        *,
        durability: Durability,
        leader_epoch: LeaderEpoch,
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.leader_epoch = leader_epoch
        #: exclusive end of what is committed; opening a log syncs all that it recovers
        self.high_watermark = partition_log.log_end_offset
        self._log = partition_log
        self._durability = durability
        self._commit_waiters: deque[_CommitWaiter] = deque()
        #: an ordered set: the same events wake in the same order, in a simulation too
        self._watches: dict[FetchWatch, None] = {}
        #: at least the bytes between the high watermark and the end of the log
        self._uncommitted_bytes = 0
        self._syncing: asyncio.Task[None] | None = None
        self._is_closed = False
        #: why nothing is appended although everything can be read; None: this replica leads
        self._not_leading: QuorateError | None = NotLeaderOrFollower(f"{topic_partition} has no leader yet")

    # -- leading

    @property
    def is_leading(self) -> bool:
        return self._not_leading is None

    async def lead(self) -> None:
        """Take the lead; the epoch is on record before the first append (rule 6)."""
        self._log.become_leader(self.leader_epoch)
        self._not_leading = None

    def wait_to_lead(self, reason: QuorateError) -> None:
        """Serve reads alone; appends are refused for this reason until ``lead`` succeeds."""
        self._not_leading = reason

    # -- state

    @property
    def log_start_offset(self) -> Offset:
        return self._log.log_start_offset

    @property
    def log_end_offset(self) -> Offset:
        return self._log.log_end_offset

    @property
    def size_in_bytes(self) -> int:
        return self._log.size_in_bytes

    @property
    def failure(self) -> QuorateError | None:
        """Why this replica is no leader: damage found since the log was opened, or still no room."""
        return self._log.failure or self._not_leading

    def check_leader_epoch(self, current: int) -> None:
        """Only a caller who knows the current epoch proceeds (rule 3)."""
        if current != self.leader_epoch:
            raise wrong_leader_epoch(self.topic_partition, request=current, current=self.leader_epoch)

    def validate(self) -> None:
        """The invariants, for tests after every event."""
        assert self.log_start_offset <= self.high_watermark
        assert self.high_watermark <= self.log_end_offset
        offsets = [waiter.next_offset for waiter in self._commit_waiters]
        assert offsets == sorted(offsets)
        assert all(offset > self.high_watermark for offset in offsets)

    # -- writing

    def append(self, batch: Bytes) -> AppendResult:
        """Append one batch whole, or raise and leave the log as it was."""
        if self._not_leading is not None:
            raise copy_of(self._not_leading)
        appended = self._log.append_as_leader(batch, leader_epoch=self.leader_epoch)
        if not appended.is_duplicate:
            self._uncommitted_bytes += len(batch)
            if self._durability is Durability.REPLICATED:
                self._advance_high_watermark(self._log.log_end_offset)
            else:
                self._sync_soon()
        return AppendResult(appended.base_offset, Offset(appended.last_offset + 1))

    def when_stored(self, next_offset: Offset) -> asyncio.Future[None] | None:
        """As ``when_committed``, for the leader's own copy alone."""
        return None if self._durability is Durability.REPLICATED else self.when_committed(next_offset)

    def when_committed(self, next_offset: Offset) -> asyncio.Future[None] | None:
        """Done once the high watermark has reached ``next_offset``; None: it has.

        A future and not a coroutine, so that a request which waits for many partitions needs no task
        for each. Whoever gives up cancels it.
        """
        if self.high_watermark >= next_offset:
            return None
        committed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._is_closed:
            committed.set_exception(self._outcome_unknown("the node is stopping"))
        else:
            self._insert_waiter(_CommitWaiter(next_offset, committed))
        return committed

    def _insert_waiter(self, waiter: _CommitWaiter) -> None:
        """At the end, where it belongs unless it is a retry of an older batch."""
        position = len(self._commit_waiters)
        while position > 0 and self._commit_waiters[position - 1].next_offset > waiter.next_offset:
            position -= 1
        self._commit_waiters.insert(position, waiter)

    def _advance_high_watermark(self, offset: Offset) -> None:
        assert offset >= self.high_watermark
        assert offset <= self._log.log_end_offset
        if offset == self.high_watermark:
            return
        self.high_watermark = offset
        while self._commit_waiters and self._commit_waiters[0].next_offset <= offset:
            committed = self._commit_waiters.popleft().committed
            if not committed.done():  # its producer may have given up
                committed.set_result(None)
        readable_bytes = self._uncommitted_bytes
        if offset == self._log.log_end_offset:
            # Otherwise the count stays too high until the log is quiet: a watch that wakes too early
            # reads again and waits on, one that sleeps too long would be a bug.
            self._uncommitted_bytes = 0
        for watch in self._watches:
            watch.add_bytes(readable_bytes)

    # -- durability=fsync

    def _sync_soon(self) -> None:
        if self._syncing is None:
            self._syncing = asyncio.create_task(self._sync(), name=f"sync {self.topic_partition}")

    async def _sync(self) -> None:
        """Sync until nothing is left to sync; whatever is appended meanwhile shares the next one."""
        try:
            while self.high_watermark < self._log.log_end_offset:
                await self._log.flush()
                self._advance_high_watermark(self._log.recovery_point)
        except QuorateError as error:
            log.error("sync_failed", partition=self.topic_partition, code=error.code, error=error.message)
            self._give_up_waiters(error.message)
        finally:
            self._syncing = None

    def _give_up_waiters(self, reason: str) -> None:
        """Their batches are in the log, and whether they stay is not known: say just that (rule 19)."""
        while self._commit_waiters:
            committed = self._commit_waiters.popleft().committed
            if not committed.done():
                committed.set_exception(self._outcome_unknown(reason))

    def _outcome_unknown(self, reason: str) -> Unavailable:
        return Unavailable(
            f"{self.topic_partition}: appended, but not known to be stored: {reason}",
            topic=self.topic_partition.topic,
            partition=self.topic_partition.partition,
        )

    # -- reading

    def read(self, offset: Offset, *, bytes_max: int) -> LogRead:
        """Whole committed batches from ``offset`` on; at least one, if there is one.

        From the high watermark to the end of the log there is nothing to read *yet* (rule 18); an
        offset outside of the log is an error, and where to go on instead is for the reader to decide.
        """
        return self._log.read(offset, bytes_max=bytes_max, end_offset=self.high_watermark)

    def find_timestamp(self, timestamp: TimestampMs) -> TimestampedOffset | None:
        """The first committed record at or after ``timestamp``."""
        found = self._log.find_timestamp(timestamp)
        return found if found is not None and found.offset < self.high_watermark else None

    def watch(self, watch: FetchWatch) -> None:
        """Report to ``watch`` what becomes readable from now on. ``unwatch`` must follow."""
        self._watches[watch] = None

    def unwatch(self, watch: FetchWatch) -> None:
        self._watches.pop(watch, None)

    async def stop(self) -> None:
        """End what waits, and the sync under way; the log stays open for its owner to close."""
        self._is_closed = True
        for watch in self._watches:
            watch.wake()
        if self._syncing is not None:
            await self._syncing
        self._give_up_waiters("the node is stopping")
