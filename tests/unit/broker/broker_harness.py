"""The handlers of a broker over real replicas and logs, on a simulated disk in virtual time.

The metadata is made by hand: topics appear, leaders and ISRs change as a test says. Other brokers exist in
the metadata alone; what they would acknowledge, a test acknowledges for them.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from immutables import Map

from quorate.broker.controller_link.lease import Lease
from quorate.broker.handlers.broker_service import BrokerService
from quorate.broker.hosted import Hosted
from quorate.broker.replica.partition import Partition
from quorate.broker.replica.partition_state import PartitionState
from quorate.chaos.sim.clock import Simulation, run_simulation
from quorate.chaos.sim.disk import SimDisk
from quorate.core.clock import Clock
from quorate.core.config import NodeConfig
from quorate.core.disk import Disk
from quorate.core.ids import (
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    Offset,
    PartitionId,
    ProducerId,
    TopicId,
    TopicName,
    TopicPartition,
)
from quorate.core.records import Record, encode_batch
from quorate.errors import QuorateError
from quorate.metadata.image import BrokerImage, MetadataImage, PartitionImage, TopicImage
from quorate.metadata.topic_settings import durability_of, min_insync_replicas_of
from quorate.storage import LogConfig, LogContext, OpenFiles, PartitionLog, StartKind
from quorate.v1 import broker_pb2, records_pb2

DATA_DIRECTORY = "/data"
DEFAULT_CONFIG = NodeConfig(node_id=BrokerId(1), data_dir=DATA_DIRECTORY)
SELF, SECOND, THIRD = BrokerId(1), BrokerId(2), BrokerId(3)
LEASE_S = 2.0


class NoCall:
    """What a handler may know about a call that never travelled."""

    peer = "test"

    def remaining_s(self) -> float:
        return math.inf

    def when_over(self, callback: Callable[[], None]) -> None:
        """Nothing has to carry its answer."""
        callback()


class Fatal(Exception):
    """The process would have ended here."""


def _fatal(reason: str) -> NoReturn:
    raise Fatal(reason)


class CountingProducerIds:
    """Ids in a row, without a controller."""

    def __init__(self) -> None:
        self._next = 1000

    async def next_id(self) -> ProducerId:
        self._next += 1
        return ProducerId(self._next)


@dataclass
class Replicas:
    """Every replica of the broker, by hand."""

    found: dict[tuple[TopicId, PartitionId], Partition | QuorateError] = field(default_factory=dict)

    def get(self, topic_id: TopicId, partition: PartitionId) -> Partition | QuorateError | None:
        return self.found.get((topic_id, partition))


def broker_image(broker_id: BrokerId) -> BrokerImage:
    return BrokerImage(
        broker_id=broker_id,
        broker_epoch=BrokerEpoch(100 + broker_id),
        incarnation_id=f"incarnation-{broker_id}",
        directory_id=f"directory-{broker_id}",
        address=f"broker{broker_id}:9092",
        rack=f"rack{broker_id}",
        feature_level_min=1,
        feature_level_max=1,
        is_fenced=False,
        is_shutting_down=False,
        is_draining=False,
    )


class OneBroker:
    """One broker of three, on any disk and clock."""

    def __init__(self, clock: Clock, disk: Disk, config: NodeConfig) -> None:
        self.clock = clock
        self.config = config
        self.lease = Lease(self.clock, duration_s=LEASE_S)
        self.keep_lease()
        self.replicas = Replicas()
        self.hosted = Hosted(config, SELF, self.replicas, self.lease)
        self.image = MetadataImage(
            offset=1,
            cluster_id="test-cluster",
            brokers=Map({each: broker_image(each) for each in (SELF, SECOND, THIRD)}),
        )
        self.hosted.image_changed(self.image)
        self.service = BrokerService(
            config, self.hosted, self.clock, next_producer_id=CountingProducerIds().next_id
        )
        self._handlers = {method.name: handler for method, handler in self.service.service.handlers.items()}
        self._context = LogContext(disk, clock, OpenFiles(disk, files_max=16), _fatal)

    @property
    def now(self) -> float:
        return self.clock.monotonic()

    # -- the lease

    def keep_lease(self) -> None:
        """As if the controller had been heard of for all the time of the test."""
        self.lease.renew(math.inf)

    # -- metadata

    async def create_topic(
        self, name: str = "t", *, partitions: int = 1, replicas: Sequence[BrokerId] = (SELF,), **configs: str
    ) -> None:
        """Led by this broker, with every replica in the ISR."""
        topic_id = TopicId(f"{name:_<22}")
        images = tuple(
            PartitionImage(
                topic_id=topic_id,
                partition=PartitionId(number),
                replicas=tuple(replicas),
                isr=tuple(sorted(replicas)),
                elr=(),
                last_known_elr=(),
                leader=SELF,
                leader_epoch=LeaderEpoch(0),
                partition_epoch=0,
            )
            for number in range(partitions)
        )
        own = Map({key.replace("_", "."): value for key, value in configs.items()})
        topic = TopicImage(topic_id, TopicName(name), own, images)
        self._set_image(
            topics=self.image.topics.set(topic_id, topic),
            topic_ids=self.image.topic_ids.set(topic.name, topic_id),
        )
        for image in images:
            self.replicas.found[topic_id, image.partition] = await self._open_replica(topic, image)
            self._apply(image)

    async def _open_replica(self, topic: TopicImage, image: PartitionImage) -> Partition:
        directory = f"{self.config.data_dir}/{topic.name}-{image.partition}"
        self._context.disk.make_directory(directory)
        config = self.hosted.topic_config(topic.topic_id)
        log_config = LogConfig(max_message_bytes=config.max_message_bytes, segment_bytes=config.segment_bytes)
        return Partition(
            TopicPartition(topic.name, image.partition),
            topic.topic_id,
            await PartitionLog.open(self._context, log_config, directory, start=StartKind.CLEAN),
            broker_id=SELF,
            clock=self.clock,
            high_watermark=Offset(0),
            replica_lag_s=10.0,
            on_isr_wish=lambda _: None,
            on_failure=lambda *_: None,
        )

    def change(self, number: int = 0, *, topic: str = "t", **fields: Any) -> None:
        """Committed metadata changes the partition: its leader, its epoch, its ISR."""
        before = self.image.topics[self.topic_id(topic)]
        partition = before.partitions[number]
        after = replace(partition, partition_epoch=partition.partition_epoch + 1, **fields)
        partitions = (*before.partitions[:number], after, *before.partitions[number + 1 :])
        topics = self.image.topics.set(before.topic_id, replace(before, partitions=partitions))
        self._set_image(topics=topics)
        self._apply(after)

    def topic_id(self, name: str = "t") -> TopicId:
        return self.image.topic_ids[TopicName(name)]

    def _set_image(self, **fields: Any) -> None:
        self.image = replace(self.image, offset=self.image.offset + 1, **fields)
        self.hosted.image_changed(self.image)

    def _apply(self, image: PartitionImage) -> None:
        topic = self.image.topics[image.topic_id]
        found = self.replicas.found.get((image.topic_id, image.partition))
        if isinstance(found, Partition):
            found.apply(
                PartitionState(
                    image=image,
                    min_insync_replicas=min_insync_replicas_of(self.image, image),
                    durability=durability_of(self.image, topic),
                    brokers=self.image.brokers,
                )
            )

    # -- replicas

    def partition(self, number: int = 0, *, topic: str = "t") -> Partition:
        found = self.replicas.found[self.topic_id(topic), PartitionId(number)]
        assert isinstance(found, Partition)
        return found

    def follower_fetches(self, broker_id: BrokerId, offset: int, *, number: int = 0) -> None:
        """A follower has everything below ``offset`` and asks for what comes next: its acknowledgement."""
        leadership = self.partition(number).leadership
        assert leadership is not None
        broker_epoch = self.image.brokers[broker_id].broker_epoch
        leadership.follower_at(broker_id, broker_epoch, Offset(offset), leadership.epoch, Offset(0))

    def validate(self) -> None:
        for found in self.replicas.found.values():
            if isinstance(found, Partition):
                found.validate()

    # -- calls

    async def call(self, name: str, request: Any) -> Any:
        try:
            return await self.handler(name)(request, NoCall())
        finally:
            self.validate()

    def handler(self, name: str) -> Any:
        return self._handlers[name]

    def stream(self, name: str) -> Stream:
        """An open stream; close it, or receive all of it."""
        return Stream(self.handler(name))

    async def produce(
        self, *values: str, partition: int = 0, acks: broker_pb2.Acks = broker_pb2.ACKS_ALL, **more: Any
    ) -> broker_pb2.ProducePartitionResult:
        """One structured record for each value, into topic ``t``."""
        entry = broker_pb2.ProducePartition(topic="t", partition=partition, records=records(*values))
        return (await self.produce_all(entry, acks=acks, **more))[0]

    async def produce_all(
        self, *entries: broker_pb2.ProducePartition, **more: Any
    ) -> Sequence[broker_pb2.ProducePartitionResult]:
        response = await self.call("Produce", broker_pb2.ProduceRequest(partitions=entries, **more))
        results: Sequence[broker_pb2.ProducePartitionResult] = response.partitions
        return results

    async def fetch(
        self, offset: int = 0, *, partition: int = 0, **more: Any
    ) -> broker_pb2.FetchPartitionResult:
        """Structured records of topic ``t`` from ``offset`` on."""
        entry = broker_pb2.FetchPartition(topic="t", partition=partition, fetch_offset=offset)
        more.setdefault("format", broker_pb2.RECORD_FORMAT_RECORDS)
        return (await self.fetch_all(entry, **more))[0]

    async def fetch_all(
        self, *entries: broker_pb2.FetchPartition, **more: Any
    ) -> Sequence[broker_pb2.FetchPartitionResult]:
        response = await self.call("Fetch", broker_pb2.FetchRequest(partitions=entries, **more))
        results: Sequence[broker_pb2.FetchPartitionResult] = response.partitions
        return results

    async def values(self, partition: int = 0) -> list[str]:
        """All that a consumer can read of a partition."""
        found: list[str] = []
        offset = 0
        while True:
            result = await self.fetch(offset, partition=partition)
            assert not result.HasField("error"), result.error
            if not result.records:
                return found
            found += [record.value.decode() for record in result.records]
            offset = result.next_fetch_offset


class World(OneBroker):
    """The same on a simulated disk in virtual time."""

    def __init__(self, simulation: Simulation, disk: SimDisk, config: NodeConfig) -> None:
        super().__init__(simulation.clock, disk, config)
        self.disk = disk


class Stream:
    """A client's end of a stream. What it sends is read when the handler wants it, as with flow control."""

    def __init__(self, handler: Any) -> None:
        self._unread: asyncio.Queue[Any] = asyncio.Queue()
        #: requests that the handler has taken
        self.read_count = 0
        self._responses = handler(self._requests(), NoCall())

    async def _requests(self) -> AsyncIterator[Any]:
        while (request := await self._unread.get()) is not None:
            self.read_count += 1
            yield request

    def send(self, request: Any) -> None:
        self._unread.put_nowait(request)

    def half_close(self) -> None:
        self._unread.put_nowait(None)

    async def receive(self) -> Any:
        return await anext(self._responses)

    async def receive_rest(self) -> list[Any]:
        return [response async for response in self._responses]

    async def close(self) -> None:
        await self._responses.aclose()


def simulate(
    scenario: Callable[[World], Awaitable[None]], *, sync_delay_s: float = 0.0, **config: Any
) -> None:
    """Run ``scenario`` on a broker with an empty disk and fields of its configuration."""

    async def main(simulation: Simulation) -> None:
        disk = SimDisk(sync_delay_s=sync_delay_s)
        disk.make_directory(DATA_DIRECTORY)
        world = World(simulation, disk, replace(DEFAULT_CONFIG, **config))
        try:
            await scenario(world)
        finally:
            for found in world.replicas.found.values():
                if isinstance(found, Partition):
                    found.stop()

    run_simulation(main, seed=1)


def records(*values: str) -> list[records_pb2.Record]:
    return [records_pb2.Record(value=value.encode()) for value in values]


def batch(*values: str, **fields: Any) -> bytes:
    """A batch as a client that encodes would send it."""
    return encode_batch([Record(0, 1_000, None, value.encode()) for value in values], **fields)


async def settle() -> None:
    """Let every task run that can, without time passing."""
    for _ in range(20):
        await asyncio.sleep(0)
