"""All groups that this broker coordinates: a shard for each partition of the topic of offsets that it leads.

Shards come and go with leaderships. A new one is loaded as soon as the metadata says that this broker
leads, or when the first request comes, whichever is sooner; a few at a time, so that a broker that takes
over many still does its other work. One that could not be loaded is tried again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, NoReturn

from quorate.broker.groups.context import GroupContext
from quorate.broker.groups.group_members import GroupMembers
from quorate.broker.groups.shard import GroupShard
from quorate.broker.groups.upkeep import GroupUpkeep
from quorate.broker.hosted import Hosted
from quorate.broker.replica.leadership import Leadership
from quorate.broker.replica.partition import Partition
from quorate.core.clock import Clock
from quorate.core.config import NodeConfig
from quorate.core.ids import PartitionId
from quorate.core.logging import get_logger
from quorate.core.topic_names import OFFSETS_TOPIC
from quorate.errors import CoordinatorNotAvailable, LeadershipError, QuorateError
from quorate.metadata.changes import MetadataDelta
from quorate.metadata.image import PartitionImage

__all__ = ["Coordinated", "GroupCoordinator"]

log = get_logger(__name__)

#: Reading a log keeps the loop busy; two of them keep the disk busy as well.
_LOADING_AT_ONCE: Final = 2
#: a shard that could not be loaded is tried again after this
_LOAD_AGAIN_S: Final = 5.0
#: how soon to look again for a leadership that the metadata speaks of and the replica has not taken up yet
_LOOK_AGAIN_S: Final = 0.25
_LOOK_AGAIN_S_MAX: Final = 5.0


class Coordinated(NamedTuple):
    """One partition that this broker coordinates."""

    shard: GroupShard
    members: GroupMembers


class GroupCoordinator:
    def __init__(self, config: NodeConfig, hosted: Hosted, clock: Clock) -> None:
        self._hosted = hosted
        self._clock = clock
        self.context = GroupContext(config, hosted, clock, group_count=self._group_count)
        self._coordinated: dict[PartitionId, Coordinated] = {}
        self._may_lead = asyncio.Event()
        #: shards that have to be loaded, in the order in which they came
        self._to_load: asyncio.Queue[GroupShard] = asyncio.Queue()
        self._upkeep = GroupUpkeep(config.groups, self.context, self.loaded)

    def _group_count(self) -> int:
        return sum(len(each.shard.groups) for each in self._coordinated.values())

    # -- the metadata

    def image_changed(self, delta: MetadataDelta | None) -> None:
        """After the replicas have taken up their parts. None: everything is new."""
        self._may_lead.set()
        if self.context.image_changed(delta):
            self._upkeep.topics_changed()

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
            tasks.create_task(self._upkeep.run(), name="group-upkeep")

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
                self._upkeep.look_at_all(shard)
            else:
                self._clock.call_later(_LOAD_AGAIN_S, self._to_load_again(shard))

    def _to_load_again(self, shard: GroupShard) -> Callable[[], None]:
        def load_again() -> None:
            if not shard.is_ended:
                self._to_load.put_nowait(shard)

        return load_again
