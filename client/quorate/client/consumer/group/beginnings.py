"""Where a member begins in what it is given: where the group stands, or else where `origin` says.

Each round asks the coordinator about all partitions that are new, in the member's name: one that the group
has gone past is refused (`STALE_MEMBER_EPOCH`), and asks again after it has heard what has changed. An answer
counts for the `Tenure` that it was asked for in: one that comes after the partition was away and is new again
is from before others have read on, and with "latest" would even have the group begin at the end once more. So
an offset that is used here was read while the partition was this member's, after whoever had it before had
given it up with its last commit.

Where nothing is committed and the group begins at the end, that end is looked up by a reader that is held
back from fetching, and committed. Only then is the partition ready.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol

from quorate.client.consumer.fetching import start_for
from quorate.client.consumer.group.commit_queue import CommitQueue
from quorate.client.consumer.group.heartbeats import GroupEvents
from quorate.client.consumer.group.member import Hold, Identity, Member
from quorate.client.consumer.group.origin import GroupOrigin
from quorate.client.consumer.parts import ConsumerParts
from quorate.client.consumer.positions import BEGINNING, END, PartitionReader, Position
from quorate.client.groups.committed import fetch_committed
from quorate.client.groups.coordinator import CoordinatorLink
from quorate.client.groups.offsets import OffsetAndMetadata
from quorate.client.groups.partitions import GroupPartition
from quorate.core.backoff import Backoff
from quorate.core.ids import TopicId, TopicName
from quorate.core.logging import get_logger
from quorate.errors import FencedMemberEpoch, QuorateError, StaleMemberEpoch, UnknownMember, copy_of

__all__ = ["BeginningEvents", "Beginnings"]

log = get_logger(__name__)

_PAUSE_S_MAX: Final = 5.0
#: Readers are looked at that often, also if nothing wakes who waits for them.
_LOOK_S: Final = 1.0


class BeginningEvents(GroupEvents, Protocol):
    def began(self, readers: Mapping[GroupPartition, PartitionReader]) -> None:
        """It is known where to begin in these."""
        ...

    def epoch_is_stale(self) -> None: ...


class Beginnings:
    """``run`` for as long as the consumer lives."""

    def __init__(
        self,
        parts: ConsumerParts,
        member: Member,
        link: CoordinatorLink,
        commit_queue: CommitQueue,
        events: BeginningEvents,
        *,
        origin: Callable[[], GroupOrigin | None],
    ) -> None:
        self._member = member
        self._link = link
        self._commit_queue = commit_queue
        self._fetching = parts.fetching
        self._events = events
        self._reset = parts.options.auto_offset_reset
        self._origin = origin
        self._clock = parts.clock
        self._backoff = Backoff(parts.rng, pause_s_max=_PAUSE_S_MAX)
        self._timeout_s = parts.timeout_s
        self._wake = asyncio.Event()
        #: whose end is being looked up and committed
        self._pinning: dict[GroupPartition, PartitionReader] = {}
        #: the topic of that name that was read last
        self._known_ids: dict[TopicName, TopicId] = {}

    def wake(self) -> None:
        """There may be new partitions."""
        self._wake.set()

    def withdraw(self, partitions: Iterable[GroupPartition]) -> None:
        """They are not this member's any more."""
        for each in partitions:
            reader = self._pinning.pop(each, None)
            if reader is not None:
                self._fetching.remove(reader)

    def withdraw_all(self) -> None:
        self.withdraw(list(self._pinning))

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            while True:
                self._wake.clear()
                partitions = [each for each in self._member.held(Hold.NEW) if each not in self._pinning]
                identity = self._member.identity
                if identity is not None and partitions:
                    await self._begin(partitions, identity, tasks)
                else:
                    await self._wake.wait()

    async def _begin(
        self, partitions: Sequence[GroupPartition], identity: Identity, tasks: asyncio.TaskGroup
    ) -> None:
        tenures = {each: self._member.tenure_of(each) for each in partitions}
        try:
            committed = await fetch_committed(
                self._link, partitions, member=(identity.member_id, identity.epoch), timeout_s=self._timeout_s
            )
        except QuorateError as error:
            await self._failed(error, identity)
            return
        self._backoff.reset()
        still_new = [each for each in partitions if self._member.tenure_of(each, Hold.NEW) == tenures[each]]
        readers = {each: self._reader(each, committed.get(each)) for each in still_new}
        to_pin = {each: reader for each, reader in readers.items() if reader.start == END}
        if to_pin:
            self._pinning |= to_pin
            for reader in to_pin.values():
                # Now, and not in the task: it may be withdrawn before that runs.
                reader.is_held_back = True
                self._fetching.add(reader)
            tasks.create_task(self._pin(to_pin, identity))
        self._events.began({each: reader for each, reader in readers.items() if each not in to_pin})

    async def _failed(self, error: QuorateError, identity: Identity) -> None:
        if isinstance(error, UnknownMember | FencedMemberEpoch):
            self._events.membership_lost(identity, error)
            return
        if isinstance(error, StaleMemberEpoch):
            self._events.epoch_is_stale()
        elif not error.retriable:
            self._events.refused(error)
        await self._clock.sleep(self._backoff.next_s())

    def _reader(self, partition: GroupPartition, committed: OffsetAndMetadata | None) -> PartitionReader:
        self._note_topic(partition)
        reader = PartitionReader(partition.name, None, group_topic_id=partition.topic_id)
        if committed is not None:
            reader.seek(Position(committed.offset, committed.leader_epoch))
            return reader
        start = start_for(self._reset)
        origin = self._origin()
        if start == END and (origin is None or origin.is_newer(partition)):
            log.info("partition_is_new", group=self._link.group, partition=str(partition))
            start = BEGINNING
        if start is not None:
            reader.seek_to(start)
        return reader

    def _note_topic(self, partition: GroupPartition) -> None:
        before = self._known_ids.get(partition.topic)
        if before is not None and before != partition.topic_id:
            log.warning(
                "topic_recreated",
                group=self._link.group,
                topic=partition.topic,
                topic_id_before=before,
                topic_id=partition.topic_id,
            )
        self._known_ids[partition.topic] = partition.topic_id

    # -- the end as the beginning

    async def _pin(self, readers: Mapping[GroupPartition, PartitionReader], identity: Identity) -> None:
        """Each is ready as soon as its end is committed, whatever becomes of the others."""
        looked_up: set[GroupPartition] = set()
        async with asyncio.TaskGroup() as tasks:
            while waiting := [
                each for each in self._still_pinning(readers, identity) if each not in looked_up
            ]:
                known = {each: readers[each] for each in waiting if readers[each].position is not None}
                if known:
                    looked_up |= known.keys()
                    tasks.create_task(self._commit_ends(known, identity))
                    continue
                await self._look_again(
                    [readers[each] for each in waiting if readers[each].failure is not None]
                )
                await self._fetching.progress(_LOOK_S)

    async def _look_again(self, failed: Sequence[PartitionReader]) -> None:
        """No leader may refuse to say where its log ends; if one does, that is to be heard."""
        for reader in failed:
            assert reader.failure is not None
            self._events.refused(copy_of(reader.failure))
        if failed:
            await self._clock.sleep(self._backoff.next_s())
        for reader in failed:
            if reader in self._pinning.values():
                self._fetching.remove(reader)
                reader.seek_to(END)
                self._fetching.add(reader)

    def _still_pinning(
        self, readers: Mapping[GroupPartition, PartitionReader], identity: Identity
    ) -> list[GroupPartition]:
        """Not taken away, and not another incarnation's."""
        if not self._member.is_current(identity):
            return []
        return [each for each, reader in readers.items() if self._pinning.get(each) is reader]

    async def _commit_ends(
        self, readers: Mapping[GroupPartition, PartitionReader], identity: Identity
    ) -> None:
        while still := self._still_pinning(readers, identity):
            # Without an epoch: it would be that of a leader, who may not have written anything in it.
            ends = {each: OffsetAndMetadata(_offset(readers[each])) for each in still}
            try:
                tenures = {each: self._member.tenure_of(each) for each in still}
                await self._commit_queue.submit(ends, tenures, timeout_s=self._timeout_s)
            except QuorateError as error:
                has_changed = self._still_pinning(readers, identity) != still
                await self._end_refused(error, has_changed=has_changed)
            else:
                self._pinned({each: readers[each] for each in self._still_pinning(readers, identity)})

    async def _end_refused(self, error: QuorateError, *, has_changed: bool) -> None:
        """``has_changed``: one was taken away meanwhile. That is refused, and says nothing of the others."""
        log.warning("start_not_committed", group=self._link.group, code=error.code, error=error.message)
        if not error.retriable and not has_changed:
            self._events.refused(error)
        await self._clock.sleep(self._backoff.next_s())

    def _pinned(self, readers: Mapping[GroupPartition, PartitionReader]) -> None:
        for each, reader in readers.items():
            del self._pinning[each]
            self._fetching.remove(reader)
            reader.is_held_back = False
            reader.seek(Position(_offset(reader), None))
        self._events.began(readers)


def _offset(reader: PartitionReader) -> int:
    assert reader.position is not None
    return reader.position.offset
