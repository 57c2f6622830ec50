"""One partition of the topic of offsets while this broker leads it: its groups, their log, and its end.

*Memory is the log up to its end.* A decision is made on what is in memory, its records are appended, and
then applied to memory, all in one turn of the loop. An append that is refused has changed nothing, and one
that was made is in the log for as long as this leadership lasts, for a leader never cuts its own log. So
there is nothing to undo, ever. Rejected: to apply what is committed. Every decision would rest on a state
that is one round trip old, or wait for the one before it.

*What leaves is committed.* An answer waits until everything up to the end of the log is, as that was when
the answer was made; a look at memory as much as a change of it, for what was looked at may still be on its
way (rule 56). Then this broker has to be the coordinator still, and to hold its lease (rule 37): one that
was replaced and does not know would answer with offsets that others have moved on since.

*With the leadership everything ends.* Whoever waits is told to look for the coordinator again. Who had
something appended is told that its fate is unknown (rule 19): the next coordinator may find it. The same
happens if an append fails and the log has grown all the same, though nothing should make it: then only the
log knows what holds, and it is loaded again (rule 54).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from quorate.broker.controller_link.lease import fenced
from quorate.broker.groups.batches import batches_of
from quorate.broker.groups.context import GroupContext
from quorate.broker.groups.group import Groups
from quorate.broker.groups.loading import load
from quorate.broker.groups.member import Member
from quorate.broker.groups.member_clocks import MemberKey
from quorate.broker.groups.records import GroupRecord
from quorate.broker.groups.revisions import Revision
from quorate.broker.handlers.client_errors import appended_while_fenced
from quorate.broker.replica.leadership import Leadership
from quorate.broker.replica.news import News
from quorate.broker.replica.partition import Partition
from quorate.core.ids import Offset
from quorate.core.logging import get_logger
from quorate.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    LeadershipError,
    QuorateError,
    Unavailable,
    copy_of,
)

__all__ = ["GroupShard", "MembersBefore"]

log = get_logger(__name__)

#: members that a decision was about, as they were before it; None: it was not one
MembersBefore = dict[MemberKey, Member | None]


class GroupShard:
    def __init__(self, replica: Partition, leadership: Leadership, context: GroupContext) -> None:
        """``leadership``: the replica's, at this moment."""
        self.number = replica.topic_partition.partition
        self.context = context
        self.groups = Groups()
        #: told of every decision that was carried out, when it is
        self.on_changed: Callable[[MembersBefore], None] = lambda _: None
        #: told when all is in memory
        self.on_loaded: Callable[[], None] = lambda: None
        #: told once
        self.on_ended: Callable[[], None] = lambda: None
        self._replica = replica
        self._leadership = leadership
        self._is_loaded = False
        self._is_ended = False
        #: why it could not be loaded
        self._failure: QuorateError | None = None
        # The leader follows nobody, so nobody else has this name there.
        leadership.wake_on_news(context.broker_id, self._on_news)

    def is_of(self, leadership: Leadership) -> bool:
        """Whether it may go on in it."""
        return self._leadership is leadership and not self._is_ended

    @property
    def is_loaded(self) -> bool:
        return self._is_loaded

    @property
    def is_ended(self) -> bool:
        return self._is_ended

    # -- its beginning and its end

    async def load(self) -> bool:
        """False: it failed, and has to be tried again."""
        began = self.context.clock.monotonic()
        end_offset = self._replica.log.log_end_offset
        try:
            groups = await load(self._leadership, end_offset)
        except QuorateError as error:
            if self._is_ended:
                return True
            log.error("groups_not_loaded", partition=self.number, code=error.code, error=error.message)
            self._failure = error
            return False
        if self._is_ended:
            return True
        assert self._replica.log.log_end_offset == end_offset, "nobody else appends here"
        self.groups = groups
        self._failure = None
        self._is_loaded = True
        seconds = round(self.context.clock.monotonic() - began, 3)
        log.info("groups_loaded", partition=self.number, groups=len(groups), seconds=seconds)
        self.on_loaded()
        return True

    def check_loaded(self) -> None:
        """Rule 63: before everything is, nothing is known, least of all that something is not there."""
        if self._is_ended:
            raise self.context.not_coordinator(self.number)
        if self._is_loaded:
            return
        if self._failure is not None:
            raise CoordinatorNotAvailable(self._failure.message, **self._failure.facts)
        raise CoordinatorLoadInProgress(
            f"the groups of partition {self.number} are being loaded", partition=self.number
        )

    def _on_news(self, news: News) -> None:
        if news is News.ENDED:
            self.end()

    def end(self) -> None:
        """What it knows counts no longer."""
        if self._is_ended:
            return
        self._is_ended = True
        self._leadership.forget(self.context.broker_id)
        if self._is_loaded:
            log.info("groups_unloaded", partition=self.number, groups=len(self.groups))
        self.on_ended()
        self.groups = Groups()

    # -- changing

    def carry_out(self, records: Sequence[GroupRecord]) -> None:
        """Append, then apply. What is raised has changed nothing, unless it says that this is not known."""
        self.check_loaded()
        if not records:
            return
        now_ms = self.context.clock.wall_ms()
        batches = batches_of(records, now_ms=now_ms, bytes_max=self.context.batch_bytes_max())
        before: MembersBefore = {}
        for place, (piece, batch) in enumerate(batches):
            try:
                base_offset = self._append(batch)
            except QuorateError as error:
                if not place:
                    raise
                # Only offsets are spread over several batches, so nothing is half done but the request.
                raise Unavailable(f"a part was appended, then: {error.message}", cause=error.code) from error
            self._apply(piece, base_offset, before)
        if before:
            self.on_changed(before)

    def _append(self, batch: bytes) -> Offset:
        """Where it begins."""
        end_offset = self._replica.log.log_end_offset
        try:
            return self._leadership.append(batch, acks_all=True).base_offset
        except LeadershipError:
            # Nothing was appended.
            raise self.context.not_coordinator(self.number) from None
        except QuorateError:
            if self._replica.log.log_end_offset != end_offset:
                self.end()
            raise

    def _apply(self, records: Sequence[GroupRecord], base_offset: Offset, before: MembersBefore) -> None:
        try:
            for offset, record in enumerate(records, base_offset):
                self._note_member(record, before)
                self.groups.apply(record, Revision(self._leadership.epoch, offset))
        except BaseException:
            # A bug of ours. Memory is not what the log says any more: nothing may be answered from it.
            self.end()
            raise

    def _note_member(self, record: GroupRecord, before: MembersBefore) -> None:
        if record.key.WhichOneof("about") == "member_id":
            key = MemberKey(record.key.group, record.key.member_id)
            group = self.groups.get(key.group)
            before.setdefault(key, None if group is None else group.members.get(key.member_id))

    # -- answering

    @property
    def revision(self) -> Revision:
        """Of an answer that is made now."""
        return Revision(self._leadership.epoch, self._replica.log.log_end_offset)

    @asynccontextmanager
    async def answering(self) -> AsyncIterator[None]:
        """Around a decision, its records and the making of its answer, in one turn of the loop.

        It ends when the answer may leave, and a refusal is one too: what it rests on could be on its way.
        """
        end_offset = self._replica.log.log_end_offset
        try:
            yield
        except QuorateError as error:
            await self.committed(is_appended=error.outcome_unknown)
            raise
        await self.committed(is_appended=self._replica.log.log_end_offset > end_offset)

    async def committed(self, *, is_appended: bool) -> None:
        """Returns when an answer that rests on memory as it is now may leave, and it has to leave at once.

        ``is_appended``: the caller has had something appended, and must not be told that it was not.
        """
        end_offset = self._replica.log.log_end_offset
        try:
            await self._wait_for_commit(end_offset)
        except QuorateError as error:
            raise self._not_confirmed(error, is_appended=is_appended) from error
        if self._is_ended:
            raise self._not_confirmed(None, is_appended=is_appended)
        if not self.context.hosted.lease.is_valid:
            raise appended_while_fenced() if is_appended else fenced()

    async def _wait_for_commit(self, end_offset: Offset) -> None:
        done: asyncio.Future[QuorateError | None] = asyncio.get_running_loop().create_future()

        def tell(error: QuorateError | None) -> None:
            if not done.done():
                done.set_result(error)

        waiter = self._leadership.when_committed(end_offset, tell)
        if waiter is None:
            return
        try:
            error = await done
        finally:
            waiter.cancel()
        if error is not None:
            raise copy_of(error)

    def _not_confirmed(self, error: QuorateError | None, *, is_appended: bool) -> QuorateError:
        if self._is_ended:
            elsewhere = self.context.not_coordinator(self.number)
            if not is_appended:
                return elsewhere
            return Unavailable(f"appended, but not known to be committed: {elsewhere.message}")
        assert error is not None
        if is_appended:
            return copy_of(error)
        return CoordinatorNotAvailable(
            f"what was committed before cannot be confirmed right now: {error.message}", cause=error.code
        )
