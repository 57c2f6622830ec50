"""A broker's directory is put back from a copy of the same run, without a start between (rule 30)."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

import pytest

from quorate.broker.directory.broker_directory import BrokerDirectory
from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.cluster.machine import SimMachine
from quorate.chaos.cluster.view import newest_image, replicas_of
from quorate.chaos.sim.clock import Simulation, run_simulation
from quorate.controller.heard_witnesses import WITNESS_INTERVAL_S
from quorate.core.ids import PartitionId, TopicName, TopicPartition
from quorate.metadata.image import NO_LEADER, PartitionImage

_TOPIC: Final = TopicName("t")
_PARTITION: Final = TopicPartition(_TOPIC, PartitionId(0))
_INTERVAL_S: Final = 0.5
_RECORDS: Final = 20
#: a number, a heartbeat and a record of the controller, each with a margin
_KNOWN_S: Final = 2 * _INTERVAL_S + 3 * WITNESS_INTERVAL_S


class _World:
    """One partition on three brokers; the first of them is the one whose directory is copied."""

    def __init__(self, simulation: Simulation) -> None:
        settings = {"broker_device_witness_interval_ms": round(_INTERVAL_S * 1000)}
        self.cluster = SimCluster(simulation, settings=settings)
        self.victim, *self.others = self.cluster.brokers
        self.acknowledged = 0

    async def begin(self, durability: str) -> None:
        await self.cluster.start()
        async with self.cluster.admin() as admin:
            configs: dict[str, str | int] = {"durability": durability, "min.insync.replicas": 2}
            await admin.create_topic(_TOPIC, partitions=1, replication_factor=3, configs=configs)

    async def produce(self) -> None:
        """Until everybody has everything."""
        async with self.cluster.producer(acks="all") as producer:
            for number in range(_RECORDS):
                await (await producer.send(_TOPIC, b"%d" % number, partition=0))
        self.acknowledged += _RECORDS
        await self.cluster.until(self.is_whole)

    def is_ready(self) -> bool:
        return all(each.is_ready for each in self.cluster.machines.values())

    def is_whole(self) -> bool:
        replicas = replicas_of(self.cluster).get(_PARTITION, [])
        return len(replicas) == 3 and all(each.high_watermark == self.acknowledged for each in replicas)

    @property
    def partition(self) -> PartitionImage:
        topic = newest_image(self.cluster).topic_named(_TOPIC)
        assert topic is not None
        return topic.partitions[0]


def _lose_power(machine: SimMachine) -> None:
    machine.lose_power(random.Random(1))


@pytest.mark.parametrize("durability", ["fsync", "replicated"])
@pytest.mark.parametrize("end", [SimMachine.kill, _lose_power], ids=["kill -9", "loss of power"])
@pytest.mark.parametrize("everybody_forgets", [False, True], ids=["heard", "on record"])
def test_what_was_acknowledged_since_the_copy_is_not_lost(
    durability: str, end: Callable[[SimMachine], None], everybody_forgets: bool
) -> None:
    """It comes back alone, and the others kept everything: it must not lead, whatever it has synced."""

    async def main(simulation: Simulation) -> None:
        world = _World(simulation)
        cluster = world.cluster
        await world.begin(durability)
        await world.produce()
        copy = world.victim.disk.snapshot()
        await world.produce()
        await cluster.clock.sleep(_KNOWN_S)
        for machine in world.others:
            machine.kill()
        await cluster.clock.sleep(_KNOWN_S)
        end(world.victim)
        if everybody_forgets:
            for machine in cluster.controllers:
                machine.lose_power(random.Random(2))
                machine.start()
        world.victim.disk.restore(copy)
        world.victim.start()
        await cluster.until(lambda: world.victim.is_ready)
        assert world.partition.leader == NO_LEADER, "only those that are still down have all records"
        for machine in world.others:
            machine.start()
        await cluster.until(world.is_whole)
        assert world.partition.unclean_leader_epochs == ()

    run_simulation(main, seed=1, time_limit_s=600)


@pytest.mark.parametrize("durability", ["fsync", "replicated"])
def test_whoever_was_found_out_is_a_broker_like_any_other_once_it_has_caught_up(durability: str) -> None:
    async def main(simulation: Simulation) -> None:
        world = _World(simulation)
        cluster = world.cluster
        await world.begin(durability)
        copy = world.victim.disk.snapshot()
        await world.produce()
        await cluster.clock.sleep(_KNOWN_S)
        world.victim.kill()
        world.victim.disk.restore(copy)
        world.victim.start()
        await cluster.until(lambda: world.is_whole() and len(world.partition.isr) == 3)
        for machine in cluster.brokers:
            machine.kill()
        world.victim.start()
        await cluster.until(lambda: world.victim.is_ready)
        # The last to leave may lead alone; who left before waits. Either way nothing is lost or offline.
        for machine in world.others:
            machine.start()
        await world.produce()

    run_simulation(main, seed=1, time_limit_s=600)


@pytest.mark.parametrize("how", ["kill -9", "loss of power", "clean stop"])
@pytest.mark.parametrize("sync_delay_s", [0.002, 0.7], ids=["usual disks", "slow disks"])
def test_nobody_is_accused_who_has_the_directory_that_it_had(how: str, sync_delay_s: float) -> None:
    """All nodes at once, again and again, in the middle of numbers: synced partitions are led again."""

    async def main(simulation: Simulation) -> None:
        world = _World(simulation)
        cluster = world.cluster
        await world.begin("fsync")
        rng = simulation.rng
        for machine in cluster.brokers:
            machine.disk.sync_delay_s = sync_delay_s
        for _ in range(4):
            await cluster.clock.sleep(rng.uniform(0.0, 2 * _KNOWN_S))
            for machine in cluster.machines.values():
                if how == "kill -9":
                    machine.kill()
                elif how == "loss of power":
                    machine.lose_power(rng)
            if how == "clean stop":
                for machine in cluster.machines.values():
                    await machine.stop()
            for machine in cluster.machines.values():
                machine.start()
            await cluster.until(
                lambda: all(each.is_ready for each in cluster.machines.values()), within_s=60.0
            )
            assert world.partition.leader != NO_LEADER
        await world.produce()

    run_simulation(main, seed=1, time_limit_s=1200)


def test_a_number_goes_on_record_every_interval_and_with_the_last_heartbeats_of_a_stop() -> None:
    async def main(simulation: Simulation) -> None:
        world = _World(simulation)
        cluster = world.cluster
        await world.begin("fsync")

        def on_record() -> list[int]:
            return [each.device_witness for each in newest_image(cluster).brokers.values()]

        await cluster.clock.sleep(_KNOWN_S)
        before = on_record()
        await cluster.clock.sleep(10 * _INTERVAL_S)
        for number, later in zip(before, on_record(), strict=True):
            assert 8 <= later - number <= 12
        await world.victim.stop()
        await cluster.until(lambda: newest_image(cluster).brokers[world.victim.config.node_id].is_fenced)
        stopped = newest_image(cluster).brokers[world.victim.config.node_id].device_witness
        world.victim.start()
        await cluster.until(lambda: world.victim.is_ready)
        found = newest_image(cluster).brokers[world.victim.config.node_id].device_witness
        assert found in (stopped, stopped + 1), "at most the first number of the next process"

    run_simulation(main, seed=1, time_limit_s=600)


def test_no_number_is_told_before_the_registration_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was found is evidence until then."""
    noted: list[bool] = []
    original = BrokerDirectory.advance_device_witness

    async def advance(self: BrokerDirectory) -> None:
        noted.append(self._has_epoch)
        await original(self)

    monkeypatch.setattr(BrokerDirectory, "advance_device_witness", advance)

    async def main(simulation: Simulation) -> None:
        world = _World(simulation)
        await world.cluster.start()

    run_simulation(main, seed=1, time_limit_s=60)
    assert noted
    assert all(noted)
