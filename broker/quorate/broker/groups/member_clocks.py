"""Who has been silent for too long, on the coordinator's own clock.

Three things are waited for, each with its time:

- *A call* (``SESSION``). Every member has to be heard of again within the session time-out.
- *A new connection* (``GRACE``). A call that breaks off before it is answered is a sign that the member's
  process has died; it has a moment to prove the contrary. Static members have their whole session instead:
  they are expected to come back.
- *Partitions* (``REBALANCE``). Who has to give something up has to have done so within its own rebalance
  time-out; others wait for it. A member that is asked for more gets the time anew.

All of it is in memory alone, and on the monotonic clock: when a coordinator takes over, everybody begins a
new session. So does everybody when this process itself has stood still: a call that came meanwhile was heard
by nobody.

Times that are pushed out again and again, as sessions are, leave their place in the heap where it is. An
entry that comes up too early is put back in: one heap operation per session and not one per call.
"""

from __future__ import annotations

import enum
import heapq
import itertools
import math
from collections.abc import Callable
from typing import Final, NamedTuple

from quorate.core.clock import Clock, Timer

__all__ = ["MemberClocks", "MemberKey", "Overdue"]

#: a removal that could not be carried out is tried again after this
_RETRY_S: Final = 1.0
#: a timer that is this late was not late by itself: the process stood still
_STOOD_STILL_S: Final = 1.0
#: each costs a computation of assignments: so many in one turn of the loop
_OVERDUE_PER_TURN: Final = 4


class MemberKey(NamedTuple):
    group: str
    member_id: str


class Overdue(enum.Enum):
    SESSION = "it was not heard of for its session time-out"
    GRACE = "its call broke off, and it was not heard of again"
    REBALANCE = "it has not given up its partitions in time"


class _Member:
    __slots__ = ("broken_at", "call_number", "entry_at", "heard_at", "is_static", "retry_at", "revoke_by")

    def __init__(self, now: float, *, is_static: bool) -> None:
        self.is_static = is_static
        self.heard_at = now
        #: of the last call that was heard; 0: none was, or they have no numbers
        self.call_number = 0
        #: None: its last call did not break off
        self.broken_at: float | None = None
        #: None: it has nothing to give up
        self.revoke_by: float | None = None
        #: not looked at before, because its removal has failed
        self.retry_at = -math.inf
        #: when its entry in the heap is due, never later than the member itself
        self.entry_at = math.inf

    def forgive(self, now: float, late_s: float) -> None:
        """Nobody could be heard for a while: everything that runs begins anew, or later."""
        self.heard_at = now
        if self.broken_at is not None:
            self.broken_at = now
        if self.revoke_by is not None:
            self.revoke_by += late_s


class MemberClocks:
    """``on_overdue`` removes the member, and says whether it could."""

    def __init__(
        self,
        clock: Clock,
        *,
        session_timeout_s: float,
        grace_s: float,
        on_overdue: Callable[[MemberKey, Overdue], bool],
    ) -> None:
        self._clock = clock
        self._session_timeout_s = session_timeout_s
        self._grace_s = grace_s
        self._on_overdue = on_overdue
        self._members: dict[MemberKey, _Member] = {}
        self._heap: list[tuple[float, int, MemberKey]] = []
        self._serials = itertools.count()
        self._timer: Timer | None = None
        self._timer_at = math.inf

    def __contains__(self, key: MemberKey) -> bool:
        return key in self._members

    # -- what members do

    def add(self, key: MemberKey, *, is_static: bool) -> None:
        """A new member, or one of a group that was just loaded: a whole session from now on."""
        member = self._members[key] = _Member(self._clock.monotonic(), is_static=is_static)
        self._push(key, member)

    def heard(self, key: MemberKey, call_number: int) -> None:
        """For whoever has made sure that it is no copy of an older call."""
        member = self._members.get(key)
        if member is not None:
            member.call_number = call_number
            member.heard_at = self._clock.monotonic()
            member.broken_at = None

    def last_call(self, key: MemberKey) -> int:
        """The number of the last call that was heard; 0: none was, or they have no numbers."""
        member = self._members.get(key)
        return 0 if member is None else member.call_number

    def broke_off(self, key: MemberKey) -> None:
        """A call of the member ended before it was answered."""
        member = self._members.get(key)
        if member is not None and member.broken_at is None:
            member.broken_at = self._clock.monotonic()
            self._push(key, member)

    def is_broken(self, key: MemberKey) -> bool:
        """Its last call broke off, and nothing was heard of it since."""
        member = self._members.get(key)
        return member is not None and member.broken_at is not None

    def must_revoke(self, key: MemberKey, within_s: float) -> None:
        """From now on; a time that runs already begins anew."""
        member = self._members[key]
        member.revoke_by = self._clock.monotonic() + within_s
        self._push(key, member)

    def has_revoked(self, key: MemberKey) -> None:
        self._members[key].revoke_by = None

    def forget(self, key: MemberKey) -> None:
        """Its entries in the heap are dropped when they come up."""
        self._members.pop(key, None)

    def silent_s(self, key: MemberKey) -> float:
        member = self._members.get(key)
        return 0.0 if member is None else self._clock.monotonic() - member.heard_at

    def stop(self) -> None:
        self._members.clear()
        self._heap.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # -- the heap

    def _due(self, member: _Member) -> tuple[float, Overdue]:
        """What is over first."""
        due, reason = member.heard_at + self._session_timeout_s, Overdue.SESSION
        if member.broken_at is not None and not member.is_static and member.broken_at + self._grace_s < due:
            due, reason = member.broken_at + self._grace_s, Overdue.GRACE
        if member.revoke_by is not None and member.revoke_by < due:
            due, reason = member.revoke_by, Overdue.REBALANCE
        return max(due, member.retry_at), reason

    def _push(self, key: MemberKey, member: _Member) -> None:
        due, _ = self._due(member)
        if due < member.entry_at:
            member.entry_at = due
            heapq.heappush(self._heap, (due, next(self._serials), key))
            self._set_timer()

    def _set_timer(self) -> None:
        # What is overdue already comes in a turn of its own, and is not late by that.
        due = max(self._heap[0][0], now := self._clock.monotonic())
        if self._timer is not None:
            if self._timer_at <= due:
                return
            self._timer.cancel()
        self._timer_at = due
        self._timer = self._clock.call_later(due - now, self._look)

    def _look(self) -> None:
        now = self._clock.monotonic()
        late_s = now - self._timer_at
        self._timer = None
        if late_s > _STOOD_STILL_S:
            for each in self._members.values():
                each.forgive(now, late_s)
        removals = 0
        while self._heap and self._heap[0][0] <= now and removals < _OVERDUE_PER_TURN:
            due, _, key = heapq.heappop(self._heap)
            member = self._members.get(key)
            # Another entry of the member may have come before this one, and counts in its place.
            if member is not None and member.entry_at == due:
                removals += self._look_at(key, member, now)
        if self._heap:
            self._set_timer()

    def _look_at(self, key: MemberKey, member: _Member, now: float) -> bool:
        """Whether it was overdue."""
        member.entry_at = math.inf
        due, reason = self._due(member)
        is_overdue = due <= now
        if is_overdue and not self._on_overdue(key, reason):
            member.retry_at = now + _RETRY_S
        if self._members.get(key) is member:
            self._push(key, member)
        return is_overdue
