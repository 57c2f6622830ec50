"""Members of a group in a simulated cluster: processes that join, leave, crash and stand still.

Each is the real consumer in a process of its own, on a machine of its own. It commits what it was handed,
now and then, and the history keeps what it was told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from functools import partial
from itertools import groupby
from typing import Final

from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.history.entries import ReadRecord
from quorate.chaos.history.group_ledger import GroupLedger
from quorate.chaos.sim.process import SimProcess
from quorate.client.consumer.async_consumer import AsyncConsumer
from quorate.core.ids import Offset, PartitionId, TopicName, TopicPartition
from quorate.core.records import ConsumerRecord
from quorate.errors import QuorateError

__all__ = ["GroupMembers"]

_POLL_S: Final = 0.3
_COMMIT_SHARE: Final = 0.4
_LIFE_S_RANGE: Final = (0.3, 2.5)
#: within a session, and beyond it
_PAUSE_S_RANGES: Final = ((0.1, 0.8), (1.5, 2.5))
_COMMIT_TIMEOUT_S: Final = 3.0


class GroupMembers:
    def __init__(self, cluster: SimCluster, ledger: GroupLedger, topic: str) -> None:
        self._cluster = cluster
        self._ledger = ledger
        self._topic = topic
        self._lives = 0
        self._is_over = False

    def end(self) -> None:
        """Those who are there leave, and nobody comes after them."""
        self._is_over = True

    async def come_and_go(self) -> None:
        """One member after another, until the end; each with a fate of its own."""
        rng = self._cluster.client_rng()
        while not self._is_over:
            life = self.begin()
            await self._cluster.clock.sleep(rng.uniform(*_LIFE_S_RANGE))
            match rng.choice(("leave", "crash", "pause", "stay")):
                case "crash":
                    life.crash()
                case "pause":
                    life.process.freeze()
                    await self._cluster.clock.sleep(rng.uniform(*rng.choice(_PAUSE_S_RANGES)))
                    life.process.thaw(self._cluster.simulation.loop)
                    await self._cluster.clock.sleep(rng.uniform(*_LIFE_S_RANGE))
                    await life.leave()
                case "leave":
                    await life.leave()
                case _:
                    await self._cluster.clock.sleep(2 * max(_LIFE_S_RANGE))
                    await life.leave()

    def begin(self) -> _Life:
        self._lives += 1
        return _Life(self._cluster, self._ledger, self._topic, f"member{self._lives}")


class _Life:
    """One process."""

    def __init__(self, cluster: SimCluster, ledger: GroupLedger, topic: str, name: str) -> None:
        self.process = SimProcess(name)
        self._cluster = cluster
        self._ledger = ledger
        self._topic = topic
        self._name = name
        self._transport = cluster.client_transport()
        self._machine = cluster.clients[-1]
        self._rng = cluster.client_rng()
        self._is_leaving = asyncio.Event()
        self._task = self.process.start(self._run())

    def crash(self) -> None:
        self.process.kill()
        self._ledger.gone(self._name)
        self._cluster.network.process_died(self._machine)

    async def leave(self) -> None:
        self._is_leaving.set()
        await asyncio.wait([self._task])
        self._task.result()

    async def _run(self) -> None:
        async with self._cluster.consumer(
            transport=self._transport, group=self._ledger.group, enable_auto_commit=False
        ) as consumer:
            consumer.subscribe(
                [self._topic],
                on_assigned=partial(self._given, consumer),
                on_revoked=self._taken,
                on_lost=self._taken,
            )
            while not self._is_leaving.is_set():
                await self._work(consumer)

    async def _work(self, consumer: AsyncConsumer) -> None:
        try:
            records = await consumer.poll(timeout=_POLL_S)
        except QuorateError:
            await self._cluster.clock.sleep(_POLL_S)
            return
        self._note(records)
        if self._rng.random() < _COMMIT_SHARE:
            await self._commit(consumer)

    def _note(self, records: Collection[ConsumerRecord]) -> None:
        for partition, found in groupby(records, _partition_of):
            read = [ReadRecord(Offset(record.offset), record.value or b"") for record in found]
            self._ledger.handed_out(self._name, partition, read)

    async def _commit(self, consumer: AsyncConsumer) -> None:
        offsets = self._ledger.due(self._name)
        if not offsets:
            return
        commits = self._ledger.committing(self._name, offsets)
        try:
            await consumer.commit(dict(offsets.items()), timeout=_COMMIT_TIMEOUT_S)
        except QuorateError as error:
            # Refused, or nobody knows.
            self._ledger.committed(commits, error.code)
        else:
            self._ledger.committed(commits)

    def _given(self, consumer: AsyncConsumer, partitions: Collection[TopicPartition]) -> None:
        membership = consumer.membership()
        epoch = None if membership is None else membership.epoch
        for partition in partitions:
            self._ledger.given(self._name, partition, member_epoch=epoch)

    def _taken(self, partitions: Collection[TopicPartition]) -> None:
        self._ledger.taken(self._name, partitions)


def _partition_of(record: ConsumerRecord) -> TopicPartition:
    return TopicPartition(TopicName(record.topic), PartitionId(record.partition))
