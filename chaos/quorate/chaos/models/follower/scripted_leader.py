"""A real follower, and a leader that says what a test wants it to say."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Final, TypeVar

from quorate.broker.replica.partition import Partition
from quorate.broker.replication.compaction_messages import compacted_to
from quorate.broker.replication.fetchers import ReplicaFetchers
from quorate.broker.replication.throttle import UNLIMITED, ReplicationThrottle
from quorate.chaos.models.follower.replicas import (
    TOPIC_ID,
    address_of,
    image,
    leader_batch,
    open_replica,
    state_of,
)
from quorate.chaos.sim.clock import Simulation, run_simulation
from quorate.chaos.sim.disk import SimDisk
from quorate.chaos.sim.network import SimNetwork
from quorate.chaos.sim.server import SimServer
from quorate.chaos.sim.transport import SimTransport
from quorate.core.config import Durability
from quorate.core.ids import BrokerEpoch, BrokerId, Offset
from quorate.core.transport import Call, Service, methods_of
from quorate.errors import QuorateError
from quorate.metadata.image import PartitionImage
from quorate.rpc.error_detail import detail_from_error
from quorate.storage import Compacted, StartKind
from quorate.v1 import replica_pb2
from quorate.v1.replica_pb2 import (
    DivergingEpoch,
    FollowerHello,
    FollowerPosition,
    ReplicateRequest,
    ReplicateResponse,
    ReplicaUpdate,
)

T = TypeVar("T")

FOLLOWER: Final = 1


def update(
    leader_epoch: int,
    *batches: bytes,
    number: int = 0,
    high_watermark: int = 0,
    log_start_offset: int = 0,
    error: QuorateError | None = None,
    diverging: tuple[int, int] | None = None,
    compacted: Compacted | None = None,
) -> ReplicaUpdate:
    return ReplicaUpdate(
        topic_id=TOPIC_ID,
        partition=number,
        leader_epoch=leader_epoch,
        batches=b"".join(batches),
        high_watermark=high_watermark,
        log_start_offset=log_start_offset,
        error=None if error is None else detail_from_error(error),
        diverging=None if diverging is None else DivergingEpoch(epoch=diverging[0], end_offset=diverging[1]),
        compacted=None if compacted is None else compacted_to(compacted),
    )


class ScriptedLeader:
    def __init__(self, harness: FollowerHarness, broker_id: int) -> None:
        self._harness = harness
        self.broker_id = broker_id
        self.hellos: list[FollowerHello] = []
        self.requests: list[ReplicateRequest] = []
        self._positions: asyncio.Queue[FollowerPosition] = asyncio.Queue()
        self._responses: asyncio.Queue[ReplicateResponse | QuorateError] = asyncio.Queue()
        self._server: SimServer | None = None

    async def start(self) -> None:
        async def never(_request: object, _call: Call) -> None:
            raise AssertionError("followers ask for nothing else")

        descriptor = replica_pb2.DESCRIPTOR.services_by_name["ReplicaService"]
        service = Service(
            descriptor, {**dict.fromkeys(methods_of(descriptor), never), "Replicate": self._replicate}
        )
        address = address_of(self.broker_id)
        transport = SimTransport(self._harness.network, f"b{self.broker_id}")
        self._server = await transport.serve(address, [service])

    def stop(self) -> None:
        assert self._server is not None
        self._server.kill()

    async def _replicate(
        self, requests: AsyncIterator[ReplicateRequest], _: Call
    ) -> AsyncGenerator[ReplicateResponse, None]:
        async def read() -> None:
            async for request in requests:
                self.requests.append(request)
                if request.HasField("hello"):
                    self.hellos.append(request.hello)
                for position in request.positions:
                    self._positions.put_nowait(position)

        reading = asyncio.create_task(read())
        try:
            while True:
                response = await self._responses.get()
                if isinstance(response, QuorateError):
                    raise response
                yield response
        finally:
            reading.cancel()

    async def position(self) -> FollowerPosition:
        """The next one that the follower names; waits for it."""
        return await asyncio.wait_for(self._positions.get(), 60)

    @property
    def has_position(self) -> bool:
        return not self._positions.empty()

    def send(self, *updates: ReplicaUpdate) -> None:
        self._responses.put_nowait(ReplicateResponse(updates=updates))

    def break_stream(self, error: QuorateError) -> None:
        self._responses.put_nowait(error)


class FollowerHarness:
    """Broker 1 follows; 2 and 3 may lead."""

    def __init__(self, simulation: Simulation, *, durability: Durability, sync_delay_s: float) -> None:
        self.simulation = simulation
        self.clock = simulation.clock
        self.network = SimNetwork(simulation.loop, simulation.rng)
        self.disk = SimDisk(sync_delay_s=sync_delay_s)
        self.durability = durability
        self.failed: list[Partition] = []
        self.partitions: dict[int, Partition] = {}
        self.throttle = ReplicationThrottle(self.clock, bytes_per_s=UNLIMITED)
        self.fetchers = self._new_fetchers()
        self.leaders = {broker_id: ScriptedLeader(self, broker_id) for broker_id in (2, 3)}

    def _new_fetchers(self) -> ReplicaFetchers:
        return ReplicaFetchers(
            SimTransport(self.network, f"b{FOLLOWER}"),
            BrokerId(FOLLOWER),
            lambda: BrokerEpoch(1),
            clock=self.clock,
            rng=self.simulation.rng,
            throttle=self.throttle,
        )

    @property
    def partition(self) -> Partition:
        return self.partitions[0]

    async def start(self) -> None:
        for leader in self.leaders.values():
            await leader.start()

    async def open(self, number: int = 0, *, high_watermark: int = 0) -> Partition:
        partition = await open_replica(
            self.disk,
            self.clock,
            broker_id=FOLLOWER,
            number=number,
            high_watermark=high_watermark,
            start=StartKind.PROCESS_CRASH,
            on_failure=self.failed.append,
        )
        self.partitions[number] = partition
        return partition

    async def open_with(self, *records: tuple[int, int], high_watermark: int = 0) -> Partition:
        """With one record each: (offset, leader epoch)."""
        partition = await self.open()
        for offset, epoch in records:
            partition.log.append_as_follower(leader_batch(offset, epoch, b"%d.%d" % (offset, epoch)))
        if high_watermark:
            partition.advance_high_watermark_from_leader(Offset(high_watermark))
        return partition

    def follow(self, partition_image: PartitionImage) -> None:
        """What the broker does when metadata changes."""
        partition = self.partitions[partition_image.partition]
        partition.apply(state_of(partition_image, durability=self.durability))
        if partition_image.leader in (FOLLOWER, -1):
            self.fetchers.unfollow(partition)
        else:
            self.fetchers.follow(partition, address_of(partition_image.leader))

    def follow_leader(self, leader: int, leader_epoch: int, **details: object) -> ScriptedLeader:
        self.follow(image(leader=leader, leader_epoch=leader_epoch, **details))  # type: ignore[arg-type]
        return self.leaders[leader]

    async def until(self, condition: Callable[[], bool]) -> None:
        began = self.clock.monotonic()
        while not condition():
            assert self.clock.monotonic() < began + 20, "it has not come true in time"
            await asyncio.sleep(0.001)


def with_follower(
    script: Callable[[FollowerHarness], Awaitable[T]],
    *,
    durability: Durability = Durability.REPLICATED,
    sync_delay_s: float = 0.002,
) -> T:
    """Run a script on simulated time; at its end every replica is in order."""

    async def main(simulation: Simulation) -> T:
        harness = FollowerHarness(simulation, durability=durability, sync_delay_s=sync_delay_s)
        await harness.start()
        running = asyncio.create_task(harness.fetchers.run())
        try:
            result = await script(harness)
            assert not running.done()
            for partition in harness.partitions.values():
                if partition.failure is None:
                    partition.validate()
            return result
        finally:
            running.cancel()
            await asyncio.wait([running])

    return run_simulation(main, seed=1)
