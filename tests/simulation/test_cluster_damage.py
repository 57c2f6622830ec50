"""A batch that rots on disk is found when it is read, and the replica is fetched anew (rule 44)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest

from quorate.broker.replica.partition import Partition
from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.cluster.final import check_replicas_agree, records_of
from quorate.chaos.cluster.machine import SimMachine
from quorate.chaos.cluster.view import failed_in_silence, replicas_of
from quorate.chaos.mutations.registry import find_mutation
from quorate.chaos.sim.patch import Patch
from quorate.core.ids import Offset, PartitionId, TopicName, TopicPartition
from quorate.v1 import admin_pb2, broker_pb2
from tests.simulation.one_topic import FETCH, PLAIN, leader_of, simulate

TOPIC: Final = TopicPartition(TopicName("t"), PartitionId(0))
RECORDS: Final = 50
#: somewhere in the first batch's records
DAMAGED_BIT: Final = 8 * 80
#: a segment is closed with the first write after a second, and compacted when it is next looked at
COMPACTED: Final = admin_pb2.CreateTopicRequest(
    name="t",
    configs={"cleanup.policy": "compact", "segment.ms": "1000", "min.cleanable.dirty.ratio": "0.01"},
)


def simulate_damage(
    scenario: Callable[[SimCluster], Awaitable[None]], topic: admin_pb2.CreateTopicRequest = PLAIN
) -> None:
    async def main(cluster: SimCluster) -> None:
        await write(cluster)
        await cluster.until(lambda: is_whole(cluster))
        await scenario(cluster)

    # What was damaged is found by those who read the files.
    simulate(main, settings={"log_recent_bytes": 0}, topic=topic)


async def write(cluster: SimCluster) -> None:
    async with cluster.producer() as producer:
        for number in range(RECORDS):
            await (await producer.send("t", b"record %d" % number, key=b"%d" % number, partition=0))


def replica_on(machine: SimMachine) -> Partition:
    assert machine.broker is not None
    [replica] = machine.broker.replicas
    return replica


def is_whole(cluster: SimCluster) -> bool:
    replicas = replicas_of(cluster).get(TOPIC, [])
    ends = {replica.high_watermark for replica in replicas} | {each.log.log_end_offset for each in replicas}
    isrs = [replica.leadership.isr for replica in replicas if replica.leadership is not None]
    return len(replicas) == 3 and len(ends) == 1 and [len(isr) for isr in isrs] == [3]


async def fetch(cluster: SimCluster, machine: SimMachine) -> Any:
    channel = cluster.client_transport().connect(machine.address)
    request = broker_pb2.FetchRequest(
        partitions=[broker_pb2.FetchPartition(topic="t", partition=0, fetch_offset=0)], allow_follower=True
    )
    [result] = (await channel.call(FETCH, request, timeout_s=10)).partitions
    await channel.close()
    return result


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_damaged_replica_is_found_by_a_read_and_fetched_anew(role: str) -> None:
    async def scenario(cluster: SimCluster) -> None:
        leader = leader_of(cluster)
        victim = leader if role == "leader" else next(each for each in cluster.brokers if each is not leader)
        segment = f"{replica_on(victim).log.directory}/{0:020}.log"
        victim.disk.flip_bit(segment, DAMAGED_BIT)

        result = await fetch(cluster, victim)
        assert result.error.retriable, result.error
        assert not result.batches

        await cluster.until(lambda: not is_whole(cluster))
        await cluster.until(lambda: is_whole(cluster), within_s=60)
        replicas = replicas_of(cluster)[TOPIC]
        check_replicas_agree(replicas)
        for replica in replicas:
            assert replica.failure is None
            assert len(records_of(replica, Offset(RECORDS))) == RECORDS
        assert (await fetch(cluster, victim)).batches

    simulate_damage(scenario)


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_damage_that_compaction_finds_is_told_and_repaired_though_nobody_reads(role: str) -> None:
    async def scenario(cluster: SimCluster) -> None:
        leader = leader_of(cluster)
        victim = leader if role == "leader" else next(each for each in cluster.brokers if each is not leader)
        victim.disk.flip_bit(f"{replica_on(victim).log.directory}/{0:020}.log", DAMAGED_BIT)
        log = replica_on(victim).log
        await cluster.until(lambda: log.damage is not None, within_s=900)
        await cluster.clock.sleep(1)
        assert failed_in_silence(cluster) is None
        await cluster.until(lambda: is_whole(cluster), within_s=60)
        assert log.damage is None
        check_replicas_agree(replicas_of(cluster)[TOPIC])

    simulate_damage(scenario, COMPACTED)


def test_replica_that_fails_and_tells_nobody_is_seen_although_all_are_in_sync() -> None:
    async def scenario(cluster: SimCluster) -> None:
        victim = leader_of(cluster)
        assert failed_in_silence(cluster) is None
        victim.disk.flip_bit(f"{replica_on(victim).log.directory}/{0:020}.log", DAMAGED_BIT)
        with Patch() as patch:
            find_mutation("failed-replica-is-told-to-nobody").apply(patch)
            await fetch(cluster, victim)
            await cluster.clock.sleep(10)
        assert replica_on(victim).failure is not None
        assert f"at {victim.name}" in (failed_in_silence(cluster) or "")

    simulate_damage(scenario)


def test_damage_of_a_sleeping_replica_is_found_at_its_next_start_and_repaired() -> None:
    async def scenario(cluster: SimCluster) -> None:
        leader = leader_of(cluster)
        victim = next(each for each in cluster.brokers if each is not leader)
        segment = f"{replica_on(victim).log.directory}/{0:020}.log"
        victim.kill()
        victim.disk.flip_bit(segment, DAMAGED_BIT)
        victim.start()
        await victim.ready()
        await cluster.until(lambda: is_whole(cluster), within_s=60)
        check_replicas_agree(replicas_of(cluster)[TOPIC])
        assert leader_of(cluster) is leader

    simulate_damage(scenario)
