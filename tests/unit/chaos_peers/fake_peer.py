"""A peer in memory, which can be made to lose what it has acknowledged."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from quorate.chaos.peers.peer import NO_TIMESTAMP, Extent
from quorate.client.producer import RecordMetadata
from quorate.client.producer.batch import OnDelivery
from quorate.core.ids import Offset, PartitionId, TimestampMs, TopicName, TopicPartition
from quorate.core.records import ConsumerRecord
from quorate.errors import DeliveryUnknown


class FakePeer:
    name = "Fake"
    version = "1.0"
    settings: Mapping[str, str] = {"nodes": "none"}

    def __init__(self, *, loses: int = 0) -> None:
        self._loses = loses
        self.logs: dict[TopicPartition, list[bytes]] = {}
        self.is_up = False
        self.kills = 0

    @asynccontextmanager
    async def laid_out(self) -> AsyncIterator[None]:
        yield
        self.is_up = False

    async def start(self) -> None:
        self.is_up = True

    async def kill_all(self) -> None:
        """With the last records of each log, if it is one that loses them."""
        self.is_up = False
        self.kills += 1
        for log in self.logs.values():
            del log[len(log) - self._loses :]
        await asyncio.sleep(0)

    async def create_topic(self, topic: str, partitions: int) -> None:
        for number in range(partitions):
            self.logs[TopicPartition(TopicName(topic), PartitionId(number))] = []

    async def until_whole(self, topic: str) -> None:
        assert self.is_up

    async def extents(self, topic: str) -> Mapping[TopicPartition, Extent]:
        return {partition: Extent(Offset(0), Offset(len(log))) for partition, log in self.logs.items()}

    @asynccontextmanager
    async def sender(self) -> AsyncIterator[_Sender]:
        yield _Sender(self)

    @asynccontextmanager
    async def reader(self, starts: Mapping[TopicPartition, Offset]) -> AsyncIterator[_Reader]:
        yield _Reader(self, starts)


class _Sender:
    def __init__(self, peer: FakePeer) -> None:
        self._peer = peer

    async def send(
        self, topic: str, value: bytes, *, key: bytes | None, partition: int, on_delivery: OnDelivery
    ) -> None:
        if not self._peer.is_up:
            on_delivery(None, DeliveryUnknown("nobody there"))
            return
        log = self._peer.logs[TopicPartition(TopicName(topic), PartitionId(partition))]
        log.append(value)
        on_delivery(RecordMetadata(topic, partition, Offset(len(log) - 1), TimestampMs(NO_TIMESTAMP)), None)


class _Reader:
    def __init__(self, peer: FakePeer, starts: Mapping[TopicPartition, Offset]) -> None:
        self._peer = peer
        self._positions = dict(starts)

    async def poll(self) -> Sequence[ConsumerRecord]:
        await asyncio.sleep(0)
        found = []
        for partition, position in self._positions.items():
            for offset, value in enumerate(self._peer.logs[partition][position:], start=position):
                record = ConsumerRecord(
                    partition.topic, partition.partition, offset, NO_TIMESTAMP, None, value, (), -1
                )
                found.append(record)
                self._positions[partition] = Offset(offset + 1)
        return found
