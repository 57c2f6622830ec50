"""A group's offsets without membership: the application assigns, and goes on where the group stands.

A partition that was assigned is not fetched before it is known what is committed in it. A seek of the
application's counts more. Commits are in nobody's name; the coordinator takes them while the group has no
members.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from quorate.client.consumer.group.commit_policy import CommitPolicy, partition_of
from quorate.client.consumer.parts import ConsumerParts
from quorate.client.consumer.positions import PartitionReader, Position
from quorate.client.groups.committed import fetch_committed
from quorate.client.groups.coordinator import CoordinatorLink
from quorate.core.backoff import Backoff
from quorate.errors import QuorateError

__all__ = ["AssignedByHand"]

_PAUSE_S_MAX: Final = 5.0


class AssignedByHand:
    """``run`` for as long as the consumer lives."""

    def __init__(self, parts: ConsumerParts, link: CoordinatorLink, commit_policy: CommitPolicy) -> None:
        self._readers = parts.readers
        self._link = link
        self._fetching = parts.fetching
        self._buffer = parts.buffer
        self._commit_policy = commit_policy
        self._clock = parts.clock
        self._backoff = Backoff(parts.rng, pause_s_max=_PAUSE_S_MAX)
        self._timeout_s = parts.timeout_s
        #: to be placed, with their generation as of when they were assigned
        self._waiting: dict[PartitionReader, int] = {}
        self._wake = asyncio.Event()

    def add(self, reader: PartitionReader) -> None:
        self._waiting[reader] = reader.generation
        self._wake.set()

    def removed(self, reader: PartitionReader) -> None:
        partition = partition_of(reader)
        if partition is not None:
            self._commit_policy.forget([partition])

    async def run(self) -> None:
        while True:
            self._wake.clear()
            # Those that are not assigned any more are nobody's business.
            self._waiting = {
                reader: generation
                for reader, generation in self._waiting.items()
                if self._readers.get(reader.topic_partition) is reader
            }
            if not self._waiting:
                await self._wake.wait()
                continue
            try:
                await self._place(dict(self._waiting))
            except QuorateError as error:
                self._buffer.report(f"group {self._link.group}", error)
                await self._clock.sleep(self._backoff.next_s())
            else:
                self._backoff.reset()

    async def _place(self, waiting: Mapping[PartitionReader, int]) -> None:
        named = {}
        for reader in waiting:
            named[await self._commit_policy.identify(reader.topic_partition, self._timeout_s)] = reader
        committed = await fetch_committed(self._link, named, timeout_s=self._timeout_s)
        for partition, reader in named.items():
            generation = self._waiting.pop(reader, None)
            if self._readers.get(reader.topic_partition) is not reader:
                continue
            found = committed.get(partition)
            if found is not None and reader.generation == generation:
                reader.topic_id = partition.topic_id
                reader.seek(Position(found.offset, found.leader_epoch))
            self._fetching.restore(reader)
