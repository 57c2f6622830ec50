"""Brokers with logs in memory, on the simulated network: what a consumer needs, failing on demand."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from quorate.chaos.models.producer.simulated_brokers import (
    BOOTSTRAP,
    BROKER_IDS,
    SimulatedBrokers,
    service_of,
    simulate_with,
)
from quorate.chaos.sim.clock import Simulation
from quorate.chaos.sim.network import SimNetwork
from quorate.client.consumer.async_consumer import AsyncConsumer
from quorate.core.records import Compression, encode_values
from quorate.core.transport import Call, Service
from quorate.errors import (
    NotLeaderOrFollower,
    OffsetOutOfRange,
    QuorateError,
    UnknownTopicOrPartition,
    wrong_leader_epoch,
)
from quorate.rpc.error_detail import detail_from_error
from quorate.v1 import broker_pb2

T = TypeVar("T")
TIMESTAMP = 1_767_225_600_000
#: the first partition of the topic that `add_topic` makes
T0: Any = ("t", 0)


class StoredBatch(NamedTuple):
    base_offset: int
    next_offset: int
    leader_epoch: int
    content: bytes


@dataclass
class FakePartition:
    """One log that all replicas share; a test that wants them to differ changes it when the leader moves."""

    leader: int = 1
    leader_epoch: int = 1
    isr: list[int] = field(default_factory=lambda: list(BROKER_IDS))
    batches: list[StoredBatch] = field(default_factory=list)
    log_start_offset: int = 0
    #: what followers know of the high watermark, if it is not all
    follower_high_watermark: int | None = None
    #: errors for the next fetches, lookups or validations of this partition, by the name of the method
    errors: dict[str, deque[QuorateError]] = field(default_factory=dict)

    @property
    def high_watermark(self) -> int:
        return self.batches[-1].next_offset if self.batches else self.log_start_offset

    def append(self, *values: bytes, compression: Compression = Compression.NONE) -> int:
        base = self.high_watermark
        content = encode_values(
            list(values),
            timestamps=range(TIMESTAMP + base, TIMESTAMP + base + len(values)),
            base_offset=base,
            leader_epoch=self.leader_epoch,
            compression=compression,
        )
        self.batches.append(StoredBatch(base, base + len(values), self.leader_epoch, content))
        return base

    def fill(self, count: int) -> None:
        """Batches of ten records, each with its offset as its value."""
        while self.high_watermark < count:
            base = self.high_watermark
            self.append(*(b"%d" % offset for offset in range(base, min(base + 10, count))))

    def truncate(self, end_offset: int) -> None:
        """As after an unclean election; at the end of a batch."""
        self.batches = [batch for batch in self.batches if batch.next_offset <= end_offset]

    def delete_before(self, offset: int) -> None:
        """As retention does; at the start of a batch."""
        self.log_start_offset = offset
        self.batches = [batch for batch in self.batches if batch.base_offset >= offset]

    def elect(self, leader: int) -> None:
        self.leader = leader
        self.leader_epoch += 1

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """As a broker's cache of leader epochs has it."""
        if epoch >= self.leader_epoch:
            return self.leader_epoch, self.high_watermark
        known = [batch for batch in self.batches if batch.leader_epoch <= epoch]
        if known:
            return known[-1].leader_epoch, known[-1].next_offset
        return epoch, self.log_start_offset


@dataclass
class FakeTopic:
    name: str
    topic_id: str
    partitions: list[FakePartition]


class FakeState:
    """What the brokers of a cluster share."""

    def __init__(self, addresses: dict[int, str]) -> None:
        self.addresses = addresses
        self.topics: dict[str, FakeTopic] = {}
        self.metadata_offset = 1
        self.racks = {broker_id: f"rack-{broker_id}" for broker_id in BROKER_IDS}
        self.alive = list(addresses)
        #: (broker, method, partition or None) of all that was asked
        self.asked: list[tuple[int, str, int | None]] = []
        self.fetches: list[tuple[int, broker_pb2.FetchRequest]] = []
        self.changed = asyncio.Event()
        self._topics_made = 0

    def add_topic(self, name: str = "t", partitions: int = 1) -> FakeTopic:
        self._topics_made += 1
        topic_id = f"id{self._topics_made}".ljust(22, "x")
        made = [FakePartition(leader=1 + number % len(BROKER_IDS)) for number in range(partitions)]
        topic = self.topics[name] = FakeTopic(name, topic_id, made)
        self.tell()
        return topic

    def delete_topic(self, name: str) -> None:
        del self.topics[name]
        self.tell()

    def tell(self) -> None:
        """Something has changed: whoever waits for it looks again."""
        self.metadata_offset += 1
        self.changed.set()
        self.changed = asyncio.Event()

    def count(self, method: str) -> int:
        return sum(1 for _, name, _ in self.asked if name == method)


class FakeCluster(FakeState, SimulatedBrokers):
    """Three brokers on a simulated network."""

    def __init__(self, simulation: Simulation) -> None:
        FakeState.__init__(self, {broker_id: f"b{broker_id}:1" for broker_id in BROKER_IDS})
        network = SimNetwork(simulation.loop, simulation.rng)
        SimulatedBrokers.__init__(
            self, simulation, network, lambda broker_id: FakeBroker(broker_id, self).service()
        )

    def kill(self, broker_id: int) -> None:
        self.network.node_died(f"b{broker_id}")
        self.alive.remove(broker_id)
        self.tell()

    def consumer(self, **options: Any) -> AsyncConsumer:
        return AsyncConsumer(BOOTSTRAP, **self.client_seams(), **options)


def simulate(scenario: Callable[[FakeCluster], Awaitable[T]], *, seed: int = 1) -> T:
    return simulate_with(FakeCluster, scenario, seed=seed)


def one_partition(cluster: FakeCluster, count: int) -> FakePartition:
    """Of a new topic, with so many records."""
    partition = cluster.add_topic().partitions[0]
    partition.fill(count)
    return partition


def append(cluster: FakeCluster, partition: FakePartition, value: bytes) -> None:
    """Whoever waits for it is woken."""
    partition.append(value)
    cluster.tell()


async def read(consumer: AsyncConsumer, count: int) -> list[bytes | None]:
    """The values of exactly so many records, over as many polls as it takes."""
    values: list[bytes | None] = []
    while len(values) < count:
        values += [record.value for record in await consumer.poll(count - len(values), timeout=60)]
    return values


def numbers(start: int, end: int) -> list[bytes]:
    """The values that `fill` writes at these offsets."""
    return [b"%d" % number for number in range(start, end)]


class FakeBroker:
    def __init__(self, broker_id: int, cluster: FakeState) -> None:
        self._id = broker_id
        self._cluster = cluster

    def service(self) -> Service:
        return service_of(
            {
                "FetchStream": self.fetch_stream,
                "ListOffsets": self.list_offsets,
                "OffsetForLeaderEpoch": self.offset_for_leader_epoch,
                "GetMetadata": self.get_metadata,
            },
        )

    async def get_metadata(
        self, request: broker_pb2.GetMetadataRequest, call: Call
    ) -> broker_pb2.GetMetadataResponse:
        self._cluster.asked.append((self._id, "GetMetadata", None))
        response = broker_pb2.GetMetadataResponse(
            cluster_id="c", metadata_offset=self._cluster.metadata_offset
        )
        for broker_id in self._cluster.alive:
            response.brokers.add(
                broker_id=broker_id,
                address=self._cluster.addresses[broker_id],
                rack=self._cluster.racks[broker_id],
            )
        wanted = [each.name for each in request.topics]
        for name in sorted(self._cluster.topics) if request.all_topics else wanted:
            topic = self._cluster.topics.get(name)
            entry = response.topics.add(name=name)
            if topic is None:
                entry.error.CopyFrom(detail_from_error(UnknownTopicOrPartition("no such topic")))
                continue
            entry.topic_id = topic.topic_id
            for number, partition in enumerate(topic.partitions):
                described = entry.partitions.add(
                    partition=number,
                    leader_epoch=partition.leader_epoch,
                    replicas=BROKER_IDS,
                    isr=partition.isr,
                )
                if partition.leader in self._cluster.alive:
                    described.leader = partition.leader
        return response

    async def list_offsets(
        self, request: broker_pb2.ListOffsetsRequest, call: Call
    ) -> broker_pb2.ListOffsetsResponse:
        response = broker_pb2.ListOffsetsResponse()
        for asked in request.partitions:
            result = response.partitions.add(topic=asked.topic, partition=asked.partition)
            try:
                partition = self._find("ListOffsets", asked)
            except QuorateError as error:
                result.error.CopyFrom(detail_from_error(error))
                continue
            result.leader_epoch = partition.leader_epoch
            if asked.spec == broker_pb2.OFFSET_SPEC_EARLIEST:
                result.offset = partition.log_start_offset
            elif asked.spec == broker_pb2.OFFSET_SPEC_LATEST:
                result.offset = partition.high_watermark
            elif asked.timestamp_ms < TIMESTAMP + partition.high_watermark:
                result.offset = max(partition.log_start_offset, asked.timestamp_ms - TIMESTAMP)
            else:
                result.end_offset = partition.high_watermark
        return response

    async def offset_for_leader_epoch(
        self, request: broker_pb2.OffsetForLeaderEpochRequest, call: Call
    ) -> broker_pb2.OffsetForLeaderEpochResponse:
        response = broker_pb2.OffsetForLeaderEpochResponse()
        for asked in request.partitions:
            result = response.partitions.add(topic=asked.topic, partition=asked.partition)
            try:
                partition = self._find("OffsetForLeaderEpoch", asked)
            except QuorateError as error:
                result.error.CopyFrom(detail_from_error(error))
                continue
            result.leader_epoch, result.end_offset = partition.end_of_epoch(asked.leader_epoch)
        return response

    async def fetch_stream(
        self, requests: AsyncIterator[broker_pb2.FetchStreamRequest], call: Call
    ) -> AsyncGenerator[broker_pb2.FetchStreamResponse, None]:
        async for request in requests:
            self._cluster.fetches.append((self._id, request.request))
            response = await self._fetch(request.request)
            yield broker_pb2.FetchStreamResponse(correlation_id=request.correlation_id, response=response)

    async def _fetch(self, request: broker_pb2.FetchRequest) -> broker_pb2.FetchResponse:
        try:
            async with asyncio.timeout(request.max_wait_ms / 1000):
                while True:
                    changed = self._cluster.changed
                    response = self._read(request)
                    if any(each.batches or each.HasField("error") for each in response.partitions):
                        return response
                    await changed.wait()
        except TimeoutError:
            return self._read(request)

    def _read(self, request: broker_pb2.FetchRequest) -> broker_pb2.FetchResponse:
        response = broker_pb2.FetchResponse()
        room = request.max_bytes
        for asked in request.partitions:
            result = response.partitions.add(topic=asked.topic, partition=asked.partition)
            try:
                partition = self._find("Fetch", asked, allow_follower=request.allow_follower)
                self._check_offset(partition, asked.fetch_offset, result)
            except QuorateError as error:
                result.error.CopyFrom(detail_from_error(error))
                continue
            room -= self._read_partition(partition, asked, result, room)
        return response

    def _check_offset(
        self, partition: FakePartition, offset: int, result: broker_pb2.FetchPartitionResult
    ) -> None:
        result.log_start_offset = partition.log_start_offset
        result.high_watermark = partition.high_watermark
        if self._id != partition.leader and partition.follower_high_watermark is not None:
            result.high_watermark = partition.follower_high_watermark
            return
        if not partition.log_start_offset <= offset <= partition.high_watermark:
            raise OffsetOutOfRange("out of range", log_start_offset=partition.log_start_offset)

    def _read_partition(
        self,
        partition: FakePartition,
        asked: broker_pb2.FetchPartition,
        result: broker_pb2.FetchPartitionResult,
        room: int,
    ) -> int:
        content = b""
        room = min(room, asked.partition_max_bytes)
        for batch in partition.batches:
            if batch.next_offset <= asked.fetch_offset or batch.next_offset > result.high_watermark:
                continue
            if content and len(content) + len(batch.content) > room:
                break
            if not content and room <= 0:
                break
            content += batch.content
            result.next_fetch_offset = batch.next_offset
        result.batches = content
        return len(content)

    def _find(self, method: str, asked: Any, *, allow_follower: bool = False) -> FakePartition:
        self._cluster.asked.append((self._id, method, asked.partition))
        topic: FakeTopic | None = self._cluster.topics.get(asked.topic)
        if topic is None or topic.topic_id != asked.topic_id or asked.partition >= len(topic.partitions):
            raise UnknownTopicOrPartition(f"no {asked.topic}-{asked.partition} here")
        partition: FakePartition = topic.partitions[asked.partition]
        scripted = partition.errors.get(method)
        if scripted:
            raise scripted.popleft()
        if partition.leader != self._id and not allow_follower:
            raise NotLeaderOrFollower(
                "not the leader",
                leader=partition.leader,
                leader_epoch=partition.leader_epoch,
                leader_address=self._cluster.addresses[partition.leader],
            )
        if asked.current_leader_epoch != partition.leader_epoch:
            raise wrong_leader_epoch(
                asked.topic, request=asked.current_leader_epoch, current=partition.leader_epoch
            )
        return partition
