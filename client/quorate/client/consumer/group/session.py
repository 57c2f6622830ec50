"""A consumer's part in its group: what the coordinator wants, and what the application is told of it, when.

Three parties, each at its own pace. The coordinator says which partitions are to be held (`Heartbeats`,
`Member`). The network says where to begin in them (`Beginnings`) and takes commits (`CommitQueue`). The
application polls, processes, and must not be surprised. They meet here, and the rule is: **the application's
assignment changes inside its polls only**, one `Step` after the other: what was lost, what is given up, what
is new.

Giving up a partition, in this order:

1. The answer that takes it away comes in: nothing is fetched of it any more, and what was fetched and not
   handed out is dropped. What was handed out may be at work; so nothing is said yet.
2. The application comes back to poll. It is done with all that it was handed (if it processes records in the
   thread that polls). ``on_revoked`` is called; it may commit, the member's epoch is still good for that.
3. What is to be committed automatically is, and commits that are under way are waited for.
4. Only now the coordinator hears that the partition was given up, and gives it to another.

An application that is late does not stop the others of the group: they keep what they have, and only the
partitions that it has to give up wait for it, for ``max_poll_interval_ms`` at most. Then it is out, by its
own doing or by the coordinator's.

Everything here runs on the event loop, but for what says otherwise.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from quorate.client.consumer.group.beginnings import Beginnings
from quorate.client.consumer.group.by_hand import AssignedByHand
from quorate.client.consumer.group.commit_policy import BY_HAND, CommitPolicy, partition_of
from quorate.client.consumer.group.commit_queue import CommitQueue, Offsets, Tenures
from quorate.client.consumer.group.heartbeats import Heartbeats
from quorate.client.consumer.group.member import Changes, Hold, Identity, Member, Tenure
from quorate.client.consumer.group.origin import GroupOrigin, look_around
from quorate.client.consumer.group.pace import PollPace
from quorate.client.consumer.group.steps import Step, StepKind
from quorate.client.consumer.group.subscription import Subscription
from quorate.client.consumer.parts import ConsumerParts
from quorate.client.consumer.positions import PartitionReader
from quorate.client.groups.coordinator import CoordinatorLink
from quorate.client.groups.membership import Membership
from quorate.client.groups.partitions import GroupPartition
from quorate.core.backoff import Backoff
from quorate.core.logging import get_logger
from quorate.errors import InvalidRequest, QuorateError
from quorate.v1 import group_pb2

__all__ = ["GroupSession"]

log = get_logger(__name__)

#: How long commits may take before a partition is given up without them.
_SETTLE_S: Final = 5.0
_PAUSE_S_MAX: Final = 5.0
#: commits that are not in a member's name: accepted while the group has none
_NOBODY: Final = Identity("", 0, 0)


class GroupSession:
    """``run`` for as long as the consumer lives."""

    def __init__(self, parts: ConsumerParts, name: str, *, make_id: Callable[[], str], host: str) -> None:
        """``make_id``, ``host``: as in `ConsumerEngine`."""
        self.name = name
        self._host = host
        self._options = parts.options
        self._cluster = parts.cluster
        self._fetching = parts.fetching
        self._buffer = parts.buffer
        self._topics = parts.topics
        self._readers = parts.readers
        self._ahead = parts.ahead
        self._statistics = parts.statistics
        self._clock = clock = parts.clock
        self._rng = rng = parts.rng
        self._timeout_s = parts.timeout_s
        self._subscription = Subscription()
        self._link = CoordinatorLink(parts.cluster, name, clock=clock, rng=rng)
        self._member = Member(name, self._message(), make_id)
        self._heartbeats = Heartbeats(self._member, self._link, self, clock=clock, rng=rng)
        self._commit_queue = CommitQueue(self._link, self, clock=clock, rng=rng)
        self.commit_policy = CommitPolicy(parts, self, self._commit_queue, self._link)
        self._origin: GroupOrigin | None = None
        self._beginnings = Beginnings(
            parts, self._member, self._link, self._commit_queue, self, origin=lambda: self._origin
        )
        self.by_hand = AssignedByHand(parts, self._link, self.commit_policy)
        self.pace = PollPace(parts.ahead, clock=clock, interval_s=parts.options.max_poll_interval_ms / 1000)
        #: readers that the application is to be told of
        self._ready: dict[GroupPartition, PartitionReader] = {}
        #: partitions that are gone, and the application has to hear so
        self._lost: list[GroupPartition] = []
        #: the one that the application is at
        self._step: Step | None = None
        #: it is the last one: nothing is said to the coordinator but a farewell
        self._is_leaving = False
        self._join_wanted = asyncio.Event()
        self._tasks: asyncio.TaskGroup | None = None
        #: any thread may look: there is something to do in the application's next poll
        self.is_wanted = False

    # -- life

    async def run(self) -> None:
        async with asyncio.TaskGroup() as self._tasks:
            for work in (
                self._heartbeats.run(),
                self._beginnings.run(),
                self._commit_queue.run(),
                self.by_hand.run(),
                self.pace.watch(self._poll_overdue),
                self._join_when_wanted(),
            ):
                self._tasks.create_task(work)
            self.commit_policy.start()

    async def close(self) -> None:
        self.commit_policy.stop()
        await self._link.close()

    # -- what is read

    @property
    def is_subscribed(self) -> bool:
        """Any thread may ask."""
        return not self._subscription.is_empty

    def subscribe(self, subscription: Subscription) -> None:
        if subscription.is_empty:
            raise InvalidRequest("subscribe to topics, or to a pattern; unsubscribe() leaves the group")
        if not self.is_subscribed and self._readers:
            raise InvalidRequest("partitions are assigned by hand: assign([]) first, then subscribe")
        self._subscription = subscription
        self._member.subscribe(self._message())
        for topic in subscription.topics:
            self._topics.want(topic, is_quiet=True)
        self._forget_topics()
        self._heartbeats.try_now()
        self.application_is_wanted()

    def _message(self) -> group_pb2.GroupSubscription:
        return self._subscription.message(self._options, self._host)

    async def leave(self, *, is_closing: bool) -> None:
        """After the last step (`next_step`); an answer is not waited for for long.

        A static member that closes will be back: its partitions wait for it, for its session.
        """
        is_away = is_closing and self._options.group_instance_id is not None
        farewell, lost = self._member.leave(is_away=is_away)
        self._subscription = Subscription()
        self._lose(lost)
        self._forget_topics()
        if farewell is not None:
            await self._heartbeats.farewell(farewell)

    async def _join_when_wanted(self) -> None:
        backoff = Backoff(self._rng, pause_s_max=_PAUSE_S_MAX)
        while True:
            await self._join_wanted.wait()
            try:
                # Where a group begins matters once, and only at the end of a log.
                if self._options.auto_offset_reset == "latest" and self._origin is None:
                    self._origin = await look_around(self._cluster, self._link, timeout_s=self._timeout_s)
            except QuorateError as error:
                log.debug("group_not_found_out", group=self.name, code=error.code, error=error.message)
                if not error.retriable:
                    self.refused(error)
                await self._clock.sleep(backoff.next_s())
                continue
            self._join_wanted.clear()
            if self.is_subscribed and not self._member.is_wanted:
                self._member.join()
                self._heartbeats.wake()

    # -- what the application does in its polls

    def application_is_wanted(self) -> None:
        self.is_wanted = self._ahead.is_interrupted = True
        self._buffer.wake()

    def next_step(self, *, is_last: bool = False) -> Step | None:
        """What is to be done next; None: nothing. Each has to be finished before the next.

        ``is_last``: everything is given up.
        """
        if self._step is not None:
            # The program was interrupted in the middle of it.
            self._end(self._step)
        self._is_leaving = is_last
        self._step = self._callback_step() or self._lost_step() or self._revoked_step(is_last=is_last)
        if self._step is None and not is_last:
            self._step = self._assigned_step()
        if self._step is None:
            self.is_wanted = self._ahead.is_interrupted = False
            if not is_last:
                self.commit_policy.commit_what_is_due()
                if self.is_subscribed and not self._member.is_wanted:
                    self._join_wanted.set()
        return self._step

    async def finish(self, step: Step, *, is_done: bool) -> None:
        """``is_done``: its callback has returned. Else it is over all the same, and nothing is committed."""
        if step is not self._step:
            return
        try:
            if step.kind is StepKind.REVOKED and is_done:
                await self.commit_policy.settle(step.partitions, timeout_s=_SETTLE_S)
        finally:
            self._end(step)

    def _end(self, step: Step) -> None:
        self._step = None
        if step.kind is StepKind.REVOKED:
            self._give_up(step.partitions)
        elif step.kind is StepKind.ASSIGNED:
            self._read(step.partitions)

    def _callback_step(self) -> Step | None:
        callback = self.commit_policy.next_callback()
        return None if callback is None else Step(StepKind.COMMITTED, [], callback)

    def _lost_step(self) -> Step | None:
        if not self._lost:
            return None
        lost, self._lost = self._lost, []
        self._remove_readers(lost)
        self._statistics.partitions_lost += len(lost)
        callbacks = self._subscription.callbacks
        return Step.about(StepKind.LOST, lost, callbacks.on_lost or callbacks.on_revoked)

    def _revoked_step(self, *, is_last: bool) -> Step | None:
        revoking = self._member.held(Hold.REVOKING)
        if is_last:
            # The coordinator hears of these when the member leaves.
            revoking = [each for each in map(partition_of, self._readers.values()) if each is not None]
        if not revoking:
            return None
        return Step.about(StepKind.REVOKED, revoking, self._subscription.callbacks.on_revoked)

    def _assigned_step(self) -> Step | None:
        # A topic that was made anew has the name of the old one: that is given up first.
        ready = [each for each in self._ready if each.name not in self._readers]
        if not ready:
            return None
        self._member.shown(ready)
        for each in ready:
            self._readers[each.name] = self._ready.pop(each)
        self._statistics.partitions_assigned += len(ready)
        return Step.about(StepKind.ASSIGNED, ready, self._subscription.callbacks.on_assigned)

    def _read(self, partitions: Iterable[GroupPartition]) -> None:
        active = set(self._member.held(Hold.ACTIVE))
        for each in partitions:
            if each in active:  # nobody has taken it away meanwhile
                self._fetching.restore(self._readers[each.name])

    def _give_up(self, partitions: Collection[GroupPartition]) -> None:
        """Also what was lost while the application was told to give it up: it need not hear it twice."""
        self._lost = [each for each in self._lost if each not in partitions]
        self._remove_readers(partitions)
        self._statistics.partitions_revoked += len(partitions)
        # One that was lost meanwhile and is held again is new: its reader, which waits to be shown, goes on.
        revoking = [each for each in self._member.held(Hold.REVOKING) if each in partitions]
        if revoking and not self._is_leaving:
            log.info("partitions_given_up", group=self.name, partitions=sorted(map(str, revoking)))
            self._member.given_up(revoking)
            self._heartbeats.wake()

    def _remove_readers(self, partitions: Collection[GroupPartition]) -> None:
        for each in partitions:
            reader = self._readers.pop(each.name, None)
            if reader is not None:
                self._fetching.remove(reader)
        self.commit_policy.forget(partitions)
        self._forget_topics()

    def _forget_topics(self) -> None:
        names = {each.topic for each in self._readers} | {each.topic for each in self._member.held()}
        self._topics.keep_only(names | set(self._subscription.topics))

    # -- what the coordinator says

    def assignment_changed(self, changes: Changes) -> None:
        self._retire(changes.revoking)
        self._withdraw(changes.withdrawn)
        for each in changes.given:
            self._topics.want(each.topic, is_quiet=True)
        if changes.given:
            self._beginnings.wake()
        if changes.revoking:
            self.application_is_wanted()
        if changes.given or changes.revoking:
            self._statistics.rebalances += 1
            log.info(
                "assignment_changed",
                group=self.name,
                member_epoch=self._member.epoch,
                given=sorted(map(str, changes.given)),
                revoking=sorted(map(str, changes.revoking)),
            )

    def began(self, readers: Mapping[GroupPartition, PartitionReader]) -> None:
        if readers:
            self._member.began(readers)
            self._ready |= readers
            self.application_is_wanted()

    def membership_lost(self, identity: Identity, error: QuorateError) -> None:
        if not self._member.is_current(identity):
            return
        was_member = identity.epoch > 0
        (log.warning if was_member else log.debug)(
            "membership_lost",
            group=self.name,
            member=identity.member_id,
            member_epoch=identity.epoch,
            code=error.code,
            error=error.message,
        )
        farewell, lost = self._member.leave()
        self._lose(lost)
        # The group may know it still, in another epoch, and would keep its partitions for its session.
        self._say_farewell(farewell if was_member else None)
        self._member.join()
        self._heartbeats.pause_before_return()

    def refused(self, error: QuorateError) -> None:
        self._buffer.report(f"group {self.name}", error)

    def epoch_is_stale(self) -> None:
        self._member.say += 1
        self._heartbeats.wake()

    def _lose(self, lost: list[GroupPartition]) -> None:
        """Another may read them already: nothing more is handed out."""
        self._lost += self._retire(lost)
        self._beginnings.withdraw_all()
        self._ready.clear()
        self.application_is_wanted()

    def _retire(self, partitions: Iterable[GroupPartition]) -> list[GroupPartition]:
        """Those of them that the application has not given up yet.

        A member that leaves says so after its last step; what was given up in the one before is still held.
        """
        retired = [each for each in partitions if each.name in self._readers]
        for each in retired:
            self._fetching.retire(self._readers[each.name])
        return retired

    def _withdraw(self, partitions: Collection[GroupPartition]) -> None:
        self._beginnings.withdraw(partitions)
        for each in partitions:
            self._ready.pop(each, None)

    def _poll_overdue(self) -> None:
        """The application is away for too long: the others must not wait for it."""
        if not self._member.is_wanted or self._step is not None:
            return
        log.warning(
            "poll_overdue",
            group=self.name,
            member=self._member.member_id,
            absent_s=round(self.pace.absent_s(), 3),
            max_poll_interval_ms=self._options.max_poll_interval_ms,
        )
        farewell, lost = self._member.leave()
        self._lose(lost)
        self._say_farewell(farewell)

    def _say_farewell(self, farewell: group_pb2.GroupHeartbeatRequest | None) -> None:
        if farewell is not None and self._tasks is not None:
            self._tasks.create_task(self._heartbeats.farewell(farewell))

    # -- for commits

    @property
    def membership(self) -> Membership | None:
        identity = self._member.identity
        return None if identity is None else Membership(self.name, identity.member_id, identity.epoch)

    @property
    def _is_by_hand(self) -> bool:
        return not self.is_subscribed and not self._member.is_wanted

    def identity(self) -> Identity | None:
        return _NOBODY if self._is_by_hand else self._member.identity

    def tenure_of(self, partition: GroupPartition) -> Tenure | None:
        return BY_HAND if self._is_by_hand else self._member.tenure_of(partition)

    def tenure_told_of(self, partition: GroupPartition | None) -> Tenure | None:
        if self._is_by_hand:
            return BY_HAND
        # What was lost and is held again waits for a poll to be told of, and its old reader for one to go.
        told = Hold.ACTIVE, Hold.REVOKING
        return None if partition is None else self._member.tenure_of(partition, *told)

    def were_committed(self, offsets: Offsets, tenures: Tenures) -> None:
        self._statistics.commits += 1
        self.commit_policy.were_committed(offsets, tenures)
