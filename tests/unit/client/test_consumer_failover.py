"""A consumer rides through what happens to brokers, and does not make it worse."""

from __future__ import annotations

from collections import deque

import pytest
import structlog

from quorate.chaos.sim.network import LinkFaults
from quorate.core.records import encode_values
from quorate.errors import (
    BrokerFenced,
    CorruptBatch,
    InvalidRequest,
    LogDamaged,
    NotLeaderOrFollower,
    OffsetNotAvailable,
    OffsetOutOfRange,
    Overloaded,
    QuorateError,
)
from tests.unit.client.fake_log_broker import T0, FakeCluster, StoredBatch, numbers, read, simulate


def test_a_leader_that_dies_is_replaced_by_the_next_one() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        partition = cluster.add_topic().partitions[0]
        partition.fill(100)
        async with cluster.consumer(topics=["t"]) as consumer:
            assert await read(consumer, 100) == numbers(0, 100)
            cluster.kill(1)
            await cluster.simulation.clock.sleep(3)
            partition.elect(2)
            partition.fill(150)
            cluster.tell()
            before = cluster.simulation.clock.monotonic()
            assert await read(consumer, 50) == numbers(100, 150)
            assert cluster.simulation.clock.monotonic() - before < 1

    simulate(scenario)


def test_a_hint_is_followed_without_waiting_for_metadata() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        partition = cluster.add_topic().partitions[0]
        partition.fill(10)
        async with cluster.consumer(topics=["t"]) as consumer:
            await read(consumer, 10)
            partition.elect(2)
            partition.fill(20)
            cluster.asked.clear()
            cluster.tell()
            assert await read(consumer, 10) == numbers(10, 20)
            asked = [(broker, name) for broker, name, _ in cluster.asked if name != "GetMetadata"]
            assert asked[:3] == [(1, "Fetch"), (2, "OffsetForLeaderEpoch"), (2, "Fetch")]

    simulate(scenario)


@pytest.mark.parametrize(
    "error",
    [
        NotLeaderOrFollower("loading"),
        OffsetNotAvailable("not yet"),
        Overloaded("later"),
        LogDamaged("the leader will be replaced"),
    ],
    ids=lambda error: error.code,
)
@pytest.mark.parametrize("method", ["Fetch", "ListOffsets", "OffsetForLeaderEpoch"])
def test_passing_trouble_is_ridden_out_with_growing_pauses(error: QuorateError, method: str) -> None:
    async def scenario(cluster: FakeCluster) -> None:
        partition = cluster.add_topic().partitions[0]
        partition.fill(10)
        partition.errors[method] = deque([error] * 8)
        async with cluster.consumer(topics=["t"]) as consumer:
            before = cluster.simulation.clock.monotonic()
            assert await read(consumer, 10) == numbers(0, 10)
            partition.elect(2)
            partition.fill(20)
            cluster.tell()
            assert await read(consumer, 10) == numbers(10, 20)
            assert not partition.errors[method]
            assert 1 < cluster.simulation.clock.monotonic() - before < 10

    simulate(scenario)


def test_trouble_that_lasts_is_told_once() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        for partition in cluster.add_topic(partitions=3).partitions:
            partition.fill(10)
            partition.errors["Fetch"] = deque([BrokerFenced("no lease")] * 10_000)
        async with cluster.consumer(topics=["t"]) as consumer:
            with structlog.testing.capture_logs() as told:
                await consumer.poll(timeout=2)
                assert not [each for each in told if each["event"] == "reading_held_up"]
                await consumer.poll(timeout=60)
            [warning] = [each for each in told if each["event"] == "reading_held_up"]
            assert (warning["log_level"], warning["code"]) == ("warning", "BROKER_FENCED")

    simulate(scenario)


def test_a_refusal_for_good_is_told() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        partition = cluster.add_topic().partitions[0]
        partition.fill(10)
        partition.errors["Fetch"] = deque([InvalidRequest("nonsense")])
        async with cluster.consumer(topics=["t"]) as consumer:
            with pytest.raises(InvalidRequest, match="nonsense"):
                await consumer.poll(timeout=60)

    simulate(scenario)


def test_a_silent_broker_is_given_up_after_its_time() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        partition = cluster.add_topic().partitions[0]
        partition.fill(10)
        cluster.network.break_after_s = 10_000
        async with cluster.consumer(topics=["t"], request_timeout_ms=5_000) as consumer:
            await read(consumer, 10)
            cluster.network.partition(["b1"], ["client"])
            partition.append(b"10")
            cluster.tell()
            await cluster.simulation.clock.sleep(60)
            cluster.network.heal()
            assert await read(consumer, 1) == [b"10"]
            assert consumer.statistics().broker_errors >= 1

    simulate(scenario)


def test_everything_is_read_once_and_in_order_over_a_bad_network_and_many_elections() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        cluster.network.faults = LinkFaults(delay_s=(0.001, 0.05), drop_probability=0.02)
        cluster.network.break_after_s = 0.5
        topic = cluster.add_topic(partitions=3)
        rng = cluster.simulation.rng

        def disturb(left: int) -> None:
            for partition in topic.partitions:
                partition.fill(partition.high_watermark + rng.randrange(1, 40))
                if rng.random() < 0.3:
                    partition.elect(rng.choice((1, 2, 3)))
            cluster.tell()
            if left:
                cluster.simulation.loop.call_later(rng.uniform(0.05, 1), disturb, left - 1)

        disturb(40)
        async with cluster.consumer(topics=["t"], request_timeout_ms=3_000) as consumer:
            read_to = dict.fromkeys(range(3), 0)
            for _ in range(200):
                for record in await consumer.poll(timeout=1):
                    assert record.offset == read_to[record.partition]
                    assert record.value == b"%d" % record.offset
                    read_to[record.partition] += 1
            assert list(read_to.values()) == [partition.high_watermark for partition in topic.partitions]

    for seed in range(2):
        simulate(scenario, seed=seed)


def test_the_brokers_are_not_asked_without_pause_while_a_partition_is_offline() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        partition = cluster.add_topic().partitions[0]
        partition.fill(10)
        async with cluster.consumer(topics=["t"]) as consumer:
            await read(consumer, 10)
            cluster.kill(1)
            cluster.asked.clear()
            await cluster.simulation.clock.sleep(60)
            assert len(cluster.asked) < 60 * 10

    simulate(scenario)


def test_a_batch_that_fails_its_checksum_is_told_and_never_skipped() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        partition = cluster.add_topic().partitions[0]
        partition.fill(20)
        good = partition.batches[1]
        partition.batches[1] = StoredBatch(10, 20, 1, good.content[:-1] + b"?")
        async with cluster.consumer(topics=["t"]) as consumer:
            assert await read(consumer, 10) == numbers(0, 10)
            for _ in range(2):
                with pytest.raises(CorruptBatch, match="t-0: what was fetched at offset 10"):
                    await consumer.poll(timeout=60)
            partition.batches[1] = good
            consumer.seek(T0, 10)
            assert await read(consumer, 10) == numbers(10, 20)

    simulate(scenario)


def test_control_batches_are_passed_over() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        partition = cluster.add_topic().partitions[0]
        partition.append(b"0")
        marker = encode_values(
            [b"m"], timestamp_ms=1, base_offset=1, leader_epoch=1, is_control=True, is_transactional=True
        )
        partition.batches.append(StoredBatch(1, 2, 1, marker))
        partition.append(b"2")
        async with cluster.consumer(topics=["t"]) as consumer:
            assert await read(consumer, 2) == [b"0", b"2"]
            partition.batches.append(StoredBatch(3, 4, 1, marker.replace(marker[:8], b"\0" * 7 + b"\3", 1)))
            cluster.tell()
            assert await consumer.poll(timeout=5) == []
            assert await consumer.position(T0) == 4

    simulate(scenario)


# -- replicas nearby


def fetched_from(cluster: FakeCluster) -> set[int]:
    return {broker for broker, _ in cluster.fetches}


def test_a_replica_in_the_clients_rack_is_read_from_if_it_is_in_sync() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        partition = cluster.add_topic().partitions[0]
        partition.fill(10)
        async with cluster.consumer(topics=["t"], client_rack="rack-3") as consumer:
            assert await read(consumer, 10) == numbers(0, 10)
            assert fetched_from(cluster) == {3}
            partition.isr.remove(3)
            cluster.tell()
            await cluster.simulation.clock.sleep(70)
            cluster.fetches.clear()
            partition.fill(20)
            cluster.tell()
            assert await read(consumer, 10) == numbers(10, 20)
            await cluster.simulation.clock.sleep(5)
            assert 1 in fetched_from(cluster)

    simulate(scenario)


def test_the_leader_is_read_from_when_no_replica_is_nearer() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        cluster.add_topic().partitions[0].fill(10)
        for rack in ("rack-1", "elsewhere"):
            cluster.fetches.clear()
            async with cluster.consumer(topics=["t"], client_rack=rack) as consumer:
                assert await read(consumer, 10) == numbers(0, 10)
                assert fetched_from(cluster) == {1}
                assert not any(fetch.allow_follower for _, fetch in cluster.fetches)

    simulate(scenario)


@pytest.mark.parametrize("error", [OffsetOutOfRange("behind"), InvalidRequest("odd")], ids=lambda e: e.code)
def test_any_trouble_with_a_follower_leads_to_the_leader(error: QuorateError) -> None:
    async def scenario(cluster: FakeCluster) -> None:
        partition = cluster.add_topic().partitions[0]
        partition.fill(10)
        partition.errors["Fetch"] = deque([error])
        async with cluster.consumer(topics=["t"], client_rack="rack-3") as consumer:
            assert await read(consumer, 10) == numbers(0, 10)
            assert [broker for broker, _ in cluster.fetches[:2]] == [3, 1]

    simulate(scenario)


def test_a_follower_that_dies_is_left_for_the_leader() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        partition = cluster.add_topic().partitions[0]
        partition.fill(10)
        async with cluster.consumer(topics=["t"], client_rack="rack-3") as consumer:
            await read(consumer, 10)
            cluster.kill(3)
            partition.fill(20)
            cluster.tell()
            assert await read(consumer, 10) == numbers(10, 20)

    simulate(scenario)


def test_what_a_follower_does_not_know_to_be_committed_comes_later() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        partition = cluster.add_topic().partitions[0]
        partition.fill(20)
        partition.follower_high_watermark = 10
        async with cluster.consumer(topics=["t"], client_rack="rack-3") as consumer:
            assert await read(consumer, 10) == numbers(0, 10)
            assert await consumer.poll(timeout=3) == []
            partition.follower_high_watermark = 20
            cluster.tell()
            assert await read(consumer, 10) == numbers(10, 20)
            assert fetched_from(cluster) == {3}

    simulate(scenario)
