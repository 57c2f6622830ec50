"""Ourselves, seen as one of them: the same load, the same fault, and the same look from outside."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Final

from quorate.chaos.checks.violation import Violation
from quorate.chaos.live.waiting import until_whole
from quorate.chaos.peers.peer import Extent
from quorate.client import AsyncAdmin, AsyncConsumer, AsyncProducer
from quorate.core.ids import Offset, TopicPartition
from quorate.core.records import ConsumerRecord
from quorate.errors import LogTruncated, OffsetOutOfRange
from quorate.node.local_cluster import LocalCluster

__all__ = ["QuoratePeer"]

_DELIVERY_TIMEOUT_MS: Final = 120_000
_POLL_S: Final = 1.0


class QuoratePeer:
    name: Final = "Quorate"
    settings: Final[Mapping[str, str]] = {
        "nodes": "3, each a broker and a voter",
        "topic": "replication.factor=3, min.insync.replicas=2, durability=replicated (no sync before an "
        "acknowledgement), all defaults",
        "producer": "acks=all, idempotent, delivery_timeout_ms=120000, all defaults",
    }

    def __init__(self) -> None:
        self.version = version("quorate")
        self._cluster: LocalCluster | None = None

    @property
    def _running(self) -> LocalCluster:
        assert self._cluster is not None, "it was laid out"
        return self._cluster

    @asynccontextmanager
    async def laid_out(self) -> AsyncIterator[None]:
        self._cluster = LocalCluster.create(is_combined=True)
        try:
            yield
        finally:
            await self._cluster.dispose()

    async def start(self) -> None:
        await self._running.start()

    async def kill_all(self) -> None:
        await self._running.kill(*self._running.names)

    async def create_topic(self, topic: str, partitions: int) -> None:
        async with AsyncAdmin(self._running.bootstrap) as admin:
            await admin.create_topic(topic, partitions=partitions, replication_factor=3)

    async def until_whole(self, topic: str) -> None:
        async with AsyncAdmin(self._running.bootstrap) as admin:
            await until_whole(admin, topic)

    async def extents(self, topic: str) -> Mapping[TopicPartition, Extent]:
        async with AsyncAdmin(self._running.bootstrap) as admin:
            starts = await admin.list_offsets(topic, "earliest")
            ends = await admin.list_offsets(topic, "latest")
        found: dict[TopicPartition, Extent] = {}
        for partition, start in starts.items():
            end = ends[partition]
            assert start.offset is not None, "every log has a beginning"
            assert end.offset is not None, "every log has an end"
            found[partition] = Extent(Offset(start.offset), Offset(end.offset))
        return found

    def sender(self) -> AsyncProducer:
        return AsyncProducer(self._running.bootstrap, acks="all", delivery_timeout_ms=_DELIVERY_TIMEOUT_MS)

    @asynccontextmanager
    async def reader(self, starts: Mapping[TopicPartition, Offset]) -> AsyncIterator[_Reader]:
        async with AsyncConsumer(self._running.bootstrap) as consumer:
            consumer.assign(list(starts))
            for partition, start in starts.items():
                consumer.seek(partition, start)
            yield _Reader(consumer)


class _Reader:
    def __init__(self, consumer: AsyncConsumer) -> None:
        self._consumer = consumer

    async def poll(self) -> Sequence[ConsumerRecord]:
        try:
            return await self._consumer.poll(timeout=_POLL_S)
        except (LogTruncated, OffsetOutOfRange) as error:
            message = f"what was read is no longer there: {error.message}"
            raise Violation(message, check="truncated-after-read") from error
