"""Heartbeats that are under way: at most one of a member counts, its last one.

A member that has something new to say does not wait for the answer to what it said before. So a newer call
takes the older one's place, and the older one is answered at once; nobody reads that answer. What counts is
that nothing of the older one is acted on any more: it says that the member holds what the newer one may have
given up. Neither is it a sign of death when the older one breaks off.

Which is the newer one, the numbers say that members give their calls: a copy that comes late does not get
here (``GroupMembers.heartbeat``). Of a member that does not number them it is the one that came last.
"""

from __future__ import annotations

from collections.abc import Iterator

from quorate.broker.groups.member_clocks import MemberKey
from quorate.broker.groups.wake_up import WakeUp
from quorate.core.clock import Clock
from quorate.v1.group_pb2 import GroupHeartbeatRequest

__all__ = ["Heartbeat", "Heartbeats"]


class Heartbeat:
    """One call, from when it came until it is answered or breaks off."""

    __slots__ = ("_news", "is_superseded", "key", "request")

    def __init__(self, request: GroupHeartbeatRequest) -> None:
        self.key = MemberKey(request.group, request.member_id)
        self.request = request
        #: the member has called again
        self.is_superseded = False
        self._news = WakeUp()

    def wake(self) -> None:
        self._news.wake()

    async def wait_for_news(self, clock: Clock, timeout_s: float) -> bool:
        """Whether there may be any: it was woken, and not by the time."""
        return timeout_s > 0 and await self._news.wait(clock, timeout_s)


class Heartbeats:
    """All that are under way in one shard."""

    def __init__(self) -> None:
        #: group -> member -> its last call; never an empty one
        self._by_group: dict[str, dict[str, Heartbeat]] = {}

    def begin(self, heartbeat: Heartbeat) -> None:
        group, member_id = heartbeat.key
        members = self._by_group.setdefault(group, {})
        before = members.get(member_id)
        if before is not None:
            before.is_superseded = True
            before.wake()
        members[member_id] = heartbeat

    def end(self, heartbeat: Heartbeat) -> None:
        group, member_id = heartbeat.key
        if heartbeat.is_superseded:
            return
        members = self._by_group[group]
        del members[member_id]
        if not members:
            del self._by_group[group]

    def get(self, key: MemberKey) -> Heartbeat | None:
        members = self._by_group.get(key.group)
        return None if members is None else members.get(key.member_id)

    def __iter__(self) -> Iterator[Heartbeat]:
        for members in list(self._by_group.values()):
            yield from list(members.values())

    def wake_all(self) -> None:
        for heartbeat in self:
            heartbeat.wake()
