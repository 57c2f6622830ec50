"""What the active controller does unasked, now and then.

The first thing of all: a log that holds nothing yet gets its feature level and the cluster's id. Then, for
as long as it is active: partitions that nobody leads get a leader if they can have one, leaders move back to
their preferred replicas, a bounded number at a time, and moves whose replicas have caught up take their next
step, in case nobody asked for an ISR since. The topic of offsets gets the copies that it lacks. And what
brokers told of their witnesses goes on record.

Missing leaders do not wait for the next round: whoever knows that there may be some says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from quorate.controller.active import ActiveController
from quorate.controller.decision import Decision
from quorate.controller.departures import PARTITION_CHANGES_PER_BATCH_MAX
from quorate.controller.heard_witnesses import WITNESS_INTERVAL_S, record_heard_witnesses
from quorate.controller.internal_topics import grow_offsets_topic
from quorate.controller.leaderless import elect_missing_leaders
from quorate.controller.preferred import move_leaders_back
from quorate.controller.reassignment import complete_reassignments
from quorate.controller.sessions import BrokerSessions
from quorate.core.clock import Clock
from quorate.core.logging import get_logger
from quorate.errors import QuorateError
from quorate.metadata.image import MetadataImage
from quorate.metadata.records import FEATURE_LEVEL_MAX, cluster_record, feature_level_record

__all__ = ["Duties", "found_metadata"]

log = get_logger(__name__)

#: leaders that move back at once; each costs its partition a short pause
_MOVES_PER_ROUND: Final = 1_000


def found_metadata(image: MetadataImage, *, cluster_id: str) -> Decision[None]:
    """The first records of a new cluster; nothing for one that has them."""
    if image.feature_level:
        return Decision((), None)
    return Decision((feature_level_record(FEATURE_LEVEL_MAX), cluster_record(cluster_id, 0)), None)


class Duties:
    def __init__(
        self,
        active: ActiveController,
        sessions: BrokerSessions,
        clock: Clock,
        *,
        interval_s: float,
        offsets_topic_replication_factor: int,
        partition_changes_per_batch_max: int = PARTITION_CHANGES_PER_BATCH_MAX,
    ) -> None:
        self._active = active
        self._sessions = sessions
        self._clock = clock
        self._interval_s = interval_s
        self._offsets_topic_replication_factor = offsets_topic_replication_factor
        self._changes_max = partition_changes_per_batch_max
        self._wake = asyncio.Event()

    def elect_soon(self) -> None:
        """There may be partitions that wait for a leader."""
        self._wake.set()

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._make_rounds(), name="rounds-of-duties")
            tasks.create_task(self._elect_when_asked(), name="elect-missing-leaders")
            tasks.create_task(self._record_witnesses(), name="record-witnesses")

    async def _make_rounds(self) -> None:
        while True:
            await self._clock.sleep(self._interval_s)
            self.elect_soon()
            await self._do(complete_reassignments)
            # Asked first: a decision that changes nothing would cost the quorum a round of messages.
            if self._active.is_active and self._grow_offsets_topic(self._active.image).records:
                await self._do(self._grow_offsets_topic)
            await self._do(self._move_leaders_back)

    def _move_leaders_back(self, image: MetadataImage) -> Decision[int]:
        return move_leaders_back(image, moves_max=_MOVES_PER_ROUND, leaving=self._sessions.leaving())

    async def _record_witnesses(self) -> None:
        while True:
            await self._clock.sleep(WITNESS_INTERVAL_S)
            await self._do(lambda image: record_heard_witnesses(image, self._sessions.heard_witnesses))

    async def _elect_when_asked(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            await self._do(self._elect_missing_leaders)

    def _elect_missing_leaders(self, image: MetadataImage) -> Decision[None]:
        leaving = self._sessions.leaving()
        return elect_missing_leaders(image, leaving=leaving, changes_max=self._changes_max)

    def _grow_offsets_topic(self, image: MetadataImage) -> Decision[None]:
        return grow_offsets_topic(image, replication_factor=self._offsets_topic_replication_factor)

    async def _do(self, decide: Callable[[MetadataImage], Decision[object]]) -> None:
        if not self._active.is_active:
            return
        try:
            await self._active.change(lambda image, _offset: decide(image))
        except QuorateError as error:
            log.warning("duty_put_off", reason=error.message)
