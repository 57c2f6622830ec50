"""Finds the topics that a consumer reads, and the partitions that are added to them.

A topic that nobody knows is an error to tell, and to look for again: it may be made in a moment. Partitions
that appear later are read from their beginning, whatever ``auto_offset_reset`` says: they have no records
that are older than the consumer, and beginning at their end would skip the first ones.

A consumer in a group is told by its coordinator what there is to read: its searches are quiet, and what is
not there is a warning in the log.

A search ends when its topic is found, or no longer read: then nothing is told of it any more, also not what
was found out before and not told yet.

Only partitions of the topic that was found first are added. One made anew under the same name is another
topic (rule 43), and the readers of the old one say so.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Container
from typing import Final

from quorate.client.cluster import ClusterView
from quorate.client.consumer.buffer import FetchBuffer
from quorate.client.topology import TopicView
from quorate.core.backoff import Backoff
from quorate.core.clock import Clock
from quorate.core.ids import PartitionId, TopicId, TopicName, TopicPartition
from quorate.core.logging import get_logger
from quorate.errors import QuorateError, UnknownTopicOrPartition

__all__ = ["TopicSearch"]

log = get_logger(__name__)

#: While a topic is not there, brokers are asked that often.
_PAUSE_S_MAX: Final = 5.0


class TopicSearch:
    """``run`` for as long as the consumer lives."""

    def __init__(
        self,
        cluster: ClusterView,
        buffer: FetchBuffer,
        add_partition: Callable[[TopicPartition, bool], None],
        *,
        clock: Clock,
        rng: random.Random,
        timeout_s: float,
        metadata_age_s: float,
    ) -> None:
        self._cluster = cluster
        self._buffer = buffer
        #: called with each partition of a topic that is read as a whole, and whether it is new in the topic
        self._add_partition = add_partition
        self._clock = clock
        self._rng = rng
        self._timeout_s = timeout_s
        self._metadata_age_s = metadata_age_s
        #: to be found, by the order of asking
        self._sought: asyncio.Queue[TopicName] = asyncio.Queue()
        #: every topic that is read, with its search; None: it has not begun
        self._searches: dict[TopicName, asyncio.Task[None] | None] = {}
        #: whether the application is not told of a topic that is not there
        self._quiet: dict[TopicName, bool] = {}
        #: topics that are read as a whole: the id and the number of partitions that were seen; None: not
        #: found yet
        self._whole: dict[TopicName, tuple[TopicId, int] | None] = {}
        cluster.on_update(self._add_partitions)

    def want(self, topic: TopicName, *, is_quiet: bool = False) -> None:
        if topic not in self._searches:
            self._searches[topic] = None
            self._quiet[topic] = is_quiet
            self._sought.put_nowait(topic)

    def want_whole(self, topic: TopicName) -> None:
        self._whole.setdefault(topic, None)
        self.want(topic)

    def is_idle(self) -> bool:
        """No topic is read at all. Any thread may ask."""
        return not self._searches

    def is_awaited(self, topic: TopicName) -> bool:
        """Read as a whole, and not found yet."""
        return topic in self._whole and self._whole[topic] is None

    def is_any_awaited(self) -> bool:
        return any(seen is None for seen in self._whole.values())

    def keep_only(self, topics: Container[TopicName]) -> None:
        """Partitions of these are assigned one by one from now on; no other topic is read."""
        self._whole.clear()
        for topic in [each for each in self._searches if each not in topics]:
            search = self._searches.pop(topic)
            del self._quiet[topic]
            if search is not None:
                search.cancel()
            self._cluster.forget(topic)
            self._buffer.withdraw(topic)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._refresh_what_is_old())
            while True:
                topic = await self._sought.get()
                # It may be given up since, or wanted again and searched for already.
                if topic in self._searches and self._searches[topic] is None:
                    self._searches[topic] = tasks.create_task(self._find(topic))

    async def _find(self, topic: TopicName) -> None:
        backoff = Backoff(self._rng, pause_s_max=_PAUSE_S_MAX)
        told: str | None = None
        while True:
            try:
                await self._cluster.topic(topic, timeout_s=self._timeout_s)
            except QuorateError as error:
                self._tell(topic, error, is_new=error.code != told)
                told = error.code
            else:
                self._add_partitions()
                return
            await self._clock.sleep(backoff.next_s())

    def _tell(self, topic: TopicName, error: QuorateError, *, is_new: bool) -> None:
        if not self._quiet[topic]:
            self._buffer.report(topic, error)
        elif is_new and isinstance(error, UnknownTopicOrPartition):
            log.warning("topic_not_found", topic=topic, code=error.code, error=error.message)
        elif is_new:
            # Nobody has denied it. That nobody answers at all is told by `ClusterView`.
            log.info("topic_not_looked_up", topic=topic, code=error.code, error=error.message)

    async def _refresh_what_is_old(self) -> None:
        while True:
            # With jitter: consumers that were started together need not ask together.
            await self._clock.sleep(self._metadata_age_s * self._rng.uniform(0.8, 1.2))
            self._cluster.needs_refresh()

    def _add_partitions(self) -> None:
        for topic, seen in list(self._whole.items()):
            view = self._cluster.known_topic(topic)
            if view is None or (seen is not None and seen[0] != view.topic_id):
                continue
            self._whole[topic] = view.topic_id, len(view.partitions)
            self._add_those(view, first=0 if seen is None else seen[1], is_new=seen is not None)

    def _add_those(self, view: TopicView, *, first: int, is_new: bool) -> None:
        for number in range(first, len(view.partitions)):
            self._add_partition(TopicPartition(view.name, PartitionId(number)), is_new)
