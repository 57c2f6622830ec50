"""The observer of a whole simulated cluster: it sees what is broken at once, and changes nothing.

The clusters here are small and their faults are done by hand, so that each test says what it is about.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from quorate.broker.replica.partition import Partition
from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.cluster.machine import SimMachine
from quorate.chaos.invariants.observer import Observer
from quorate.chaos.mutations.registry import find_mutation
from quorate.chaos.sim.clock import Simulation, run_simulation
from quorate.chaos.sim.patch import Patch
from quorate.core.ids import Offset, PartitionId, TopicName, TopicPartition
from quorate.metadata.image import MetadataImage
from quorate.metadata.publisher import MetadataPublisher
from quorate.v1 import admin_pb2
from tests.simulation.ghost_world import broken

PARTITION = TopicPartition(TopicName("t"), PartitionId(0))
RECORDS = 20

Story = Callable[["World"], Awaitable[None]]


class World:
    def __init__(self, simulation: Simulation, *, is_observed: bool) -> None:
        self.cluster = SimCluster(simulation)
        self.observer = Observer(self.cluster)
        if is_observed:
            self.observer.install()

    async def start(self, durability: str) -> None:
        await self.cluster.start()
        async with self.cluster.connect() as connection:
            await connection.create_topic(
                admin_pb2.CreateTopicRequest(name="t", partition_count=1, configs={"durability": durability})
            )
        await self.cluster.until(lambda: self._isr_size() == 3)

    async def write(self, count: int = RECORDS) -> list[Offset]:
        cluster = self.cluster
        async with cluster.producer() as producer:
            futures = [await producer.send("t", str(number).encode()) for number in range(count)]
            return [Offset((await future).offset or 0) for future in futures]

    async def until_isr_is(self, size: int) -> None:
        await self.cluster.until(lambda: self._isr_size() == size)

    def leader(self) -> SimMachine:
        name = next(name for name, replica in self._replicas() if replica.leadership is not None)
        return self.cluster.machine(name)

    def _isr_size(self) -> int:
        sizes = [len(each.leadership.isr) for _, each in self._replicas() if each.leadership is not None]
        return max(sizes, default=0)

    def _replicas(self) -> list[tuple[str, Partition]]:
        return [
            (machine.name, replica)
            for machine in self.cluster.brokers
            if machine.broker is not None
            for replica in machine.broker.replicas
        ]


def observe(
    story: Story, *, seed: int = 1, durability: str = "replicated", is_observed: bool = True
) -> tuple[Observer, float]:
    """What was examined, and when the story ended."""

    async def main(simulation: Simulation) -> tuple[Observer, float]:
        world = World(simulation, is_observed=is_observed)
        await world.start(durability)
        await story(world)
        return world.observer, simulation.loop.time()

    return run_simulation(main, seed=seed, time_limit_s=120.0)


# -- a cluster that does everything right


async def kill_and_restart_each(world: World) -> None:
    for machine in world.cluster.brokers:
        await world.write()
        machine.kill()
        await world.until_isr_is(2)
        machine.start()
        await world.until_isr_is(3)
    await world.write()


def test_a_cluster_that_keeps_its_promises_is_left_alone_and_is_looked_at_closely() -> None:
    observer, _ = observe(kill_and_restart_each)
    examined = observer.examined
    assert examined["looks"] > 1_000
    for what in (
        "batches committed",
        "candidates that are down",
        "controllers",
        "leaderships",
        "logs matched",
        "metadata entries",
        "partition changes",
        "recovery points",
        "replication quorums",
    ):
        assert examined[what] > 0, what
    assert not examined["candidates excused"]


def test_the_observer_changes_nothing() -> None:
    _, ended_at = observe(kill_and_restart_each)
    _, unseen = observe(kill_and_restart_each, is_observed=False)
    assert ended_at == unseen


def test_a_broker_that_lost_its_disk_is_excused_until_it_is_back() -> None:
    async def story(world: World) -> None:
        await world.write()
        machine = world.cluster.broker(1)
        machine.kill()
        machine.wipe()
        await world.until_isr_is(2)
        machine.start()
        await world.until_isr_is(3)
        await world.write()

    observer, _ = observe(story)
    assert observer.examined["candidates excused"] > 0


def test_a_synced_topic_has_no_excuse_for_a_loss_of_power() -> None:
    async def story(world: World) -> None:
        await world.write()
        for machine in world.cluster.brokers:
            machine.lose_power(world.cluster.client_rng())
        for machine in world.cluster.brokers:
            machine.start()
        await world.until_isr_is(3)
        await world.write()

    observer, _ = observe(story, durability="fsync")
    assert observer.examined["candidates that are down"] > 0
    assert observer.examined["candidates excused"] == 0


def test_what_clients_are_told_is_committed() -> None:
    async def story(world: World) -> None:
        for offset in await world.write():
            world.observer.acknowledged(PARTITION, offset)
        world.observer.acknowledged(PARTITION, Offset(RECORDS))

    with broken("min-isr-copies"):
        observe(story)


# -- one that does not


@contextmanager
def mutated(name: str) -> Iterator[None]:
    with Patch() as patch:
        find_mutation(name).apply(patch)
        yield


async def only_write(world: World) -> None:
    await world.write()


async def kill_all_but_the_leader(world: World) -> SimMachine:
    await world.write()
    leader = world.leader()
    for machine in world.cluster.brokers:
        if machine is not leader:
            machine.kill()
    await world.until_isr_is(1)
    return leader


def test_rule_8_a_log_that_is_cut_to_the_high_watermark() -> None:
    async def story(world: World) -> None:
        await world.write()
        for machine in world.cluster.brokers:
            machine.kill()
        for machine in world.cluster.brokers:
            machine.start()
        await world.until_isr_is(3)

    # Whose session lapses first is out of the ISR, and may cut what it likes.
    with mutated("follower-cuts-to-its-high-watermark"), broken("candidate-completeness"):
        for seed in range(1, 9):
            observe(story, seed=seed)


def test_rule_13_what_only_the_leader_has() -> None:
    with mutated("leader-commits-what-it-has-itself"), broken("min-isr-copies"):
        observe(only_write)


def test_rule_14_what_a_leader_could_commit_alone() -> None:
    async def story(world: World) -> None:
        await kill_all_but_the_leader(world)
        await world.write()

    with mutated("leader-commits-with-too-few"), broken("replication-quorum"):
        observe(story)


def test_rule_16_what_followers_have_not_synced() -> None:
    with mutated("follower-acknowledges-before-the-sync"), broken("min-isr-copies"):
        observe(only_write, durability="fsync")


def test_rule_30_a_loss_that_a_broker_keeps_to_itself() -> None:
    """It was the last one in the ISR, and comes back with an empty log."""

    async def story(world: World) -> None:
        machine = await kill_all_but_the_leader(world)
        machine.kill()
        machine.disk.power_loss()
        machine.start()
        await world.cluster.until(lambda: machine.is_ready)

    # Either would be enough to find out.
    boot, witness = "boot-is-not-looked-at", "lost-page-cache-passes-for-a-process-crash"
    with mutated(boot), mutated(witness), broken("unclean-exclusion"):
        observe(story)


def test_rule_46_what_a_log_calls_synced_and_the_disk_does_not_have() -> None:
    """Nothing is lost by it before the power fails; it is seen at once."""

    async def story(world: World) -> None:
        await asyncio.gather(*(world.write() for _ in range(5)))

    with mutated("sync-claims-what-was-appended-while-it-ran"), broken("recovery-point"):
        observe(story, durability="fsync")


def test_rule_38_metadata_that_is_not_the_same_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """One publisher tells of another image than the log makes."""
    move_to, publishers = MetadataPublisher._move_to, []

    def move_the_first_elsewhere(self: MetadataPublisher, image: MetadataImage) -> None:
        if self not in publishers:
            publishers.append(self)
        move_to(self, replace(image, digest=image.digest ^ 1) if self is publishers[0] else image)

    monkeypatch.setattr(MetadataPublisher, "_move_to", move_the_first_elsewhere)
    with broken("committed-metadata"):
        observe(only_write)
