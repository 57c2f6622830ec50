"""What has to be done for groups though nobody calls, a group at a time in one turn of the loop at most.

- *Topics change.* Groups that read something else from now on get new assignments, and offsets of topics
  that were deleted go.
- *Offsets expire*, of groups that have had no members for long. By the time of ``RetentionTime``: a wall
  clock that jumps ahead must not make a group forget how far it has come.

Whatever of this cannot be carried out now is tried again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, NoReturn

from quorate.broker.groups import membership, offset_decisions
from quorate.broker.groups.context import GroupContext
from quorate.broker.groups.shard import GroupShard
from quorate.core.config import GroupConfig
from quorate.core.logging import get_logger
from quorate.errors import GroupFull, QuorateError

__all__ = ["GroupUpkeep"]

log = get_logger(__name__)

#: what could not be written down is tried again after this
_RETRY_S: Final = 1.0
#: groups that are looked at in one turn of the loop when there is nothing to do for them
_GROUPS_PER_TURN: Final = 32


class GroupUpkeep:
    def __init__(
        self, config: GroupConfig, context: GroupContext, loaded: Callable[[], Sequence[GroupShard]]
    ) -> None:
        """``loaded``: the shards whose groups are known, at the moment."""
        self._config = config
        self._context = context
        self._clock = context.clock
        self._loaded = loaded
        #: groups whose topics may have changed, by shard
        self._groups_to_reassign: dict[GroupShard, dict[str, None]] = {}
        self._has_topics_changed = asyncio.Event()

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow_topics(), name="group-topics")
            tasks.create_task(self._expire(), name="group-expiry")

    # -- topics

    def topics_changed(self) -> None:
        for shard in self._loaded():
            self.look_at_all(shard)

    def look_at_all(self, shard: GroupShard) -> None:
        """A coordinator that has just taken over does not know what the one before has seen to."""
        if not shard.is_ended:
            self._groups_to_reassign[shard] = dict.fromkeys(shard.groups)
            self._has_topics_changed.set()

    async def _follow_topics(self) -> NoReturn:
        while True:
            await self._has_topics_changed.wait()
            self._has_topics_changed.clear()
            looked_at = 0
            while self._groups_to_reassign:
                shard = next(iter(self._groups_to_reassign))
                group = _pop_group(self._groups_to_reassign, shard)
                looked_at += 1
                if group is not None and not self._reassign(shard, group):
                    self._groups_to_reassign.setdefault(shard, {})[group] = None
                    await self._clock.sleep(_RETRY_S)
                elif looked_at % _GROUPS_PER_TURN == 0:
                    await asyncio.sleep(0)

    def _reassign(self, shard: GroupShard, group: str) -> bool:
        """False: what has to be done could not be written down."""
        if shard.is_ended or group not in shard.groups:
            return True
        try:
            shard.carry_out(
                membership.topics_changed(
                    shard.groups,
                    group,
                    topics=self._context.topics,
                    now_ms=self._context.retention_time.stamp_ms(),
                )
            )
        except QuorateError as error:
            log.warning("group_not_reassigned", group=group, code=error.code, reason=error.message)
            # A group that has become too large stays as it is until something else changes.
            return not error.retriable or isinstance(error, GroupFull)
        return True

    # -- expiry

    async def _expire(self) -> NoReturn:
        while True:
            await self._clock.sleep(self._config.offsets_retention_check_interval_ms / 1000)
            now_ms = self._context.retention_time.now_ms()
            for shard in self._loaded():
                await self._expire_in(shard, now_ms)

    async def _expire_in(self, shard: GroupShard, now_ms: int) -> None:
        for count, name in enumerate(list(shard.groups), 1):
            group = shard.groups.get(name)
            if group is None:
                continue
            retention_ms = self._context.settings.offsets_retention_ms
            records = offset_decisions.expired_offsets(group, now_ms=now_ms, retention_ms=retention_ms)
            if records:
                try:
                    shard.carry_out(records)
                except QuorateError as error:
                    log.warning("offsets_not_expired", partition=shard.number, reason=error.message)
                    return
                log.info("offsets_expired", group=name, records=len(records))
            if records or count % _GROUPS_PER_TURN == 0:
                await asyncio.sleep(0)


def _pop_group(to_reassign: dict[GroupShard, dict[str, None]], shard: GroupShard) -> str | None:
    groups = to_reassign[shard]
    group = next(iter(groups), None)
    if group is not None:
        del groups[group]
    if not groups:
        del to_reassign[shard]
    return group
