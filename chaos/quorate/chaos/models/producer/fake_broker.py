"""Brokers that take records, on the simulated network: real checks of sequences, all kinds of trouble.

A partition has one log that whoever leads it appends to. Part of it is committed: what was acknowledged, and
all before it. A failover may throw the rest away, as a real one does. A request may be lost, its answer may
be lost, and it may turn up late, long after its sender has given up on the stream that it came by.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from enum import Enum, auto
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
from quorate.client.producer import AsyncProducer
from quorate.core.ids import Offset
from quorate.core.records import check_batch, decode_batch
from quorate.core.transport import Call, Service
from quorate.errors import (
    NotLeaderOrFollower,
    OffsetMismatch,
    OffsetNotAvailable,
    QuorateError,
    RequestTimedOut,
    UnknownTopicOrPartition,
)
from quorate.rpc.error_detail import detail_from_error
from quorate.storage.producer_state import ProducerStates
from quorate.v1 import broker_pb2

T = TypeVar("T")


class Trouble(Enum):
    """What becomes of one partition's part of a produce request."""

    #: never appended; the stream breaks
    LOST = auto()
    #: appended; the stream breaks before the answer
    ANSWER_LOST = auto()
    #: the stream breaks, and the request is appended later, if it still fits
    LATE = auto()
    #: appended; the answer is that nobody knows
    UNKNOWN = auto()
    #: appended; nobody ever answers
    SILENT = auto()


class Stored(NamedTuple):
    base_offset: int
    next_offset: int
    leader_epoch: int
    content: bytes


@dataclass
class FakePartition:
    leader: int
    leader_epoch: int = 1
    log: list[Stored] = field(default_factory=list)
    #: everything below it stays
    committed: int = 0
    producers: ProducerStates = field(default_factory=ProducerStates)
    #: what happens to the next attempts: an error refuses, None lets one pass
    script: deque[Trouble | QuorateError | None] = field(default_factory=deque)

    @property
    def log_end(self) -> int:
        return self.log[-1].next_offset if self.log else 0

    def append(self, asked: broker_pb2.ProducePartition) -> Stored:
        """The order of the checks is a broker's: duplicate first, then the condition."""
        header = check_batch(asked.batch)
        if header.producer_id >= 0:
            original = self.producers.check(header)
            if original is not None:
                return Stored(original.base_offset, original.last_offset + 1, self.leader_epoch, b"")
        if asked.HasField("expected_offset") and asked.expected_offset != self.log_end:
            if asked.expected_offset > self.log_end:
                raise OffsetNotAvailable("the log is shorter")
            if self.committed < self.log_end:
                raise OffsetNotAvailable("the log is longer, and it is not sure that it stays so")
            raise OffsetMismatch("the log is longer", actual_offset=self.log_end)
        base = self.log_end
        stored = Stored(base, base + header.record_count, self.leader_epoch, asked.batch)
        self.log.append(stored)
        if header.producer_id >= 0:
            self.producers.apply(header, Offset(base))
        return stored

    def elect(self, leader: int, *, kept: int = 0) -> None:
        """A new epoch. Of the batches that are not committed, the first ``kept`` stay."""
        certain = [stored for stored in self.log if stored.next_offset <= self.committed]
        self.log = self.log[: len(certain) + kept]
        self.producers = ProducerStates()
        for stored in self.log:
            header = check_batch(stored.content)
            if header.producer_id >= 0:
                self.producers.apply(header, Offset(stored.base_offset))
        self.leader = leader
        self.leader_epoch += 1

    def values(self) -> list[bytes | None]:
        return [record.value for stored in self.log for record in decode_batch(stored.content)]


class FakeCluster(SimulatedBrokers):
    def __init__(self, simulation: Simulation) -> None:
        network = SimNetwork(simulation.loop, simulation.rng, break_after_s=3.0)
        super().__init__(simulation, network, lambda broker_id: FakeBroker(broker_id, self).service())
        self.topics: dict[str, list[FakePartition]] = {}
        self.topic_ids: dict[str, str] = {}
        self.metadata_offset = 1
        #: from an append to its answer, if nothing happens: shortest and longest
        self.commit_s = (0.001, 0.004)
        self.late_s = (0.01, 2.0)
        self.names_the_leader = True
        #: produce requests as they arrived, with the broker
        self.requests: list[tuple[int, broker_pb2.ProduceRequest]] = []
        self.metadata_requests = 0
        #: the first ones are refused
        self.producer_id_errors: deque[QuorateError] = deque()
        self.producer_ids = 0
        self.first_epoch = 0

    def add_topic(self, name: str = "t", partitions: int = 1) -> list[FakePartition]:
        made = [FakePartition(BROKER_IDS[number % 3]) for number in range(partitions)]
        self.topics[name] = made
        self.metadata_offset += 1
        # Also of one that was deleted before.
        self.topic_ids[name] = f"{name}-{self.metadata_offset}".ljust(22, "x")
        return made

    def elect(self, partition: FakePartition, leader: int, *, kept: int = 0) -> None:
        partition.elect(leader, kept=kept)
        self.metadata_offset += 1

    def producer(self, **options: Any) -> AsyncProducer:
        return AsyncProducer(BOOTSTRAP, **self.client_seams(), **options)


def simulate(scenario: Callable[[FakeCluster], Awaitable[T]], *, seed: int = 1) -> T:
    return simulate_with(FakeCluster, scenario, seed=seed)


class FakeBroker:
    def __init__(self, broker_id: int, cluster: FakeCluster) -> None:
        self._id = broker_id
        self._cluster = cluster

    def service(self) -> Service:
        return service_of(
            {
                "ProduceStream": self.produce_stream,
                "GetMetadata": self.get_metadata,
                "InitProducerId": self.init_producer_id,
            },
        )

    async def get_metadata(
        self, request: broker_pb2.GetMetadataRequest, call: Call
    ) -> broker_pb2.GetMetadataResponse:
        cluster = self._cluster
        cluster.metadata_requests += 1
        response = broker_pb2.GetMetadataResponse(cluster_id="c", metadata_offset=cluster.metadata_offset)
        for broker_id in BROKER_IDS:
            response.brokers.add(broker_id=broker_id, address=f"b{broker_id}:1")
        for reference in request.topics:
            topic_id = cluster.topic_ids.get(reference.name, "")
            topic = response.topics.add(name=reference.name, topic_id=topic_id)
            if reference.name not in cluster.topics:
                topic.error.CopyFrom(detail_from_error(UnknownTopicOrPartition("no such topic")))
                continue
            for number, partition in enumerate(cluster.topics[reference.name]):
                topic.partitions.add(
                    partition=number,
                    leader=partition.leader if partition.leader > 0 else None,
                    leader_epoch=partition.leader_epoch,
                    replicas=BROKER_IDS,
                    isr=BROKER_IDS,
                )
        return response

    async def init_producer_id(
        self, request: broker_pb2.InitProducerIdRequest, call: Call
    ) -> broker_pb2.InitProducerIdResponse:
        if self._cluster.producer_id_errors:
            raise self._cluster.producer_id_errors.popleft()
        self._cluster.producer_ids += 1
        return broker_pb2.InitProducerIdResponse(
            producer_id=self._cluster.producer_ids, producer_epoch=self._cluster.first_epoch
        )

    async def produce_stream(
        self, requests: AsyncIterator[broker_pb2.ProduceStreamRequest], call: Call
    ) -> AsyncGenerator[broker_pb2.ProduceStreamResponse, None]:
        session = _Session(self._id, self._cluster)
        reading = asyncio.ensure_future(session.read(requests))
        try:
            while (answer := await session.answers.get()) is not None:
                yield answer
        finally:
            reading.cancel()


class _Session:
    """One produce stream."""

    def __init__(self, broker_id: int, cluster: FakeCluster) -> None:
        self._id = broker_id
        self._cluster = cluster
        self._loop = cluster.simulation.loop
        self._rng = cluster.simulation.rng
        #: None: the stream is over
        self.answers: asyncio.Queue[broker_pb2.ProduceStreamResponse | None] = asyncio.Queue()
        self._answer_at = 0.0

    async def read(self, requests: AsyncIterator[broker_pb2.ProduceStreamRequest]) -> None:
        async for request in requests:
            self._cluster.requests.append((self._id, request.request))
            self._take(request)

    def _take(self, request: broker_pb2.ProduceStreamRequest) -> None:
        found = [self._append(asked) for asked in request.request.partitions]
        results = [result for result in found if result is not None]
        if len(results) < len(found):
            return
        # Answers come in the order of the requests, each after its own time.
        self._answer_at = max(self._answer_at, self._loop.time() + self._rng.uniform(*self._cluster.commit_s))
        self._loop.call_at(self._answer_at, self._answer, request, results)

    def _append(self, asked: broker_pb2.ProducePartition) -> Stored | QuorateError | None:
        """None: there will be no answer."""
        if asked.topic_id != self._cluster.topic_ids[asked.topic]:
            return UnknownTopicOrPartition("another topic has that name")
        partition = self._cluster.topics[asked.topic][asked.partition]
        trouble = partition.script.popleft() if partition.script else None
        if isinstance(trouble, QuorateError):
            return trouble
        if partition.leader != self._id:
            return self._not_leader(partition)
        if trouble in (Trouble.LOST, Trouble.LATE):
            if trouble is Trouble.LATE:
                late_s = self._rng.uniform(*self._cluster.late_s)
                self._loop.call_later(late_s, self._append_late, partition, asked)
            self._break()
            return None
        try:
            stored = partition.append(asked)
        except QuorateError as error:
            return error
        if trouble is Trouble.ANSWER_LOST:
            self._break()
        if trouble in (Trouble.ANSWER_LOST, Trouble.SILENT):
            return None
        if trouble is Trouble.UNKNOWN:
            return RequestTimedOut("the copies did not come in time")
        return stored

    def _append_late(self, partition: FakePartition, asked: broker_pb2.ProducePartition) -> None:
        if partition.leader == self._id:
            try:
                partition.append(asked)
            except QuorateError:
                return

    def _not_leader(self, partition: FakePartition) -> QuorateError:
        if not self._cluster.names_the_leader:
            return NotLeaderOrFollower("not the leader")
        return NotLeaderOrFollower(
            "not the leader",
            leader=partition.leader,
            leader_epoch=partition.leader_epoch,
            leader_address=f"b{partition.leader}:1",
        )

    def _break(self) -> None:
        self._cluster.network.break_connections("client", f"b{self._id}")

    def _answer(self, request: broker_pb2.ProduceStreamRequest, results: list[Stored | QuorateError]) -> None:
        response = broker_pb2.ProduceResponse()
        for asked, found in zip(request.request.partitions, results, strict=True):
            result = response.partitions.add(topic=asked.topic, partition=asked.partition)
            if isinstance(found, QuorateError):
                result.error.CopyFrom(detail_from_error(found))
                continue
            partition = self._cluster.topics[asked.topic][asked.partition]
            if partition.leader_epoch != found.leader_epoch:
                # Leadership was lost meanwhile (rule 19).
                result.error.CopyFrom(detail_from_error(RequestTimedOut("the leader has changed")))
                continue
            partition.committed = max(partition.committed, found.next_offset)
            if request.request.acks != broker_pb2.ACKS_NONE:
                result.base_offset, result.next_offset = found.base_offset, found.next_offset
        self.answers.put_nowait(
            broker_pb2.ProduceStreamResponse(correlation_id=request.correlation_id, response=response)
        )
