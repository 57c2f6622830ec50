"""The lag of every group that this broker coordinates, looked at now and then while somebody wants to know.

For metrics. Whoever reads them does so every few seconds, and asks nobody: he gets what the last *look* has
found. A look walks over all groups, asks the leaders of what they read, and is taken again at an interval.
When nobody has read for some minutes there are no looks, and what the last one found is forgotten: old
numbers are worse than none. The first reader after that waits a moment for the first look.

Everything here gives way to other work. A look goes on in pieces of a few hundred partitions; what belongs to
one leader goes into one question for each piece. A bound on partitions keeps clients that make up groups from
filling a collector's memory; groups that do not fit are left out as a whole, since half a group would look
like a group that is doing well.

What is told of a group need not be committed, as answers of a coordinator have to be (rule 56): no reader
goes on from it, and numbers that wait for a follower would be missing just when something is wrong.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, NoReturn

from quorate.broker.groups.coordinator import GroupCoordinator
from quorate.broker.groups.group import Group
from quorate.broker.groups.lag import Lag, Progress, find_lags, partitions_read
from quorate.broker.groups.leader_calls import LeaderCalls
from quorate.broker.groups.shard import GroupShard
from quorate.broker.groups.wake_up import WakeUp
from quorate.core.config import MetricsConfig
from quorate.core.ids import BrokerId, TopicId
from quorate.core.logging import get_logger
from quorate.errors import QuorateError
from quorate.v1.group_pb2 import GroupState

__all__ = ["GroupSnapshot", "LagSnapshot", "LagWatch", "PartitionSnapshot"]

log = get_logger(__name__)

#: looks go on for so long after the last reader: collectors come every two minutes at least
_WATCHED_S: Final = 180.0
#: how long the first reader waits for the first look
_FIRST_LOOK_S: Final = 3.0
#: what is older than so many intervals is not told
_INTERVALS_KEPT: Final = 3
#: about so many partitions are dealt with in one turn of the loop
_PARTITIONS_PER_TURN: Final = 250
#: groups that are walked over in one turn when they are left out
_GROUPS_PER_TURN: Final = 32


class PartitionSnapshot(NamedTuple):
    topic: str
    partition: int
    #: None: its leader did not say
    lag: Lag | None


class GroupSnapshot(NamedTuple):
    name: str
    state: GroupState
    members: int
    partitions: Sequence[PartitionSnapshot]


class LagSnapshot:
    """What one look has found. It stays as it is, but for groups that others coordinate by now."""

    def __init__(self, began_at: float) -> None:
        #: monotonic seconds: nothing in it is older
        self.began_at = began_at
        #: groups that did not fit
        self.left_out = 0
        self._found: list[tuple[GroupShard, GroupSnapshot]] = []

    def add(self, shard: GroupShard, group: GroupSnapshot) -> None:
        """For who makes it."""
        self._found.append((shard, group))

    def groups(self) -> tuple[GroupSnapshot, ...]:
        """Of those that this broker coordinates still."""
        return tuple(group for shard, group in self._found if not shard.is_ended)


class LagWatch:
    def __init__(self, coordinator: GroupCoordinator, calls: LeaderCalls, config: MetricsConfig) -> None:
        self._coordinator = coordinator
        self._context = coordinator.context
        self._clock = coordinator.context.clock
        self._calls = calls
        self._interval_s = config.groups_interval_ms / 1000
        self._partitions_max = config.groups_partitions_max
        self._wanted_at = -math.inf
        self._is_wanted = asyncio.Event()
        self._is_running = False
        self._latest: LagSnapshot | None = None
        self._has_looked = WakeUp()
        self._has_left_out = False

    # -- for whoever reads

    async def want(self) -> None:
        """Somebody is about to read. Waits, for a moment, if there is nothing to be read yet."""
        self._wanted_at = self._clock.monotonic()
        self._is_wanted.set()
        if self._is_running and self.latest() is None:
            await self._has_looked.wait(self._clock, _FIRST_LOOK_S)

    def latest(self) -> LagSnapshot | None:
        """None: there is none that is worth telling; it is old, or nobody wanted to know."""
        snapshot = self._latest
        if snapshot is None or self.age_s(snapshot) > _INTERVALS_KEPT * self._interval_s:
            return None
        # Another broker may coordinate by now, and tell the same (rule 37).
        return snapshot if self._context.hosted.lease.is_valid else None

    def age_s(self, snapshot: LagSnapshot) -> float:
        return self._clock.monotonic() - snapshot.began_at

    # -- looking

    async def run(self) -> NoReturn:
        """Until cancelled."""
        self._is_running = True
        try:
            while True:
                await self._is_wanted.wait()
                try:
                    self._latest = await self._look()
                except Exception:  # a bug of ours, and no reason to stop a broker
                    log.exception("lag_not_looked_at")
                self._has_looked.wake()
                await self._clock.sleep(self._interval_s)
                if self._clock.monotonic() - self._wanted_at > _WATCHED_S:
                    self._is_wanted.clear()
                    self._latest = None
        finally:
            self._is_running = False
            self._has_looked.wake()

    async def _look(self) -> LagSnapshot:
        snapshot = LagSnapshot(self._clock.monotonic())
        room = self._partitions_max
        piece: list[tuple[GroupShard, _Found]] = []
        piece_size = 0
        silent: dict[BrokerId, QuorateError] = {}
        for count, (shard, group) in enumerate(self._groups(), 1):
            found = self._find(group)
            if found.size > room:
                snapshot.left_out += 1
            else:
                room -= found.size
                piece_size += found.size
                piece.append((shard, found))
            if piece_size >= _PARTITIONS_PER_TURN:
                await self._ask(piece, snapshot, silent)
                piece, piece_size = [], 0
            elif count % _GROUPS_PER_TURN == 0:
                await asyncio.sleep(0)
        await self._ask(piece, snapshot, silent)
        self._note_left_out(snapshot)
        return snapshot

    def _groups(self) -> Iterator[tuple[GroupShard, Group]]:
        """As they are when it is their turn; which there are may change on the way."""
        for shard in self._coordinator.loaded():
            for name in shard.groups:
                group = shard.groups.get(name)
                if group is not None and not group.is_deleted:
                    yield shard, group

    def _find(self, group: Group) -> _Found:
        topics = self._context.hosted.image.topics
        partitions = sorted(each for each in partitions_read(group, topics) if each.topic_id in topics)
        names = {topic_id: topics[topic_id].name for topic_id in {each.topic_id for each in partitions}}
        progress = [Progress.of(group, partition) for partition in partitions]
        return _Found(group.name, group.state, len(group.members), progress, names)

    async def _ask(
        self,
        piece: Sequence[tuple[GroupShard, _Found]],
        snapshot: LagSnapshot,
        silent: dict[BrokerId, QuorateError],
    ) -> None:
        progress = [place for _, found in piece for place in found.progress]
        lags = iter(await find_lags(progress, self._calls, self._context, silent))
        for shard, found in piece:
            partitions = [
                PartitionSnapshot(found.names[topic_id], number, _known(next(lags)))
                for (topic_id, number), _ in found.progress
            ]
            snapshot.add(shard, GroupSnapshot(found.name, found.state, found.members, partitions))

    def _note_left_out(self, snapshot: LagSnapshot) -> None:
        """Once for each time that it begins: the metric tells the rest."""
        if snapshot.left_out and not self._has_left_out:
            log.warning(
                "group_metrics_left_out", groups=snapshot.left_out, partitions_max=self._partitions_max
            )
        self._has_left_out = snapshot.left_out > 0


class _Found(NamedTuple):
    """A group as it was when it was walked over."""

    name: str
    state: GroupState
    members: int
    #: in topics that exist
    progress: Sequence[Progress]
    names: Mapping[TopicId, str]

    @property
    def size(self) -> int:
        return 1 + len(self.progress)


def _known(lag: Lag | QuorateError) -> Lag | None:
    return None if isinstance(lag, QuorateError) else lag
