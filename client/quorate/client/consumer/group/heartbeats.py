"""Keeps a member in its group: one call waits at the coordinator, a second leaves when there is news.

The coordinator keeps a heartbeat until it has something to tell (`GroupHeartbeatRequest`), so there is always
one under way, and news arrive within a round trip. What the member has to say does not wait for that: a
partition that was given up is wanted by somebody else. Then another call leaves at once, and the coordinator
answers the one before.

All of it runs apart from the application: however long that takes over its records, the member stays.

- What is said is a state, never a step. A call whose answer is lost is made again, and nothing has to be
  undone.
- An answer counts whenever it comes: which of its partitions the member may take, its epoch says (`Member`).
  A refusal counts only if no later call has left: calls may overtake each other, and one that still names a
  partition that was given up since is refused as a liar.
- A coordinator that tells nothing new and does not wait is asked again after its heartbeat interval, not at
  once. It is so while partitions wait for the application to give them up.
- A join that names an old departure from the group is told the last one, and made again with that: at once,
  for while it waits the next member may go. Every other time it waits all the same, or a group that is left
  faster than calls get there would be called without a pause.
- Where a copy of a call was faster than the call itself, there is another one to make.
- At most two calls of an incarnation are under way.
"""

from __future__ import annotations

import asyncio
import math
import random
from dataclasses import dataclass
from typing import Final, Protocol

from quorate.client.consumer.group.member import Changes, Identity, Member
from quorate.client.groups.coordinator import GROUP_HEARTBEAT, CoordinatorLink
from quorate.core.backoff import Backoff
from quorate.core.clock import Clock, Timer
from quorate.core.logging import get_logger
from quorate.errors import (
    FencedMemberEpoch,
    GroupFull,
    HeartbeatOvertaken,
    InvalidUpdateVersion,
    QuorateError,
    UnknownMember,
    UnreleasedInstance,
)
from quorate.v1 import group_pb2

__all__ = ["GroupEvents", "Heartbeats"]

log = get_logger(__name__)

_CALLS_MAX: Final = 2
#: Until a coordinator has said how often it wants to hear of its members.
_INTERVAL_S: Final = 3.0
#: Beyond what it was asked to wait: a coordinator that takes longer is stopped, overloaded or cut off.
_PATIENCE_S: Final = 5.0
_PAUSE_S_MAX: Final = 1.0
#: After a refusal that a pause alone does not cure.
_REFUSED_PAUSE_S_MAX: Final = 5.0
#: A member that is removed again sooner pauses longer before it comes back.
_CALM_S: Final = 30.0
#: An instance whose process died is let go of when its session is over; whoever waits longer hears of it.
#: For a coordinator that does not say how long a session is.
_UNRELEASED_S: Final = 60.0
#: For a call that was under way, beyond the time that it may wait at the coordinator.
_ON_ITS_WAY_S: Final = 1.0
#: A farewell that gets no answer is not waited for any longer: the session ends by itself.
_FAREWELL_S: Final = 3.0


class GroupEvents(Protocol):
    """Who acts on what the coordinator says."""

    def assignment_changed(self, changes: Changes) -> None: ...

    def membership_lost(self, identity: Identity, error: QuorateError) -> None:
        """The group goes on without this incarnation."""
        ...

    def refused(self, error: QuorateError) -> None:
        """Something for the application to hear; the member goes on trying."""
        ...


@dataclass(frozen=True, slots=True)
class _Sent:
    identity: Identity
    request: group_pb2.GroupHeartbeatRequest
    subscription_version: int
    sent_at: float
    wait_s: float


class Heartbeats:
    """``run`` for as long as the consumer lives."""

    def __init__(
        self,
        member: Member,
        link: CoordinatorLink,
        events: GroupEvents,
        *,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self._member = member
        self._link = link
        self._events = events
        self._clock = clock
        self._interval_s = _INTERVAL_S
        self._backoff = Backoff(rng, pause_s_max=_PAUSE_S_MAX)
        self._refused_backoff = Backoff(rng, first_s=0.5, pause_s_max=_REFUSED_PAUSE_S_MAX)
        self._return_backoff = Backoff(rng)
        self._wake = asyncio.Event()
        self._timer: Timer | None = None
        self._generation = -1
        #: calls of this incarnation that are under way
        self._under_way = 0
        #: ``member.say`` as of the latest call; -1: not heard, as far as is known
        self._said = -1
        #: when the next call is due, if nothing is under way
        self._next_at = 0.0
        #: no call leaves before
        self._not_before = 0.0
        #: the join under way is made at once, after one that was refused
        self._hurries = False
        self._lost_at = -_CALM_S
        self._instance_in_use = _InstanceInUse()

    def wake(self) -> None:
        """The member may have something to say."""
        self._wake.set()

    def try_now(self) -> None:
        """What was refused may be accepted: the member wants something else."""
        self._not_before = 0.0
        self._wake.set()

    def pause_before_return(self) -> None:
        """The member was removed, and comes back; not at once if that happens again and again."""
        now = self._clock.monotonic()
        if now - self._lost_at > _CALM_S:
            self._return_backoff.reset()
        self._lost_at = now
        self._not_before = now + self._return_backoff.next_s()
        self._wake.set()

    async def farewell(self, request: group_pb2.GroupHeartbeatRequest) -> None:
        """Bounded in time; what it says is true whether it is heard or not."""
        try:
            await self._link.call(GROUP_HEARTBEAT, request, timeout_s=_FAREWELL_S)
        except (UnknownMember, HeartbeatOvertaken):
            pass  # an attempt before was heard
        except QuorateError as error:
            log.info(
                "farewell_unanswered",
                group=request.group,
                member=request.member_id,
                code=error.code,
                error=error.message,
            )

    # -- the loop

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            while True:
                self._wake.clear()
                if self._generation != self._member.generation:
                    self._begin_incarnation()
                while self._is_due():
                    tasks.create_task(self._call(self._sent()))
                self._wake_when_due()
                await self._wake.wait()

    def _begin_incarnation(self) -> None:
        self._generation = self._member.generation
        self._under_way = 0
        self._said = -1
        self._next_at = 0.0

    def _is_due(self) -> bool:
        now = self._clock.monotonic()
        if not self._member.is_wanted or now < self._not_before or self._under_way >= _CALLS_MAX:
            return False
        has_something_to_say = self._member.say != self._said
        return has_something_to_say or (self._under_way == 0 and now >= self._next_at)

    def _wake_when_due(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._member.is_wanted or self._under_way >= _CALLS_MAX:
            return
        has_something_to_say = self._member.say != self._said
        if self._under_way and not has_something_to_say:
            return
        due = self._not_before if has_something_to_say else max(self._not_before, self._next_at)
        self._timer = self._clock.call_later(max(due - self._clock.monotonic(), 0.0), self._wake.set)

    # -- calls

    def _sent(self) -> _Sent:
        member = self._member
        self._under_way += 1
        self._said = member.say
        # One that joins is answered at once, whatever it says here.
        wait_s = self._interval_s if member.is_joined else 0.0
        return _Sent(
            Identity(member.member_id, member.epoch, member.generation),
            member.request(max_wait_ms=int(wait_s * 1000)),
            member.subscription_version,
            self._clock.monotonic(),
            wait_s,
        )

    async def _call(self, sent: _Sent) -> None:
        try:
            response = await self._link.call_once(
                GROUP_HEARTBEAT, sent.request, timeout_s=sent.wait_s + _PATIENCE_S
            )
        except QuorateError as error:
            if self._is_of_interest(sent) and sent.request.call_number == self._member.calls:
                self._failed(sent, error)
        else:
            if self._is_of_interest(sent):
                self._heard(sent, response)
        self._wake.set()

    def _is_of_interest(self, sent: _Sent) -> bool:
        """Not a call of an earlier incarnation."""
        if not self._member.is_current(sent.identity):
            return False
        self._under_way -= 1
        return True

    def _heard(self, sent: _Sent, response: group_pb2.GroupHeartbeatResponse) -> None:
        changes = self._member.answered(
            response, asked_in=sent.identity.epoch, subscription_version=sent.subscription_version
        )
        self._backoff.reset()
        self._refused_backoff.reset()
        self._hurries = False
        self._instance_in_use = _InstanceInUse()
        if response.heartbeat_interval_ms > 0:
            self._interval_s = response.heartbeat_interval_ms / 1000
        now = self._clock.monotonic()
        has_waited = now - sent.sent_at >= sent.wait_s / 2 > 0
        self._next_at = now if changes.is_news or has_waited else sent.sent_at + self._interval_s
        self._events.assignment_changed(changes)

    # -- trouble

    def _failed(self, sent: _Sent, error: QuorateError) -> None:
        now = self._clock.monotonic()
        self._said = -1
        if isinstance(error, UnknownMember | FencedMemberEpoch):
            self._events.membership_lost(sent.identity, error)
            return
        if isinstance(error, InvalidUpdateVersion) and self._learns_from(error, sent.request):
            self._hurries = not self._hurries
            if self._hurries:
                self._next_at = self._not_before = now
                return
        if _is_to_be_repeated(error):
            log.debug("heartbeat_failed", group=self._link.group, code=error.code, error=error.message)
            self._not_before = now + self._backoff.next_s()
        else:
            self._not_before = now + self._refused_backoff.next_s()
            if not self._is_expected(error, now):
                self._events.refused(error)
        self._next_at = self._not_before

    def _learns_from(self, error: InvalidUpdateVersion, request: group_pb2.GroupHeartbeatRequest) -> bool:
        """Whether the next join is another one than that which was refused."""
        departure_epoch = error.facts.get("departure_epoch")
        if not isinstance(departure_epoch, int) or departure_epoch == request.departure_epoch:
            return False
        self._member.departure_epoch = departure_epoch
        return True

    def _is_expected(self, error: QuorateError, now: float) -> bool:
        """The instance of a process that has died is in use until its session is over."""
        if not isinstance(error, UnreleasedInstance):
            return False
        if self._instance_in_use.since is None:
            log.warning("instance_in_use", group=self._link.group, error=error.message)
        return not self._instance_in_use.is_anothers(error, now)


def _is_to_be_repeated(error: QuorateError) -> bool:
    """Soon, with what is known by now."""
    if isinstance(error, HeartbeatOvertaken | InvalidUpdateVersion):
        return True
    return error.retriable and not isinstance(error, GroupFull | UnreleasedInstance)


class _InstanceInUse:
    """Whether the name of a static member is used by a process that lives, or its end was not noticed yet.

    A restart is the usual case: the one before is dead, and its last call may still wait at the coordinator,
    for one heartbeat interval. So whoever was heard of later than that, counted from the first refusal,
    lives. One that is silent is waited for until its session must be over.
    """

    def __init__(self) -> None:
        #: when it was refused first
        self.since: float | None = None

    def is_anothers(self, error: UnreleasedInstance, now: float) -> bool:
        if self.since is None:
            self.since = now
        under_way_s = _seconds(error, "heartbeat_interval_ms", 0.0) + _ON_ITS_WAY_S
        heard_at = now - _seconds(error, "silent_ms", math.inf)
        session_s = _seconds(error, "session_timeout_ms", _UNRELEASED_S)
        return heard_at > self.since + under_way_s or now > self.since + session_s + under_way_s


def _seconds(error: QuorateError, fact: str, otherwise: float) -> float:
    found = error.facts.get(fact)
    return found / 1000 if isinstance(found, int) else otherwise
