"""Several brokers with one replica each, a network between them, and a controller that is only a few lines.

The controller keeps rules 21 to 29 in their simplest form: it elects members of the ISR, takes dead brokers
out of it while others are left, and accepts a wish of the leader if both epochs are right. Metadata reaches
each broker later, at a time of its own, in order.

``World.check`` looks at everything at once, which no real part of the system can, for what replication must
never break (rule 1): whoever may be elected has every record that was acknowledged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from itertools import combinations
from typing import Any, Final

from quorate.broker.replica.partition import Partition
from quorate.broker.replica.partition_state import PartitionState
from quorate.broker.replication.fetchers import ReplicaFetchers
from quorate.broker.replication.server import ReplicationServer
from quorate.broker.replication.throttle import ReplicationThrottle
from quorate.chaos.models.follower.replicas import (
    address_of,
    brokers_of,
    bytes_of,
    client_batch,
    image,
    open_replica,
    with_changes,
)
from quorate.chaos.sim.clock import Simulation, run_simulation
from quorate.chaos.sim.disk import SimDisk
from quorate.chaos.sim.network import SimNetwork
from quorate.chaos.sim.process import SimProcess
from quorate.chaos.sim.transport import SimTransport
from quorate.core.config import Durability
from quorate.core.ids import BrokerEpoch, BrokerId, LeaderEpoch, Offset
from quorate.core.transport import Call, Handler, Service, methods_of
from quorate.errors import (
    FencedLeaderEpoch,
    IneligibleReplica,
    InvalidUpdateVersion,
    QuorateError,
)
from quorate.metadata.image import NO_LEADER, PartitionImage
from quorate.rpc.error_detail import detail_from_error
from quorate.storage import StartKind
from quorate.v1 import replica_pb2
from quorate.v1.controller_pb2 import PartitionAlterationResult

BROKERS: Final = (1, 2, 3)
MIN_ISR: Final = 2


class SimBroker:
    """One machine: its disk outlives its processes."""

    def __init__(self, world: World, broker_id: int) -> None:
        self._world = world
        self.broker_id = BrokerId(broker_id)
        self.name = f"b{broker_id}"
        self.disk = SimDisk(sync_delay_s=0.002)
        self.epoch = BrokerEpoch(0)
        #: None: the process is dead
        self.partition: Partition | None = None
        self._process = SimProcess(self.name)
        self._high_watermark = 0
        self._start_kind = StartKind.PROCESS_CRASH
        #: what the metadata says, to be applied a little later
        self.metadata: asyncio.Queue[PartitionState] = asyncio.Queue()

    async def start(self) -> None:
        self._process = SimProcess(self.name)
        self.epoch = BrokerEpoch(self.epoch + 1)
        # What was said before the registration speaks about an earlier run.
        self.metadata = asyncio.Queue()
        self.partition = await self._process.start(self._run())

    async def _run(self) -> Partition:
        world = self._world
        transport = SimTransport(world.network, self.name)
        partition = await open_replica(
            self.disk,
            world.clock,
            broker_id=self.broker_id,
            high_watermark=self._high_watermark,
            start=self._start_kind,
            on_isr_wish=partial(world.isr_wished, self),
            on_failure=world.failed.append,
        )
        fetchers = ReplicaFetchers(
            transport,
            self.broker_id,
            lambda: self.epoch,
            clock=world.clock,
            rng=world.simulation.rng,
            throttle=ReplicationThrottle(world.clock),
        )
        server = ReplicationServer(
            self.broker_id,
            lambda _topic_id, _number: partition,
            clock=world.clock,
            response_bytes_max=2_000,
            partition_bytes_max=700,
        )
        descriptor = replica_pb2.DESCRIPTOR.services_by_name["ReplicaService"]
        handlers: dict[str, Handler] = dict.fromkeys(methods_of(descriptor), _never)
        handlers["Replicate"] = server
        service = Service(descriptor, handlers)
        await transport.serve(address_of(self.broker_id), [service])
        world.run(fetchers.run())
        world.run(self._follow_metadata(partition, fetchers))
        return partition

    async def _follow_metadata(self, partition: Partition, fetchers: ReplicaFetchers) -> None:
        applied = None
        while True:
            state = await self.metadata.get()
            await asyncio.sleep(self._world.simulation.rng.choice((0.0, 0.001, 0.02)))
            partition.apply(state)
            leader = state.image.leader
            wanted = (leader, state.image.leader_epoch)
            if leader in (NO_LEADER, self.broker_id):
                fetchers.unfollow(partition)
            elif applied != wanted:
                fetchers.follow(partition, address_of(leader))
            applied = wanted

    def do(self, work: Callable[[Partition], None]) -> None:
        """In the process, in a moment, if it is alive then."""
        partition = self.partition
        if partition is not None:

            async def run() -> None:
                work(partition)

            self._world.keep(self._process.start(run()))

    def kill(self, *, power: bool = False) -> None:
        """As kill -9; with ``power``, as a loss of power."""
        assert self.partition is not None
        rng = self._world.simulation.rng
        self._high_watermark = max(0, self.partition.high_watermark - rng.randrange(3))
        self.partition = None
        self._process.kill()
        self._world.network.node_died(self.name)
        self._start_kind = StartKind.LOSSY if power else StartKind.PROCESS_CRASH
        if power:
            self.disk.power_loss(rng)
        else:
            self.disk.crash()


async def _never(_request: object, _call: Call) -> None:
    raise AssertionError("replication asks for nothing else")


class World:
    def __init__(self, simulation: Simulation, durability: Durability) -> None:
        self.simulation = simulation
        self.clock = simulation.clock
        self.network = SimNetwork(simulation.loop, simulation.rng)
        self.durability = durability
        self.brokers = {broker_id: SimBroker(self, broker_id) for broker_id in BROKERS}
        #: what the controller has committed
        self.image: PartitionImage = image(leader=NO_LEADER, leader_epoch=0, partition_epoch=0)
        #: (end offset, value) of what was acknowledged, by base offset
        self.acknowledged: dict[int, bytes] = {}
        self.failed: list[Partition] = []
        self._tasks: list[asyncio.Task[Any]] = []
        self._appended = 0

    def run(self, work: Coroutine[Any, Any, Any]) -> None:
        """In the process that calls, until the world ends."""
        self.keep(asyncio.get_running_loop().create_task(work))

    def keep(self, task: asyncio.Task[Any]) -> None:
        self._tasks.append(task)

    # -- the controller

    async def start(self) -> None:
        for broker in self.brokers.values():
            await broker.start()
        self.elect(1)

    def stop(self) -> None:
        """Whatever a task of a living process ended with is raised."""
        for broker in self.brokers.values():
            if broker.partition is not None:
                broker.kill()
        for task in self._tasks:
            if task.done():
                task.result()

    def is_alive(self, broker_id: int) -> bool:
        return self.brokers[broker_id].partition is not None

    def publish(self) -> None:
        state = PartitionState(
            self.image,
            MIN_ISR,
            self.durability,
            brokers_of({each.broker_id: each.epoch for each in self.brokers.values()}),
        )
        for broker in self.brokers.values():
            broker.metadata.put_nowait(state)

    def _change(self, **changes: object) -> None:
        self.image = with_changes(self.image, partition_epoch=self.image.partition_epoch + 1, **changes)
        self.publish()

    def elect(self, leader: int) -> None:
        assert leader == NO_LEADER or leader in self.image.isr
        self._change(leader=BrokerId(leader), leader_epoch=LeaderEpoch(self.image.leader_epoch + 1))

    def elect_anybody(self) -> None:
        self.elect(self._candidate())

    def _candidate(self) -> BrokerId:
        candidates = [each for each in self.image.isr if self.is_alive(each)]
        return self.simulation.rng.choice(candidates) if candidates else NO_LEADER

    def broker_died(self, broker_id: int) -> None:
        """It leaves the ISR, unless it is the last one; another leads, in the same change."""
        rest = tuple(each for each in self.image.isr if each != broker_id)
        isr = rest if any(map(self.is_alive, rest)) else self.image.isr
        if self.image.leader == broker_id:
            leader_epoch = LeaderEpoch(self.image.leader_epoch + 1)
            self._change(isr=isr, leader=self._candidate(), leader_epoch=leader_epoch)
        elif isr != self.image.isr:
            self._change(isr=isr)

    def broker_came_back(self) -> None:
        self.publish()
        if self.image.leader == NO_LEADER:
            self.elect_anybody()

    def isr_wished(self, broker: SimBroker, partition: Partition) -> None:
        self.simulation.loop.call_soon(self._alter, broker, partition)

    def _alter(self, broker: SimBroker, partition: Partition) -> None:
        leadership = partition.leadership
        alteration = None if leadership is None else leadership.next_alteration()
        if leadership is None or alteration is None:
            return
        wanted = tuple(sorted(BrokerId(member.broker_id) for member in alteration.isr))
        result = PartitionAlterationResult(topic_id=alteration.topic_id, partition=alteration.partition)
        error = self._why_not(broker, alteration.leader_epoch, alteration.partition_epoch, wanted)
        if error is None:
            self._change(isr=wanted)
            result.leader_epoch = self.image.leader_epoch
            result.partition_epoch = self.image.partition_epoch
            result.isr.extend(wanted)
        else:
            result.error.CopyFrom(detail_from_error(error))
        leadership.alteration_answered(result)

    def _why_not(
        self, broker: SimBroker, leader_epoch: int, partition_epoch: int, isr: tuple[BrokerId, ...]
    ) -> QuorateError | None:
        if leader_epoch != self.image.leader_epoch or broker.broker_id != self.image.leader:
            return FencedLeaderEpoch("old")
        if partition_epoch != self.image.partition_epoch:
            return InvalidUpdateVersion("old")
        if not all(map(self.is_alive, isr)):
            return IneligibleReplica("dead")
        return None

    # -- clients

    @property
    def leader(self) -> Partition | None:
        """As far as it knows itself."""
        broker = self.brokers.get(self.image.leader)
        partition = None if broker is None else broker.partition
        return None if partition is None or partition.leadership is None else partition

    def append(self, broker_id: int | None = None, *, acks_all: bool = True) -> None:
        """One record of its own, at any broker that takes it; what is acknowledged goes into the ledger."""
        broker = self.brokers.get(self.image.leader if broker_id is None else broker_id)
        if broker is not None:
            self._appended += 1
            broker.do(partial(self._append, b"%d" % self._appended, acks_all))

    def _append(self, value: bytes, acks_all: bool, partition: Partition) -> None:
        leadership = partition.leadership
        if leadership is None:
            return
        try:
            appended = leadership.append(client_batch(value), acks_all=acks_all)
            done = partial(self._acknowledge, appended.base_offset, value)
            if leadership.when_committed(partition.log.log_end_offset, done) is None:
                done(None)
        except QuorateError:
            return

    def _acknowledge(self, offset: int, value: bytes, error: QuorateError | None) -> None:
        if error is None:
            assert self.acknowledged.get(offset, value) == value, "one offset was acknowledged twice"
            self.acknowledged[offset] = value

    # -- looking at everything

    @property
    def committed_end(self) -> int:
        """Exclusive end of what was acknowledged."""
        return max(self.acknowledged, default=-1) + 1

    def check(self) -> None:
        """Rule 1: whoever may be elected has everything that was acknowledged, and logs match."""
        assert not self.failed, f"a replica has failed: {self.failed[0].failure}"
        replicas = {
            each.broker_id: each.partition for each in self.brokers.values() if each.partition is not None
        }
        for broker_id, partition in replicas.items():
            partition.validate()
            if broker_id in self.image.isr:
                assert partition.log.log_end_offset >= self.committed_end, (
                    f"broker {broker_id} is in the ISR and lacks acknowledged records"
                )
        readable = [each for each in replicas.values() if not each.log.is_being_cut]
        for one, other in combinations(readable, 2):
            common = min(one.high_watermark, other.high_watermark)
            assert bytes_of(one, common) == bytes_of(other, common), "logs differ below the high watermark"

    def check_ledger(self) -> None:
        """Every acknowledged record is at its offset on every replica, and the logs are the same."""
        replicas = [broker.partition for broker in self.brokers.values() if broker.partition is not None]
        assert len(replicas) == len(BROKERS)
        contents = {bytes_of(replica) for replica in replicas}
        assert len(contents) == 1, "replicas differ"
        for offset, value in self.acknowledged.items():
            batch = replicas[0].log.read(Offset(offset), bytes_max=1).batches
            assert value in batch, f"offset {offset} has another record than the acknowledged one"

    async def until(self, condition: Callable[[], bool], *, within_s: float = 60.0) -> None:
        began = self.clock.monotonic()
        while not condition():
            assert self.clock.monotonic() < began + within_s, "it has not come true in time"
            self.check()
            await asyncio.sleep(0.005)
        self.check()

    def is_settled(self) -> bool:
        leader = self.leader
        if leader is None or set(self.image.isr) != set(BROKERS):
            return False
        ends = [
            (broker.partition.log.log_end_offset, broker.partition.high_watermark)
            for broker in self.brokers.values()
            if broker.partition is not None
        ]
        end = leader.log.log_end_offset
        return ends == [(end, end)] * len(BROKERS)


def with_world(
    script: Callable[[World], Awaitable[None]],
    *,
    seed: int = 1,
    durability: Durability = Durability.REPLICATED,
) -> None:
    async def main(simulation: Simulation) -> None:
        world = World(simulation, durability)
        await world.start()
        try:
            await script(world)
        finally:
            world.stop()

    run_simulation(main, seed=seed)
