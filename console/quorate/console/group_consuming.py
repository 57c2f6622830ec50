"""Records to lines, as a member of a group: what ``quorate consume --group`` does.

At least once: what is committed was written out and flushed before. Commits name offsets, those behind what
was printed. The consumer's own positions would also count what was polled and is not printed, because
standard output is gone or because it lies beyond ``--exit-at-end``. One commit is under way at a time; the
next one takes all that was printed meanwhile.

A partition is given up after what was printed of it is committed, and so is everything at the end. An end is
also Ctrl-C: the task is cancelled where it waits, and it does not wait between printing and committing.

With ``--exit-at-end`` the whole group has to come to where the partitions ended: of those that others read,
what they have committed is looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final

from quorate.client import AsyncAdmin, AsyncConsumer, OffsetAndMetadata, TopicPartition
from quorate.console.advice import AdvisedError
from quorate.console.connecting import Clients, with_clients
from quorate.console.consuming import POLL_S, out_of_range
from quorate.console.group_documents import partitions_text
from quorate.console.offset_choices import OffsetChoice
from quorate.console.partition_check import partitions_of
from quorate.console.record_output import RecordOutput, partition_of
from quorate.console.session import Session
from quorate.console.silence import Silence
from quorate.errors import (
    FencedMemberEpoch,
    InvalidRequest,
    LogTruncated,
    OffsetOutOfRange,
    QuorateError,
    StaleMemberEpoch,
    UnknownMember,
    UnknownTopicOrPartition,
)

__all__ = ["GroupConsumeOptions", "consume_in_group"]

#: what a member calls itself, for people who look at the group
_CLIENT_ID: Final = "quorate-consume"
#: Whoever leaves or gives up a partition waits no longer for its last commit.
_LAST_COMMIT_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class GroupConsumeOptions:
    group: str
    topic: str
    #: where a partition without a committed offset begins; None: nothing was said
    start: OffsetChoice | None
    records_max: int | None
    exit_at_end: bool


def consume_in_group(session: Session, options: GroupConsumeOptions) -> None:
    reset = f"quorate group reset {options.group} --topic {options.topic} --to"
    try:
        with_clients(session.bootstrap, _GroupReading(session, options).run)
    except OffsetOutOfRange as error:
        advice = f"move the group to where there are records, as with `{reset} earliest --execute`"
        raise out_of_range(error, advice) from error
    except LogTruncated as error:
        advice = f"records that the group has read are gone; decide where it goes on: `{reset} …`"
        raise AdvisedError(error, advice) from error


class _GroupReading:
    def __init__(self, session: Session, options: GroupConsumeOptions) -> None:
        self._session = session
        self._options = options
        self._output = RecordOutput(session, records_max=options.records_max)
        #: what is printed and flushed, and not known to be committed
        self._printed: dict[tuple[str, int], OffsetAndMetadata] = {}
        self._is_committing = False
        #: partitions that begin where --from says, unless somebody commits there first
        self._unbegun: set[TopicPartition] = set()
        #: nobody needs to hear what is given up at the end
        self._is_ending = False
        #: of partitions that the group has not come to the end of; None: it is not asked to
        self._ends: dict[TopicPartition, int] | None = None

    async def run(self, clients: Clients) -> None:
        options = self._options
        async with AsyncExitStack() as stack:
            self._admin = admin = await stack.enter_async_context(clients.admin())
            topic = await admin.describe_topic(options.topic)
            partitions = partitions_of(topic)
            if options.start is not None:
                await self._check_start(admin, partitions)
            if options.exit_at_end:
                self._ends = await _ends(admin, partitions)
            is_at_end = options.start is not None and options.start.kind == "end"
            consumer = clients.consumer(
                group=options.group,
                auto_offset_reset="latest" if is_at_end else "earliest",
                client_id=_CLIENT_ID,
            )
            self._consumer: AsyncConsumer = consumer
            consumer.subscribe(
                [topic.name], on_assigned=self._assigned, on_revoked=self._revoked, on_lost=self._lost
            )
            await stack.enter_async_context(consumer)
            silence = Silence(self._session)
            try:
                while not self._output.is_enough and not await self._is_at_end():
                    await self._read(silence)
            finally:
                self._is_ending = True
            await self._commit_the_rest()

    # -- where to begin

    async def _check_start(self, admin: AsyncAdmin, partitions: Sequence[TopicPartition]) -> None:
        """--from is refused where nothing would come of it."""
        group, topic, start = self._options.group, self._options.topic, self._options.start
        assert start is not None
        committed = await admin.list_group_offsets(group)
        begun = [each for each in partitions if each in committed]
        self._unbegun = set(partitions) - set(begun)
        if not self._unbegun:
            why = f"{group} has committed offsets in every partition of {topic}, and goes on there"
        elif begun and start.kind == "end":
            # As `auto_offset_reset` has it: what came after the group began is new, and is not skipped.
            why = f"{group} has begun with {topic}: where it has no offset it reads from the beginning"
        else:
            return
        raise AdvisedError(
            InvalidRequest(f"--from says where a group begins; {why}"),
            f"leave --from out, or move the group: `quorate group reset {group} --topic {topic} --to …`",
        )

    async def _assigned(self, partitions: list[TopicPartition]) -> None:
        self._tell_assignment()
        if self._ends is not None:
            # The group has come to the end of these, or they are new.
            for each in partitions:
                if each not in self._ends:
                    self._consumer.pause(each)
        await self._begin([each for each in partitions if each in self._unbegun])

    async def _begin(self, new: Sequence[TopicPartition]) -> None:
        """Where --from says, and that is committed before the first record: else it would be forgotten if
        none comes, and the group would read from the beginning the next time."""
        start = self._options.start
        if start is None or start.kind not in ("offset", "time") or not new:
            return
        committed = await self._consumer.committed_offsets(*new)
        unbegun = [each for each in new if each not in committed]
        if not unbegun:
            return
        first, last = [await self._admin.list_offsets(unbegun, at) for at in ("earliest", "latest")]
        if start.kind == "offset":
            begins = dict.fromkeys(unbegun, start.value)
        else:
            # Asked after the end: where no record is that late yet, the first one to come will be.
            found = await self._admin.list_offsets(unbegun, start.value)
            begins = {each: _known(found[each].offset, last[each].offset) for each in unbegun}
        for each, offset in begins.items():
            self._consumer.seek(each, offset)
        offsets: dict[tuple[str, int], int | OffsetAndMetadata] = {
            each: offset
            for each, offset in begins.items()
            # One that the log does not hold is told by the next poll; the group does not stand there.
            if start.kind == "time" or _known(first[each].offset) <= offset <= _known(last[each].offset)
        }
        try:
            await self._consumer.commit(offsets)
        except _LOST as error:
            self._tell_of_repetition(offsets, error)

    # -- reading

    async def _read(self, silence: Silence) -> None:
        consumer = self._consumer
        records = await consumer.poll(self._output.wanted, timeout=POLL_S)
        done: dict[tuple[str, int], OffsetAndMetadata] = {}
        for record in records:
            partition = partition_of(record)
            if self._ends is None or record.offset < self._ends.get(partition, 0):
                self._output.print(record)
                done[partition] = OffsetAndMetadata.after(record)
        self._output.flush()
        self._printed |= done
        self._commit()
        if set(consumer.assignment()) - set(consumer.paused()):
            silence.look(consumer.statistics().fetches, has_read=bool(records))
        elif silence.has_nothing_to_read():
            self._session.note(await self._why_idle())

    async def _why_idle(self) -> str:
        group, topic = self._options.group, self._options.topic
        try:
            await self._admin.describe_topic(topic)
        except UnknownTopicOrPartition:
            return f"there is no topic {topic} any more; it is waited for, and read once it is made anew"
        except QuorateError as error:
            return f"nothing to read for this member, and the cluster cannot be asked why ({error.code})"
        return f"nothing to read for this member; `quorate group describe {group}` shows who reads what"

    async def _is_at_end(self) -> bool:
        if self._ends is None:
            return False
        mine = self._consumer.assignment()
        for partition in mine:
            end = self._ends.get(partition)
            if end is not None and await self._consumer.position(partition) >= end:
                self._finish(partition)
        if self._ends.keys().isdisjoint(mine):
            theirs = await self._consumer.committed_offsets(*self._ends) if self._ends else {}
            for partition, committed in theirs.items():
                if committed.offset >= self._ends[partition]:
                    del self._ends[partition]
        return not self._ends

    def _finish(self, partition: TopicPartition) -> None:
        assert self._ends is not None
        self._consumer.pause(partition)  # what was written behind the end since is not asked for
        self._ends.pop(partition)

    # -- committing

    def _commit(self) -> None:
        if self._is_committing or not self._printed:
            return
        try:
            self._consumer.commit_async(dict(self._printed), self._committed)
        except FencedMemberEpoch:
            return  # one of them was lost: the next poll says which, and the others are committed after it
        self._is_committing = True

    def _committed(
        self, offsets: dict[TopicPartition, OffsetAndMetadata], error: QuorateError | None
    ) -> None:
        self._is_committing = False
        if error is None:
            for partition, committed in offsets.items():
                if partition in self._printed and self._printed[partition].offset == committed.offset:
                    del self._printed[partition]
        elif not error.retriable and not isinstance(error, _LOST):
            raise error

    async def _commit_the_rest(self) -> None:
        try:
            await self._consumer.commit(dict(self._printed))
        except _LOST as error:
            self._tell_of_repetition(self._printed, error)
        self._printed.clear()

    async def _revoked(self, partitions: list[TopicPartition]) -> None:
        """Also of all of them, when the consumer is closed."""
        offsets: dict[tuple[str, int], OffsetAndMetadata] = {
            each: self._printed.pop(each) for each in partitions if each in self._printed
        }
        try:
            await self._consumer.commit(offsets, timeout=_LAST_COMMIT_S)
        except QuorateError as error:
            self._tell_of_repetition(offsets, error)
        if not self._is_ending:
            self._tell_assignment(given_up=partitions)

    def _tell_assignment(self, given_up: Sequence[TopicPartition] = ()) -> None:
        """All of it, after each change: what came and went does not add up in one's head."""
        held = set(self._consumer.assignment()).difference(given_up)
        gone = f" (given up: {partitions_text(given_up)})" if given_up else ""
        self._session.note(f"now reads {partitions_text(held) or 'nothing'}{gone}")

    def _lost(self, partitions: list[TopicPartition]) -> None:
        lost = [each for each in partitions if self._printed.pop(each, None) is not None]
        self._session.note(f"lost {partitions_text(partitions)}: the group has given this member up")
        self._tell_assignment()
        if lost:
            self._tell_of_repetition(lost, None)

    def _tell_of_repetition(self, partitions: Iterable[tuple[str, int]], error: QuorateError | None) -> None:
        why = "" if error is None else f" ({error.code}: {error.message})"
        self._session.note(
            f"not committed: the last records of {partitions_text(partitions)} will be read again{why}"
        )


#: The partition is another's by now: its records will be read again, and nothing is wrong.
_LOST: Final = (FencedMemberEpoch, StaleMemberEpoch, UnknownMember)


async def _ends(admin: AsyncAdmin, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
    """Of those that hold anything."""
    first, last = [await admin.list_offsets(partitions, at) for at in ("earliest", "latest")]
    return {
        each: end
        for each in partitions
        if (end := last[each].offset) is not None and end > (first[each].offset or 0)
    }


def _known(*offsets: int | None) -> int:
    return next((each for each in offsets if each is not None), 0)
