"""What is committed: positions, or what the application gives; when it asks to, or by itself.

A position is behind the last record that was handed out. Whether that record is *done* only the application
knows. So by itself a consumer commits positions only inside a poll, before new records are taken: then the
application has come back, and is done with what it was handed, if it processes records in the thread that
polls. That happens

- when ``auto_commit_interval_ms`` have passed since the last time, in the next poll or step of an iteration,
- before a partition is given up, and
- when the consumer is closed; after an error only up to what the application had come back from.

So a crash repeats records, up to those of one interval, and skips none: at least once.

A position that is committed already is not committed again: an application may commit after every record, and
only the partition that it has read from costs anything. What is committed is known of the last call for a
partition, once it was answered, and for as long as the partition is held: a call that is still on its way may
undo what was answered before, and so may others who have had the partition in between.

Where partitions are assigned by hand, the coordinator knows of no member, and lets go of an offset that was
not committed for long. So there a position is committed again after an hour, though nothing was read.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Final, NamedTuple, Protocol, TypeAlias

from quorate.client.arguments import check_partition_argument
from quorate.client.consumer.group.commit_queue import CommitQueue, Offsets, Tenures
from quorate.client.consumer.group.member import Tenure
from quorate.client.consumer.parts import ConsumerParts
from quorate.client.consumer.positions import PartitionReader
from quorate.client.groups.committed import fetch_committed
from quorate.client.groups.coordinator import CoordinatorLink
from quorate.client.groups.offsets import OffsetAndMetadata, offsets_given
from quorate.client.groups.partitions import GroupPartition
from quorate.core.clock import Timer
from quorate.core.ids import TopicId, TopicPartition
from quorate.core.logging import get_logger
from quorate.errors import (
    BufferExhausted,
    InvalidRequest,
    LogTruncated,
    QuorateError,
    RequestTimedOut,
)

__all__ = ["BY_HAND", "CommitCallback", "CommitPolicy", "partition_of"]

log = get_logger(__name__)

#: gets what was to be committed, and why it was not; None: it was
CommitCallback: TypeAlias = Callable[[dict[TopicPartition, OffsetAndMetadata], QuorateError | None], object]

#: Callbacks that wait to be called, and commits that wait to be over.
_CALLBACKS_MAX: Final = 1000
#: of partitions that nobody takes away
BY_HAND: Final = Tenure(-1, 0)
#: after which one of these is committed again: far less than offsets are kept for
_REFRESHED_AFTER_S: Final = 3600.0


class _Latest(NamedTuple):
    """What was committed last in a partition, as far as this consumer can tell."""

    offset: int
    tenure: Tenure | None
    #: when it was answered; None: it is on its way, or was refused, or nobody knows
    kept_at_s: float | None


class Holder(Protocol):
    """Who knows which partitions may be committed."""

    def tenure_of(self, partition: GroupPartition) -> Tenure | None:
        """In which it is held, whether the application was told of it or not."""
        ...

    def tenure_told_of(self, partition: GroupPartition | None) -> Tenure | None:
        """In which the application has the partition, as far as it knows: what it was handed is from then.

        None: the application does not have it, or has it no more; it may be held again, but it was not told.
        No partition: one whose topic is not known yet.
        """
        ...

    def application_is_wanted(self) -> None:
        """There is something to do in its next poll."""
        ...


class CommitPolicy:
    def __init__(
        self, parts: ConsumerParts, holder: Holder, commit_queue: CommitQueue, link: CoordinatorLink
    ) -> None:
        self._holder = holder
        self._readers = parts.readers
        self._commit_queue = commit_queue
        self._link = link
        self._cluster = parts.cluster
        self._clock = parts.clock
        self._timeout_s = parts.timeout_s
        options = parts.options
        #: None: nothing is committed by itself
        self._auto_interval_s = options.auto_commit_interval_ms / 1000 if options.enable_auto_commit else None
        self._auto_timer: Timer | None = None
        self._is_auto_due = False
        self._auto_commit: asyncio.Future[None] | None = None
        #: an error has ended the application: positions may be behind what it committed itself
        self.is_forward_only = False
        self._latest: dict[GroupPartition, _Latest] = {}
        #: callbacks of commits that are over
        self._over: deque[Callable[[], object]] = deque()
        self._callbacks = 0

    @property
    def is_automatic(self) -> bool:
        return self._auto_interval_s is not None

    # -- what there is to commit

    def positions(self, partitions: Collection[GroupPartition] | None = None) -> Offsets:
        """Those that are not committed yet; ``partitions``: of these alone.

        Also of what is lost, as long as the application has not heard of it: that it cannot be committed is
        the answer to who asks for it, and silence would be taken for success.
        """
        found = {}
        for reader in self._readers.values():
            partition, position = partition_of(reader), reader.position
            if partition is None or position is None:
                continue
            if partitions is not None and partition not in partitions:
                continue
            # What was read may have vanished: its partition says so, until the application seeks.
            if isinstance(reader.failure, LogTruncated):
                continue
            latest = self._latest_of(partition)
            if latest is not None and self._is_kept(latest) and position.offset == latest.offset:
                continue
            if latest is not None and self.is_forward_only and position.offset < latest.offset:
                continue
            # A position that was only looked up has the epoch of a leader, not of a record.
            epoch = position.leader_epoch if reader.is_begun else None
            found[partition] = OffsetAndMetadata(position.offset, epoch)
        return found

    def _is_kept(self, latest: _Latest) -> bool:
        if latest.kept_at_s is None:
            return False
        is_old = self._clock.monotonic() - latest.kept_at_s >= _REFRESHED_AFTER_S
        return not (is_old and latest.tenure == BY_HAND)

    def _latest_of(self, partition: GroupPartition) -> _Latest | None:
        latest = self._latest.get(partition)
        if latest is None:
            return None
        tenure = self._holder.tenure_told_of(partition)
        # Of one that is lost, and whose reader is still there: what was committed before that is.
        return latest if tenure in (None, latest.tenure) else None

    def were_committed(self, offsets: Offsets, tenures: Tenures) -> None:
        """``tenures``: in which they were sent."""
        for partition, offset in offsets.items():
            if self._holder.tenure_of(partition) != tenures[partition]:
                continue  # others may have committed since
            latest = self._latest.get(partition)
            if latest is None or latest.tenure != tenures[partition] or latest.offset == offset.offset:
                now_s = self._clock.monotonic()
                self._latest[partition] = _Latest(offset.offset, tenures[partition], now_s)

    def forget(self, partitions: Collection[GroupPartition]) -> None:
        """They are not read any more: another may commit in them."""
        for partition in partitions:
            self._latest.pop(partition, None)

    # -- when the application asks to

    async def commit(self, given: object, *, timeout_s: float) -> None:
        if given is None:
            done = self._submit_now(self.positions(), timeout_s=timeout_s)
        else:
            offsets, tenures = await self._identified(given, timeout_s)
            done = self._submit(offsets, tenures, timeout_s=timeout_s)
        # Once more than it has: it knows better what is wrong than a clock does.
        await asyncio.wait([done], timeout=timeout_s + 1)
        if not done.done():
            done.cancel()
            raise RequestTimedOut(f"no commit in {timeout_s} s", group=self._link.group)
        done.result()

    def commit_soon(self, given: object, callback: CommitCallback | None) -> None:
        """Only partitions that are assigned: there is no time to look up others."""
        offsets = self.positions() if given is None else self._assigned(given)
        if callback is not None and self._callbacks >= _CALLBACKS_MAX:
            raise BufferExhausted(f"{_CALLBACKS_MAX} callbacks of commits wait already: poll, or pass fewer")
        done = self._submit_now(offsets, timeout_s=self._timeout_s)
        self._callbacks += callback is not None
        done.add_done_callback(partial(self._is_over, offsets, callback))

    def _is_over(self, offsets: Offsets, callback: CommitCallback | None, done: asyncio.Future[None]) -> None:
        error = None if done.cancelled() else done.exception()
        if callback is None:
            self._log_failure(done)
            return
        assert error is None or isinstance(error, QuorateError)
        names = {partition.name: offset for partition, offset in offsets.items()}
        self._over.append(partial(callback, names, error))
        self._holder.application_is_wanted()

    def next_callback(self) -> Callable[[], object] | None:
        """Of a commit that is over."""
        if not self._over:
            return None
        self._callbacks -= 1
        return self._over.popleft()

    def _submit_now(self, offsets: Offsets, *, timeout_s: float) -> asyncio.Future[None]:
        """Of what the application has at this moment."""
        tenures = {each: self._holder.tenure_told_of(each) for each in offsets}
        return self._submit(offsets, tenures, timeout_s=timeout_s)

    def _submit(self, offsets: Offsets, tenures: Tenures, *, timeout_s: float) -> asyncio.Future[None]:
        done = self._commit_queue.submit(offsets, tenures, timeout_s=timeout_s)
        for partition, offset in offsets.items():
            tenure = tenures[partition]
            if tenure is not None and tenure == self._holder.tenure_of(partition):
                self._latest[partition] = _Latest(offset.offset, tenure, None)
        return done

    async def _identified(self, given: object, timeout_s: float) -> tuple[Offsets, Tenures]:
        """A partition that is not assigned is refused, unless no group assigns them."""
        # All that depends on the moment of the call, before anything is waited for.
        called = {
            name: (self._assigned_as(name), self._with_epoch(name, offset))
            for name, offset in offsets_given(given).items()
        }
        told = {name: self._holder.tenure_told_of(partition) for name, (partition, _) in called.items()}
        offsets, tenures = {}, {}
        for name, (assigned, offset) in called.items():
            partition = assigned or await self.identify(name, timeout_s)
            offsets[partition], tenures[partition] = offset, told[name]
        return offsets, tenures

    def _assigned(self, given: object) -> Offsets:
        offsets = {}
        for name, offset in offsets_given(given).items():
            partition = self._assigned_as(name)
            if partition is None:
                raise InvalidRequest(f"{name} is not assigned", topic=name.topic, partition=name.partition)
            offsets[partition] = self._with_epoch(name, offset)
        return offsets

    def _assigned_as(self, name: TopicPartition) -> GroupPartition | None:
        """None: it is not assigned, or its topic is not known yet."""
        reader = self._readers.get(name)
        return None if reader is None else partition_of(reader)

    def _with_epoch(self, name: TopicPartition, offset: OffsetAndMetadata) -> OffsetAndMetadata:
        reader = self._readers.get(name)
        position = None if reader is None or not reader.is_begun else reader.position
        if offset.leader_epoch is None and position is not None and position.offset == offset.offset:
            return offset._replace(leader_epoch=position.leader_epoch)
        return offset

    # -- by itself

    def start(self) -> None:
        if self._auto_interval_s is not None:
            self._auto_timer = self._clock.call_later(self._auto_interval_s, self._auto_commit_due)

    def stop(self) -> None:
        if self._auto_timer is not None:
            self._auto_timer.cancel()

    def _auto_commit_due(self) -> None:
        self._is_auto_due = True
        self._holder.application_is_wanted()

    def commit_what_is_due(self) -> None:
        """In a poll, before anything is taken. Returns at once."""
        if not self._is_auto_due:
            return
        self._is_auto_due = False
        if self._auto_commit is None or self._auto_commit.done():
            self._auto_commit = self._submit_now(self.positions(), timeout_s=self._timeout_s)
            self._auto_commit.add_done_callback(self._log_failure)
        self.start()

    async def settle(self, partitions: Collection[GroupPartition], *, timeout_s: float) -> None:
        """Before they are given up: commit what is not committed, if that is wished, and wait for commits."""
        if self.is_automatic:
            done = self._submit_now(self.positions(partitions), timeout_s=timeout_s)
            done.add_done_callback(self._log_failure)
        await self._commit_queue.settled(partitions, timeout_s=timeout_s)

    def _log_failure(self, done: asyncio.Future[None]) -> None:
        error = None if done.cancelled() else done.exception()
        if isinstance(error, QuorateError):
            log.warning("commit_failed", group=self._link.group, code=error.code, error=error.message)

    # -- what is committed

    async def committed(
        self, names: Sequence[tuple[str, int]], *, timeout_s: float
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        partitions = [await self.identify(check_partition_argument(name), timeout_s) for name in names]
        found = await fetch_committed(self._link, partitions, timeout_s=timeout_s)
        return {partition.name: offset for partition, offset in found.items()}

    async def identify(self, name: TopicPartition, timeout_s: float) -> GroupPartition:
        partition = self._assigned_as(name)
        if partition is not None:
            return partition
        topic = await self._cluster.topic_with(name, timeout_s=timeout_s)
        return GroupPartition(topic.topic_id, topic.name, name.partition)


def partition_of(reader: PartitionReader) -> GroupPartition | None:
    """None: the id of its topic is not known yet."""
    if reader.topic_id is None:
        return None
    return GroupPartition(TopicId(reader.topic_id), *reader.topic_partition)
