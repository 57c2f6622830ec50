"""The members of a shard's groups: their calls, kept until there is something to tell, and their silence.

A heartbeat is decided when it comes. If that tells the member nothing new, the call waits. Whenever a
decision changes a member, its waiting call is looked at, and if there is news for it, it is decided again,
on the state as it is by then; its member has said nothing else since, so what it says still holds. So a
change reaches whom it concerns in the time of a commit, and nobody else notices.

A refusal is an answer, too, and leaves like one: a member that is told that it is unknown gives up all that
it reads, and its removal could still be on its way (``GroupShard.committed``).

A call that is not newer than the last one that was heard is a copy that comes late, and is refused before
anything is made of it: it takes nobody's place, is no sign of life, and none of death when it breaks off. A
new coordinator has heard none. The first copy that reaches it counts until its member calls, which by then
is looking for it.

A static member that dies has said nothing about coming back, and its successor would have to wait until the
session is over. But its call has broken off. So when somebody comes under the same name, and nothing was
heard from the one before since, that one counts as away, and the successor goes on where it was.
"""

from __future__ import annotations

import asyncio

from quorate.broker.groups import membership
from quorate.broker.groups.heartbeats import Heartbeat, Heartbeats
from quorate.broker.groups.member import Member
from quorate.broker.groups.member_clocks import MemberClocks, MemberKey, Overdue
from quorate.broker.groups.shard import GroupShard, MembersBefore
from quorate.core.logging import get_logger
from quorate.errors import QuorateError
from quorate.v1.group_pb2 import GroupHeartbeatRequest, GroupHeartbeatResponse

__all__ = ["GroupMembers"]

log = get_logger(__name__)


class GroupMembers:
    def __init__(self, shard: GroupShard) -> None:
        self._shard = shard
        self._context = shard.context
        self._clock = shard.context.clock
        settings = shard.context.settings
        self._under_way = Heartbeats()
        self._clocks = MemberClocks(
            self._clock,
            session_timeout_s=settings.session_timeout_ms / 1000,
            grace_s=settings.reconnect_grace_ms / 1000,
            on_overdue=self._remove,
        )
        shard.on_loaded = self._loaded
        shard.on_changed = self._changed
        shard.on_ended = self._ended

    def silent_ms(self, group: str, member_id: str) -> int:
        """How long ago the member was heard of."""
        return int(self._clocks.silent_s(MemberKey(group, member_id)) * 1000)

    # -- calls

    async def heartbeat(self, request: GroupHeartbeatRequest) -> GroupHeartbeatResponse:
        self._shard.check_loaded()
        heartbeat = Heartbeat(request)
        self._check_is_new(heartbeat)
        self._under_way.begin(heartbeat)
        try:
            return await self._answer(heartbeat)
        except asyncio.CancelledError:
            # The caller has gone, and with it perhaps its process; unless it has called again since.
            if not heartbeat.is_superseded:
                self._clocks.broke_off(heartbeat.key)
            raise
        finally:
            self._under_way.end(heartbeat)

    def _check_is_new(self, heartbeat: Heartbeat) -> None:
        last = self._clocks.last_call(heartbeat.key)
        if last:
            membership.check_call_number(heartbeat.request, at_least=last + 1)

    async def _answer(self, heartbeat: Heartbeat) -> GroupHeartbeatResponse:
        request = heartbeat.request
        wait_ms = min(request.max_wait_ms, self._context.settings.heartbeat_interval_ms)
        deadline = self._clock.monotonic() + wait_ms / 1000
        while True:
            try:
                answer = self._decide(heartbeat)
            except QuorateError:
                await self._shard.committed(is_appended=False)
                raise
            if membership.has_news(self._shard.groups, request):
                break
            remaining_s = deadline - self._clock.monotonic()
            if not await heartbeat.wait_for_news(self._clock, remaining_s) or heartbeat.is_superseded:
                break
            self._shard.check_loaded()
        await self._shard.committed(is_appended=False)
        return answer

    def _decide(self, heartbeat: Heartbeat) -> GroupHeartbeatResponse:
        request = heartbeat.request
        decision = membership.heartbeat(
            self._shard.groups,
            request,
            topics=self._context.topics,
            settings=self._context.settings,
            now_ms=self._shard.context.retention_time.stamp_ms(),
            seems_dead=lambda member_id: self._clocks.is_broken(MemberKey(request.group, member_id)),
            silent_ms=lambda member_id: self.silent_ms(request.group, member_id),
        )
        if decision.records:
            self._context.check_room(self._shard.groups, request.group)
            self._shard.carry_out(decision.records)
        self._clocks.heard(heartbeat.key, request.call_number)
        return decision.answer

    # -- what becomes of members

    def _loaded(self) -> None:
        """Everybody has a whole session: what was heard before, nobody knows."""
        for name in self._shard.groups:
            for member in self._shard.groups[name].members.values():
                self._take_up(MemberKey(name, member.member_id), None, member)

    def _changed(self, before: MembersBefore) -> None:
        for key, former in before.items():
            group = self._shard.groups.get(key.group)
            member = None if group is None else group.members.get(key.member_id)
            heartbeat = self._under_way.get(key)
            if member is None:
                self._clocks.forget(key)
            else:
                self._take_up(key, former, member)
            if heartbeat is not None and membership.has_news(self._shard.groups, heartbeat.request):
                heartbeat.wake()

    def _take_up(self, key: MemberKey, former: Member | None, member: Member) -> None:
        if key not in self._clocks:
            self._clocks.add(key, is_static=bool(member.instance_id))
        before = () if former is None else former.revoking
        if any(partition not in before for partition in member.revoking):
            timeout_ms = membership.rebalance_timeout_ms(member, self._context.settings)
            self._clocks.must_revoke(key, timeout_ms / 1000)
        elif before and not member.revoking:
            self._clocks.has_revoked(key)

    def _remove(self, key: MemberKey, reason: Overdue) -> bool:
        try:
            self._shard.carry_out(
                membership.remove_member(
                    self._shard.groups,
                    key.group,
                    key.member_id,
                    topics=self._context.topics,
                    now_ms=self._shard.context.retention_time.stamp_ms(),
                )
            )
        except QuorateError as error:
            log.warning("member_not_removed", group=key.group, member=key.member_id, reason=error.message)
            return False
        log.info("member_removed", group=key.group, member=key.member_id, reason=reason.value)
        return True

    def _ended(self) -> None:
        """Whoever waits finds out that this is not the coordinator any more."""
        self._clocks.stop()
        self._under_way.wake_all()
