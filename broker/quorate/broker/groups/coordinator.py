"""All groups that this broker coordinates: a shard for each partition of the topic of offsets that it leads.

Shards come and go with leaderships. A new one is loaded as soon as the metadata says that this broker
leads, or when the first request comes, whichever is sooner; a few at a time, so that a broker that takes
over many still does its other work. What runs beside the calls, and never more than a group at a time in
one turn of the loop:

- *Topics change.* Groups that read something else from now on get new assignments, and offsets of topics
  that were deleted go.
- *Offsets expire*, of groups that have had no members for long. By the time of ``RetentionTime``: a wall
  clock that jumps ahead must not make a group forget how far it has come.

Whatever of this cannot be carried out now is tried again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, NoReturn

from quorate.broker.groups import membership, offset_decisions
from quorate.broker.groups.context import GroupContext
from quorate.broker.groups.group_members import GroupMembers
from quorate.broker.groups.shard import GroupShard
from quorate.broker.hosted import Hosted
from quorate.broker.replica.leadership import Leadership
from quorate.broker.replica.partition import Partition
from quorate.core.clock import Clock
from quorate.core.config import NodeConfig
from quorate.core.ids import PartitionId
from quorate.core.logging import get_logger
from quorate.core.topic_names import OFFSETS_TOPIC
from quorate.errors import CoordinatorNotAvailable, GroupFull, LeadershipError, QuorateError
from quorate.metadata.changes import MetadataDelta
from quorate.metadata.image import PartitionImage
from quorate.storage.retention_time import RetentionTime

__all__ = ["Coordinated", "GroupCoordinator"]

log = get_logger(__name__)

#: Reading a log keeps the loop busy; two of them keep the disk busy as well.
_LOADING_AT_ONCE: Final = 2
#: a shard that could not be loaded is tried again after this
_LOAD_AGAIN_S: Final = 5.0
#: how soon to look again for a leadership that the metadata speaks of and the replica has not taken up yet
_LOOK_AGAIN_S: Final = 0.25
_LOOK_AGAIN_S_MAX: Final = 5.0
#: what could not be written down is tried again after this
_RETRY_S: Final = 1.0
#: groups that are looked at in one turn of the loop when there is nothing to do for them
_GROUPS_PER_TURN: Final = 32


class Coordinated(NamedTuple):
    """One partition that this broker coordinates."""

    shard: GroupShard
    members: GroupMembers


class GroupCoordinator:
    def __init__(self, config: NodeConfig, hosted: Hosted, clock: Clock) -> None:
        self._config = config.groups
        self._hosted = hosted
        self._clock = clock
        self.context = GroupContext(config, hosted, clock, group_count=self._group_count)
        self._retention_time = RetentionTime(clock)
        self._coordinated: dict[PartitionId, Coordinated] = {}
        self._may_lead = asyncio.Event()
        #: shards that have to be loaded, in the order in which they came
        self._to_load: asyncio.Queue[GroupShard] = asyncio.Queue()
        #: groups whose topics may have changed, by shard
        self._to_look_at: dict[GroupShard, dict[str, None]] = {}
        self._has_topics_changed = asyncio.Event()

    def _group_count(self) -> int:
        return sum(len(each.shard.groups) for each in self._coordinated.values())

    # -- the metadata

    def image_changed(self, delta: MetadataDelta | None) -> None:
        """After the replicas have taken up their parts. None: everything is new."""
        self._may_lead.set()
        if self.context.image_changed(delta):
            for each in self._coordinated.values():
                if each.shard.is_loaded:
                    self._look_at_all(each.shard)

    # -- finding

    def find(self, group: str) -> Coordinated:
        """The shard of a group, loaded; else raises who coordinates it, or that one has to wait."""
        number = self.context.partition_of(group)
        found = self._take_up(self.context.offsets_topic().partitions[number])
        if found is None:
            raise self.context.elsewhere(number)
        found.shard.check_loaded()
        return found

    def led(self) -> Iterator[tuple[PartitionId, Coordinated | None]]:
        """Every partition that the metadata gives to this broker; None: it has not taken it up, or cannot."""
        topic = self._hosted.image.topic_named(OFFSETS_TOPIC)
        for partition in () if topic is None else topic.partitions:
            if partition.leader != self.context.broker_id:
                continue
            try:
                found = self._take_up(partition)
            except CoordinatorNotAvailable as error:
                log.debug("groups_not_taken_up", partition=partition.partition, reason=error.message)
                found = None
            yield partition.partition, found

    def loaded(self) -> list[GroupShard]:
        """Those whose groups are known, in the order of their partitions."""
        shards = (self._coordinated[number].shard for number in sorted(self._coordinated))
        return [shard for shard in shards if shard.is_loaded and not shard.is_ended]

    def _take_up(self, partition: PartitionImage) -> Coordinated | None:
        """The shard of the leadership that this broker has at the moment; None: it has none."""
        if partition.leader != self.context.broker_id:
            return None
        found = self._coordinated.get(partition.partition)
        try:
            replica = self._hosted.find_by_id(partition.topic_id, partition.partition)
            leadership = replica.require_leadership(None)
        except LeadershipError:
            return None
        except QuorateError as error:
            raise CoordinatorNotAvailable(
                f"{OFFSETS_TOPIC}-{partition.partition} cannot be used here: {error.message}",
                cause=error.code,
            ) from error
        if found is None or not found.shard.is_of(leadership):
            found = self._begin(replica, leadership)
        return found

    def _begin(self, replica: Partition, leadership: Leadership) -> Coordinated:
        shard = GroupShard(replica, leadership, self.context)
        coordinated = self._coordinated[shard.number] = Coordinated(shard, GroupMembers(shard))
        self._to_load.put_nowait(shard)
        return coordinated

    # -- what runs beside the calls

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._look_for_leaderships(), name="group-leaderships")
            for number in range(_LOADING_AT_ONCE):
                tasks.create_task(self._load_shards(), name=f"group-loading-{number}")
            tasks.create_task(self._follow_topics(), name="group-topics")
            tasks.create_task(self._expire(), name="group-expiry")

    async def _look_for_leaderships(self) -> NoReturn:
        pause_s = _LOOK_AGAIN_S
        while True:
            await self._may_lead.wait()
            self._may_lead.clear()
            is_any_missing = any(found is None for _, found in list(self.led()))
            for number, each in list(self._coordinated.items()):
                if each.shard.is_ended:
                    del self._coordinated[number]
            if is_any_missing:
                # A log is being made, or cut; or it is damaged, and another broker will soon lead.
                self._clock.call_later(pause_s, self._may_lead.set)
            pause_s = min(2 * pause_s, _LOOK_AGAIN_S_MAX) if is_any_missing else _LOOK_AGAIN_S

    async def _load_shards(self) -> NoReturn:
        while True:
            shard = await self._to_load.get()
            if await shard.load():
                self._look_at_all(shard)
            else:
                self._clock.call_later(_LOAD_AGAIN_S, self._to_load_again(shard))

    def _to_load_again(self, shard: GroupShard) -> Callable[[], None]:
        def load_again() -> None:
            if not shard.is_ended:
                self._to_load.put_nowait(shard)

        return load_again

    # -- topics

    def _look_at_all(self, shard: GroupShard) -> None:
        """A coordinator that has just taken over does not know what the one before has seen to."""
        if not shard.is_ended:
            self._to_look_at[shard] = dict.fromkeys(shard.groups)
            self._has_topics_changed.set()

    async def _follow_topics(self) -> NoReturn:
        while True:
            await self._has_topics_changed.wait()
            self._has_topics_changed.clear()
            looked_at = 0
            while self._to_look_at:
                shard = next(iter(self._to_look_at))
                group = _pop_group(self._to_look_at, shard)
                looked_at += 1
                if group is not None and not self._look_at(shard, group):
                    self._to_look_at.setdefault(shard, {})[group] = None
                    await self._clock.sleep(_RETRY_S)
                elif looked_at % _GROUPS_PER_TURN == 0:
                    await asyncio.sleep(0)

    def _look_at(self, shard: GroupShard, group: str) -> bool:
        """False: what has to be done could not be written down."""
        if shard.is_ended or group not in shard.groups:
            return True
        try:
            shard.carry_out(
                membership.topics_changed(
                    shard.groups, group, topics=self.context.topics, now_ms=self._clock.wall_ms()
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
            now_ms = self._retention_time.now_ms()
            for each in list(self._coordinated.values()):
                await self._expire_in(each.shard, now_ms)

    async def _expire_in(self, shard: GroupShard, now_ms: int) -> None:
        for count, name in enumerate(list(shard.groups), 1):
            group = shard.groups.get(name)
            if group is None:
                continue
            retention_ms = self.context.settings.offsets_retention_ms
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


def _pop_group(to_look_at: dict[GroupShard, dict[str, None]], shard: GroupShard) -> str | None:
    groups = to_look_at[shard]
    group = next(iter(groups), None)
    if group is not None:
        del groups[group]
    if not groups:
        del to_look_at[shard]
    return group
