"""Reads records from partitions, from an ordinary thread.

Fetching goes on in the process's background loop. A poll takes and decodes what lies ready on the caller's
own thread, and crosses over to the loop only to wait. One thread uses a consumer at a time.
"""

from __future__ import annotations

import random
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import ParamSpec, Self, TypeVar, Unpack

from quorate.client.arguments import check_seconds
from quorate.client.background import BackgroundLoop
from quorate.client.bootstrap import parse_bootstrap
from quorate.client.consumer.engine import ConsumerEngine
from quorate.client.consumer.group.commit_policy import CommitCallback
from quorate.client.consumer.group.session import GroupSession
from quorate.client.consumer.group.subscription import (
    RebalanceCallback,
    RebalanceCallbacks,
    subscription_of,
)
from quorate.client.consumer.iteration import ITERATION_RECORDS, ITERATION_STEP_S
from quorate.client.consumer.options import OptionArguments, options_of
from quorate.client.consumer.positions import BEGINNING, END, at_time
from quorate.client.consumer.statistics import ConsumerStatistics
from quorate.client.groups.membership import Membership, new_member_id
from quorate.client.groups.offsets import OffsetAndMetadata
from quorate.client.record_ids import RecordId
from quorate.client.transport import client_transport
from quorate.core.clock import SystemClock
from quorate.core.ids import TopicPartition
from quorate.core.records import ConsumerRecord
from quorate.core.transport import Transport
from quorate.errors import ClientClosed, InvalidRequest

__all__ = ["Consumer"]

P = ParamSpec("P")
T = TypeVar("T")


class Consumer:
    """Use as a context manager, or close it. It has the calls of `AsyncConsumer`, with the same meaning."""

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        *,
        topics: Sequence[str] | None = None,
        transport: Transport | None = None,
        **options: Unpack[OptionArguments],
    ) -> None:
        """What the options mean: `ConsumerOptions`."""
        self._engine = ConsumerEngine(
            options_of("Consumer", options),
            transport or client_transport(),
            parse_bootstrap(bootstrap),
            topics or (),
            clock=SystemClock(),
            rng=random.Random(),
            make_id=partial(new_member_id, None),
            host=socket.gethostname(),
        )
        self._is_closed = False
        #: the thread that polled last
        self._poller: threading.Thread | None = None
        self._is_leaving = False
        self._is_in_callback = False
        self._background = BackgroundLoop.acquire()
        self._on_loop(self._engine.start)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- which partitions

    def assign(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Read these, and no others; those that were assigned before keep their position."""
        self._on_loop(self._engine.assign, partitions)

    def subscribe(
        self,
        topics: Iterable[str] = (),
        *,
        pattern: str | None = None,
        on_assigned: RebalanceCallback | None = None,
        on_revoked: RebalanceCallback | None = None,
        on_lost: RebalanceCallback | None = None,
    ) -> None:
        """Share these topics with the other members of the group, in place of what was subscribed to before.

        The callbacks are called inside polls, on the thread that polls; what they are for:
        `AsyncConsumer.subscribe`.
        """
        self._check_open()
        callbacks = RebalanceCallbacks(on_assigned, on_revoked, on_lost)
        callbacks.refuse_coroutines()
        self._engine.put_back()
        group = self._engine.in_group()
        self._on_loop(group.subscribe, subscription_of(topics, pattern, callbacks))

    def unsubscribe(self) -> None:
        """Give everything up and leave the group, as ``close`` does."""
        self._check_open()
        self._engine.put_back()
        self._leave(self._engine.in_group(), is_closing=False)

    def assignment(self) -> list[TopicPartition]:
        return self._on_loop(self._engine.assignment)

    def membership(self) -> Membership | None:
        """In the group, as of the coordinator's last answer; None: it is not a member now."""
        group = self._engine.in_group()
        return self._on_loop(lambda: group.membership)

    def pause(self, *partitions: tuple[str, int]) -> None:
        """Hand out no records of these, and fetch none; no partition given: all that are assigned."""
        self._on_loop(self._engine.pause, partitions)

    def resume(self, *partitions: tuple[str, int]) -> None:
        self._on_loop(self._engine.resume, partitions)

    def paused(self) -> list[TopicPartition]:
        return self._on_loop(self._engine.paused)

    # -- where in them

    def seek(self, partition: tuple[str, int], offset: int, *, leader_epoch: int | None = None) -> None:
        """Go on at ``offset``; with the leader epoch of the record before it, that is checked first."""
        self._on_loop(self._engine.seek, partition, offset, leader_epoch)

    def seek_to_beginning(self, *partitions: tuple[str, int]) -> None:
        """No partition given: all."""
        self._on_loop(self._engine.seek_to, partitions, BEGINNING)

    def seek_to_end(self, *partitions: tuple[str, int]) -> None:
        """Behind the last committed record, as of when the leader is asked. No partition given: all."""
        self._on_loop(self._engine.seek_to, partitions, END)

    def seek_to_time(self, partition: tuple[str, int], timestamp_ms: int) -> None:
        """To the first record of that time or later; to the end if there is none."""
        self._on_loop(self._engine.seek_to, [partition], at_time(timestamp_ms))

    def position(self, partition: tuple[str, int], *, timeout: float = 30.0) -> int:
        """The offset of the next record that a poll will bring of this partition."""
        self._check_open()
        return self._background.call(self._engine.position(partition, timeout))

    def lag(self) -> dict[TopicPartition, int | None]:
        """Committed records that are not polled yet, as of the last answers; None: not known yet."""
        return self._on_loop(self._engine.lag)

    # -- how far the group has come

    def commit(
        self,
        offsets: Mapping[tuple[str, int], int | OffsetAndMetadata] | None = None,
        *,
        timeout: float = 30.0,
    ) -> None:
        """All positions, or these offsets, each that of the next record to read. Returns when they are kept.

        What it raises, and means: `AsyncConsumer.commit`.
        """
        self._check_open()
        self._engine.put_back()
        self._background.call(self._engine.committed_by().commit(offsets, timeout_s=timeout))

    def commit_async(
        self,
        offsets: Mapping[tuple[str, int], int | OffsetAndMetadata] | None = None,
        on_commit: CommitCallback | None = None,
    ) -> None:
        """The same without waiting, after all commits before it. ``on_commit`` is called in a later poll."""
        self._check_open()
        self._engine.put_back()
        self._on_loop(self._engine.committed_by().commit_soon, offsets, on_commit)

    def committed(self, partition: tuple[str, int], *, timeout: float = 30.0) -> int | None:
        """The offset at which the group goes on in any partition; None: nothing is committed."""
        found = self.committed_offsets(partition, timeout=timeout)
        return next((each.offset for each in found.values()), None)

    def committed_offsets(
        self,
        *partitions: tuple[str, int],
        timeout: float = 30.0,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """The same of several, with metadata, where something is committed. None given: all assigned."""
        names = partitions or self.assignment()
        return self._background.call(self._engine.committed_by().committed(names, timeout_s=timeout))

    # -- records

    def poll(self, max_records: int = 500, timeout: float = 1.0) -> list[ConsumerRecord]:
        """At most so many records; none if none came in time. Raises what has befallen a partition.

        A partition whose records were lost (`LogTruncated`, `OffsetOutOfRange`), or whose topic is gone, says
        so again and again, until it is sought or no longer assigned. The others go on meanwhile.
        """
        check_seconds("timeout", timeout)
        self._engine.put_back()
        return self._poll(max_records, timeout)

    def _poll(self, max_records: int, timeout: float) -> list[ConsumerRecord]:
        group = self._engine.group
        if group is not None:
            with group.pace.polling():
                return self._poll_in_group(group, max_records, self._engine.clock.monotonic() + timeout)
        records = self._engine.take(max_records, is_patient=True)
        if not records and timeout > 0:
            self._background.call(self._engine.wait(timeout))
        return records or self._engine.take(max_records)

    def _poll_in_group(self, group: GroupSession, max_records: int, deadline: float) -> list[ConsumerRecord]:
        engine = self._engine
        engine.ahead.came_back()
        self._poller = threading.current_thread()
        while True:
            if group.is_wanted:
                self._attend(group)
            records = engine.take(max_records, is_patient=True)
            remaining_s = deadline - engine.clock.monotonic()
            if records or remaining_s <= 0:
                return records or engine.take(max_records)
            self._background.call(engine.wait(remaining_s))

    def _attend(self, group: GroupSession, *, is_last: bool = False) -> None:
        """What has changed in the group, and commits that are over: one thing after the other."""
        if self._is_in_callback:
            raise InvalidRequest("a callback of the consumer must not poll, unsubscribe or close")
        while (step := self._on_loop(group.next_step, is_last=is_last)) is not None:
            is_done = False
            self._is_in_callback = True
            try:
                step.call_on_thread()
                is_done = True
            finally:
                self._is_in_callback = False
                self._background.call(group.finish(step, is_done=is_done))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ConsumerRecord:
        ahead = self._engine.ahead
        while (record := ahead.next()) is None:
            ahead.put_back()
            ahead.fill(self._poll(ITERATION_RECORDS, ITERATION_STEP_S))
        return record

    def record_id(self, record: ConsumerRecord) -> RecordId:
        """Its one name, to recognise it by when it comes again; until the next poll."""
        return self._engine.record_id(record)

    def statistics(self) -> ConsumerStatistics:
        return self._on_loop(self._engine.statistics)

    # -- life

    def close(self) -> None:
        """Records that were not polled stay in the log; closing twice is harmless.

        A member calls ``on_revoked``, commits if it does so by itself, and leaves the group. What was handed
        out last counts as processed; but not while an exception is on its way, nor if it was handed to
        another thread that is alive.
        """
        if self._is_closed or self._is_leaving:
            return
        self._is_leaving = True
        try:
            if self._engine.group is not None:
                self._leave(self._engine.group, is_closing=True)
        finally:
            self._is_closed = True
            try:
                self._background.call(self._engine.close())
            finally:
                self._background.release()

    def _leave(self, group: GroupSession, *, is_closing: bool) -> None:
        poller = self._poller
        is_at_work = poller is not None and poller is not threading.current_thread() and poller.is_alive()
        if sys.exception() is not None or is_at_work:
            self._engine.unread()
        self._engine.ahead.put_back()
        try:
            self._attend(group, is_last=True)
        finally:
            self._background.call(group.leave(is_closing=is_closing))

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClientClosed("the consumer was closed")

    def _on_loop(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call it on the background loop's thread, to which all state but the buffer belongs."""
        self._check_open()

        async def call() -> T:
            return function(*args, **kwargs)

        return self._background.call(call())
