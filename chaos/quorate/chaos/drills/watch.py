"""Follows the cluster's metadata while it is being broken: elections, ISR changes, fenced brokers.

A broker's way of following is used, so nothing that was committed is missed; a description that is asked for
now and then would miss an election between two looks. Of the active controller the metadata says nothing, so
that one is asked for. Controllers may be out of reach, as those of containers are whose ports nobody
published. Then topics are described again and again instead: that shows that a fault has had an effect, and
the checks that need every change say that they had nothing to look at.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from quorate.chaos.drills.timeline import EventKind, Timeline
from quorate.chaos.history.partition_images import saw_partition_image
from quorate.chaos.history.watermarks import watch_watermarks
from quorate.client import AsyncAdmin
from quorate.client.transport import client_transport
from quorate.core.clock import SystemClock
from quorate.core.ids import BrokerId, TopicPartition
from quorate.errors import QuorateError
from quorate.metadata.changes import MetadataDelta
from quorate.metadata.follower import MetadataFollower
from quorate.metadata.image import NO_LEADER, MetadataImage, PartitionImage

__all__ = ["ClusterWatch"]

_CONTROLLER_POLL_S: Final = 0.25
_GLANCE_S: Final = 0.25
_ANSWER_TIMEOUT_S: Final = 2.0
#: what the history calls us
_SOURCE: Final = "a follower of the metadata"


class SeenPartition(NamedTuple):
    #: None: it is offline
    leader: int | None
    leader_epoch: int
    isr: frozenset[int]


@dataclass(slots=True)
class ClusterWatch:
    timeline: Timeline
    #: only these, by name: a cluster that the drill is attached to may have others
    topics: frozenset[str]
    #: each node by its id
    name_of: Callable[[int], str]
    #: who led in each term, as far as it was seen
    controllers: dict[int, set[int]] = field(default_factory=dict)
    #: as it is now; None: nobody could be followed yet
    image: MetadataImage | None = None
    #: addresses
    _asked: Sequence[str] = ()

    @property
    def reachable_controllers(self) -> Sequence[str]:
        """Empty where none of them has ever answered."""
        return () if self.image is None else self._asked

    @asynccontextmanager
    async def watching(self, admin: AsyncAdmin, addresses: Sequence[str]) -> AsyncIterator[None]:
        """``addresses``: of the controllers."""
        self._asked = addresses
        follower = MetadataFollower(
            client_transport(),
            addresses,
            clock=SystemClock(),
            broker_id=BrokerId(0),
            on_image=self._on_image,
        )
        tasks: list[asyncio.Task[None]] = [
            asyncio.create_task(follower.run()),
            asyncio.create_task(self._ask_for_controller(admin)),
            asyncio.create_task(self._glance(admin)),
            *(
                asyncio.create_task(watch_watermarks(admin, self.timeline.history, topic))
                for topic in sorted(self.topics)
            ),
        ]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        for task in tasks:
            if not task.cancelled():
                task.result()

    async def _ask_for_controller(self, admin: AsyncAdmin) -> None:
        while True:
            with suppress(QuorateError, TimeoutError):
                async with asyncio.timeout(_ANSWER_TIMEOUT_S):
                    quorum = await admin.describe_quorum()
                # Whoever was there first was elected before anything was done to anybody.
                is_first = not self.controllers
                leaders = self.controllers.setdefault(quorum.term, set())
                if quorum.leader not in leaders:
                    leaders.add(quorum.leader)
                    if not is_first:
                        what = f"{self.name_of(quorum.leader)}, term {quorum.term}"
                        self.timeline.note(EventKind.CONTROLLER, what)
            await asyncio.sleep(_CONTROLLER_POLL_S)

    async def _glance(self, admin: AsyncAdmin) -> None:
        """As long as nobody can be followed."""
        seen: dict[str, SeenPartition] = {}
        fenced: set[int] | None = None
        while True:
            await asyncio.sleep(_GLANCE_S)
            if self.image is None:
                fenced = await self._glance_at_brokers(admin, fenced)
            for topic in sorted(self.topics) if self.image is None else ():
                with suppress(QuorateError):
                    found = await admin.describe_topic(topic, timeout=_ANSWER_TIMEOUT_S)
                    for each in found.partitions:
                        now = SeenPartition(each.leader, each.leader_epoch, frozenset(each.isr))
                        name = f"{topic}-{each.partition}"
                        # Whoever begins to follow tells the rest by itself.
                        if name in seen and self.image is None:
                            self._tell_partition(name, seen[name], now)
                        seen[name] = now

    async def _glance_at_brokers(self, admin: AsyncAdmin, fenced: set[int] | None) -> set[int] | None:
        """Those that are fenced now; None: nobody has said it yet."""
        with suppress(QuorateError, TimeoutError):
            async with asyncio.timeout(_ANSWER_TIMEOUT_S):
                brokers = (await admin.describe_cluster()).brokers
            now = {each.broker_id for each in brokers if each.is_fenced}
            for broker_id in sorted(now - fenced) if fenced is not None else ():
                self.timeline.note(EventKind.FENCED, self.name_of(broker_id))
            return now
        return fenced

    # -- metadata

    def _on_image(self, image: MetadataImage, delta: MetadataDelta) -> None:
        is_first, self.image = self.image is None, image
        for partition in delta.partitions:
            topic = image.topics[partition.topic_id]
            if topic.name in self.topics:
                key = TopicPartition(topic.name, partition.partition)
                saw_partition_image(self.timeline.history, _SOURCE, key, partition)
                earlier = (
                    None if is_first else delta.before.partition(partition.topic_id, partition.partition)
                )
                if earlier is not None:
                    name = f"{key.topic}-{key.partition}"
                    self._tell_partition(name, _seen(earlier), _seen(partition))
        for broker_id in () if is_first else delta.brokers:
            before, after = delta.before.brokers.get(broker_id), image.brokers.get(broker_id)
            if before is not None and after is not None and after.is_fenced and not before.is_fenced:
                self.timeline.note(EventKind.FENCED, self.name_of(broker_id))

    def _tell_partition(self, name: str, before: SeenPartition, after: SeenPartition) -> None:
        if after.leader != before.leader:
            if after.leader is None:
                self.timeline.note(EventKind.OFFLINE, name)
            else:
                elected = f"{name}: {self.name_of(after.leader)}, epoch {after.leader_epoch}"
                self.timeline.note(EventKind.ELECTION, elected)
        lost, gained = before.isr - after.isr, after.isr - before.isr
        if lost:
            self.timeline.note(EventKind.ISR_SHRUNK, f"{name}: without {self._names(lost)}")
        if gained:
            self.timeline.note(EventKind.ISR_GREW, f"{name}: with {self._names(gained)}")

    def _names(self, broker_ids: Iterable[int]) -> str:
        return ", ".join(self.name_of(each) for each in sorted(broker_ids))


def _seen(partition: PartitionImage) -> SeenPartition:
    leader = None if partition.leader == NO_LEADER else partition.leader
    return SeenPartition(leader, partition.leader_epoch, frozenset(partition.isr))
