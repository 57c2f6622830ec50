"""Reads records from partitions, on the application's event loop.

Calls that need nobody's answer are plain functions and take effect at once; what has to wait is a coroutine.
One task uses a consumer at a time.

Without a group partitions are assigned by the application, or all partitions of ``topics`` are read. With
``group`` the members of the group share them; what that means for an application is in docs/consumers.md.
"""

from __future__ import annotations

import asyncio
import inspect
import random
import socket
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Self, Unpack

from quorate.client.arguments import check_seconds
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
from quorate.core.clock import Clock, SystemClock
from quorate.core.ids import TopicPartition
from quorate.core.records import ConsumerRecord
from quorate.core.transport import Transport
from quorate.errors import InvalidRequest

__all__ = ["AsyncConsumer"]


class AsyncConsumer:
    """Use as an asynchronous context manager, or close it. It begins to fetch with the first coroutine."""

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        *,
        topics: Sequence[str] | None = None,
        transport: Transport | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        **options: Unpack[OptionArguments],
    ) -> None:
        """What the options mean: `ConsumerOptions`. The transport, clock and rng are for simulations."""
        self._engine = ConsumerEngine(
            options_of("AsyncConsumer", options),
            transport or client_transport(),
            parse_bootstrap(bootstrap),
            topics or (),
            clock=clock or SystemClock(),
            rng=rng or random.Random(),
            make_id=partial(new_member_id, rng),
            # Nothing in a simulation may depend on the machine that it runs on.
            host="" if rng is not None else socket.gethostname(),
        )
        #: the task that polled last
        self._poller: asyncio.Task[Any] | None = None
        self._is_in_callback = False
        self._is_leaving = False

    async def __aenter__(self) -> Self:
        self._engine.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # -- which partitions

    def assign(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Read these, and no others; those that were assigned before keep their position.

        With a group that is not subscribed to anything: they begin where the group stands.
        """
        self._engine.assign(partitions)

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

        The callbacks are called inside polls, with the partitions: ``on_assigned`` before any of them is
        read, and it may seek; ``on_revoked`` before they are given up, and it may commit; ``on_lost`` when
        they are another's already (without it, ``on_revoked`` is called then, too). They may be coroutine
        functions.
        """
        self._engine.put_back()
        callbacks = RebalanceCallbacks(on_assigned, on_revoked, on_lost)
        self._engine.in_group().subscribe(subscription_of(topics, pattern, callbacks))

    async def unsubscribe(self) -> None:
        """Give everything up and leave the group, as ``close`` does."""
        self._engine.put_back()
        await self._leave(self._engine.in_group(), is_closing=False)

    def assignment(self) -> list[TopicPartition]:
        return self._engine.assignment()

    def membership(self) -> Membership | None:
        """In the group, as of the coordinator's last answer; None: it is not a member now."""
        return self._engine.in_group().membership

    def pause(self, *partitions: tuple[str, int]) -> None:
        """Hand out no records of these, and fetch none; no partition given: all that are assigned."""
        self._engine.pause(partitions)

    def resume(self, *partitions: tuple[str, int]) -> None:
        self._engine.resume(partitions)

    def paused(self) -> list[TopicPartition]:
        return self._engine.paused()

    # -- where in them

    def seek(self, partition: tuple[str, int], offset: int, *, leader_epoch: int | None = None) -> None:
        """Go on at ``offset``.

        With the leader epoch of the record before it, as kept from when it was read, the position is checked
        before it is used: `LogTruncated` if what was read is no longer there.
        """
        self._engine.seek(partition, offset, leader_epoch)

    def seek_to_beginning(self, *partitions: tuple[str, int]) -> None:
        """No partition given: all that are assigned, and all of ``topics`` that are still to be found."""
        self._engine.seek_to(partitions, BEGINNING)

    def seek_to_end(self, *partitions: tuple[str, int]) -> None:
        """Behind the last committed record, as of when the leader is asked. None given: as above."""
        self._engine.seek_to(partitions, END)

    def seek_to_time(self, partition: tuple[str, int], timestamp_ms: int) -> None:
        """To the first record of that time or later; to the end if there is none."""
        self._engine.seek_to([partition], at_time(timestamp_ms))

    async def position(self, partition: tuple[str, int], *, timeout: float = 30.0) -> int:  # noqa: ASYNC109
        """The offset of the next record that a poll will bring of this partition."""
        return await self._engine.position(partition, timeout)

    def lag(self) -> dict[TopicPartition, int | None]:
        """Committed records that are not polled yet, as of the last answers; None: not known yet."""
        return self._engine.lag()

    # -- how far the group has come

    async def commit(
        self,
        offsets: Mapping[tuple[str, int], int | OffsetAndMetadata] | None = None,
        *,
        timeout: float = 30.0,  # noqa: ASYNC109 - as in Consumer
    ) -> None:
        """All positions, or these offsets, each that of the next record to read. Returns when they are kept.

        Raises what kept one of them from being committed: `FencedMemberEpoch` or `UnknownMember` when the
        partition is another's by now. Time-outs and the like leave open whether it is committed.
        """
        self._engine.put_back()
        self._engine.start()
        await self._engine.committed_by().commit(offsets, timeout_s=timeout)

    def commit_async(
        self,
        offsets: Mapping[tuple[str, int], int | OffsetAndMetadata] | None = None,
        on_commit: CommitCallback | None = None,
    ) -> None:
        """The same without waiting, after all commits before it. ``on_commit`` is called in a later poll."""
        self._engine.put_back()
        self._engine.start()
        self._engine.committed_by().commit_soon(offsets, on_commit)

    async def committed(self, partition: tuple[str, int], *, timeout: float = 30.0) -> int | None:  # noqa: ASYNC109
        """The offset at which the group goes on in any partition; None: nothing is committed."""
        found = await self.committed_offsets(partition, timeout=timeout)
        return next((each.offset for each in found.values()), None)

    async def committed_offsets(
        self,
        *partitions: tuple[str, int],
        timeout: float = 30.0,  # noqa: ASYNC109 - as in Consumer
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """The same of several, with metadata, where something is committed. None given: all assigned."""
        self._engine.put_back()
        self._engine.start()
        names = partitions or self._engine.assignment()
        return await self._engine.committed_by().committed(names, timeout_s=timeout)

    # -- records

    async def poll(self, max_records: int = 500, timeout: float = 1.0) -> list[ConsumerRecord]:  # noqa: ASYNC109
        """At most so many records; none if none came in time. Raises what has befallen a partition.

        A partition whose records were lost (`LogTruncated`, `OffsetOutOfRange`), or whose topic is gone, says
        so again and again, until it is sought or no longer assigned. The others go on meanwhile.
        """
        check_seconds("timeout", timeout)
        self._engine.put_back()
        return await self._poll(max_records, timeout)

    async def _poll(self, max_records: int, timeout: float) -> list[ConsumerRecord]:  # noqa: ASYNC109
        engine = self._engine
        engine.start()
        # Also an application that always finds records here has to let the next ones be fetched.
        await asyncio.sleep(0)
        if engine.group is not None:
            with engine.group.pace.polling():
                return await self._poll_in_group(
                    engine.group, max_records, engine.clock.monotonic() + timeout
                )
        records = engine.take(max_records, is_patient=True)
        if not records and timeout > 0:
            await engine.wait(timeout)
        return records or engine.take(max_records)

    async def _poll_in_group(
        self, group: GroupSession, max_records: int, deadline: float
    ) -> list[ConsumerRecord]:
        engine = self._engine
        engine.ahead.came_back()
        self._poller = asyncio.current_task()
        while True:
            if group.is_wanted:
                await self._attend(group)
            records = engine.take(max_records, is_patient=True)
            remaining_s = deadline - engine.clock.monotonic()
            if records or remaining_s <= 0:
                return records or engine.take(max_records)
            await engine.wait(remaining_s)

    async def _attend(self, group: GroupSession, *, is_last: bool = False) -> None:
        """What has changed in the group, and commits that are over: one thing after the other."""
        if self._is_in_callback:
            raise InvalidRequest("a callback of the consumer must not poll, unsubscribe or close")
        while (step := group.next_step(is_last=is_last)) is not None:
            is_done = False
            self._is_in_callback = True
            try:
                returned = step.call()
                if inspect.isawaitable(returned):
                    await returned
                is_done = True
            finally:
                self._is_in_callback = False
                await group.finish(step, is_done=is_done)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord:
        ahead = self._engine.ahead
        while (record := ahead.next()) is None:
            self._engine.put_back()
            ahead.fill(await self._poll(ITERATION_RECORDS, ITERATION_STEP_S))
        return record

    def record_id(self, record: ConsumerRecord) -> RecordId:
        """Its one name, to recognise it by when it comes again; until the next poll."""
        return self._engine.record_id(record)

    def statistics(self) -> ConsumerStatistics:
        return self._engine.statistics()

    # -- life

    async def close(self) -> None:
        """Records that were not polled stay in the log; closing twice is harmless.

        A member calls ``on_revoked``, commits if it does so by itself, and leaves the group. What was handed
        out last counts as processed; but not while an exception is on its way, nor if it was handed to
        another task that is at work, was cancelled, or has failed.
        """
        if self._is_leaving:
            return
        group = self._engine.group
        try:
            if group is not None and self._engine.is_open:
                self._is_leaving = True
                await self._leave(group, is_closing=True)
        finally:
            self._is_leaving = False
            await self._engine.close()

    async def _leave(self, group: GroupSession, *, is_closing: bool) -> None:
        if sys.exception() is not None or self._is_at_work():
            self._engine.unread()
        self._engine.ahead.put_back()
        try:
            await self._attend(group, is_last=True)
        finally:
            await group.leave(is_closing=is_closing)

    def _is_at_work(self) -> bool:
        """Whether the task that polled last is not done with what it got, or never will be."""
        poller = self._poller
        if poller is None or poller is asyncio.current_task():
            return False
        return not poller.done() or poller.cancelled() or poller.exception() is not None
