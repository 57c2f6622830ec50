"""Compare and set: a record that is written only if the log ends where its sender thinks."""

from __future__ import annotations

import asyncio

import pytest

from quorate.chaos.models.producer.fake_broker import FakeCluster, Trouble, simulate
from quorate.client.producer import AsyncProducer
from quorate.core.records import check_batch
from quorate.errors import (
    DeliveryExpired,
    InvalidRequest,
    NotEnoughReplicas,
    OffsetMismatch,
    QuorateError,
)


def test_condition_that_holds_writes_and_one_that_does_not_refuses_without_a_gap() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        (partition,) = cluster.add_topic()
        async with cluster.producer() as producer:
            assert (await (await producer.send("t", b"a", expected_offset=0))).offset == 0
            with pytest.raises(OffsetMismatch) as refused:
                await (await producer.send("t", b"b", expected_offset=0))
            assert refused.value.facts["actual_offset"] == 1
            assert not refused.value.outcome_unknown
            assert (await (await producer.send("t", b"c", expected_offset=1))).offset == 1
            assert (await (await producer.send("t", b"d"))).offset == 2
        headers = [check_batch(stored.content) for stored in partition.log]
        assert [header.base_sequence for header in headers] == [0, 1, 2]
        assert {header.producer_epoch for header in headers} == {0}

    simulate(scenario)


def test_condition_beyond_the_end_waits_and_expires() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        (partition,) = cluster.add_topic()
        async with cluster.producer(delivery_timeout_ms=500) as producer, cluster.producer() as other:
            waiting = await producer.send("t", b"b", expected_offset=1)
            await (await other.send("t", b"a"))
            assert (await waiting).offset == 1
            with pytest.raises(DeliveryExpired):
                await (await producer.send("t", b"c", expected_offset=9))
        assert partition.values() == [b"a", b"b"]

    simulate(scenario)


def test_conditional_batch_travels_alone() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        (partition,) = cluster.add_topic()
        async with cluster.producer() as producer:
            futures = [
                await producer.send("t", b"a"),
                await producer.send("t", b"b", expected_offset=1),
                await producer.send("t", b"c", expected_offset=2),
                await producer.send("t", b"d"),
                await producer.send("t", b"e"),
            ]
            assert [(await future).offset for future in futures] == [0, 1, 2, 3, 4]
        counts = [check_batch(stored.content).record_count for stored in partition.log]
        assert counts == [1, 1, 1, 2]

    simulate(scenario)


def test_many_records_with_one_condition_are_all_written_or_none() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        (partition,) = cluster.add_topic()
        async with cluster.producer(batch_bytes=100) as producer:
            places = await (await producer.send_many("t", [b"x"] * 50, partition=0, expected_offset=0))
            assert [place.offset for place in places] == list(range(50))
            refused = await producer.send_many("t", [b"y"] * 50, expected_offset=49)
            with pytest.raises(OffsetMismatch):
                await refused
        assert len(partition.log) == 1

    simulate(scenario)


def test_lost_answer_of_a_conditional_batch_is_found_again() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        (partition,) = cluster.add_topic()
        async with cluster.producer() as producer:
            partition.script.append(Trouble.ANSWER_LOST)
            assert (await (await producer.send("t", b"a", expected_offset=0))).offset == 0
        assert partition.values() == [b"a"]

    simulate(scenario)


def test_condition_without_all_acks_or_without_a_partition_is_refused() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        cluster.add_topic(partitions=2)
        async with cluster.producer() as producer:
            with pytest.raises(InvalidRequest):
                await producer.send("t", b"a", partition=0, expected_offset=0, acks=1)
            with pytest.raises(InvalidRequest):
                await producer.send("t", b"a", expected_offset=0)
            with pytest.raises(InvalidRequest):
                await producer.send_many("t", [b"a"], expected_offset=0)

    simulate(scenario)


@pytest.mark.parametrize("seed", range(10))
def test_rivals_never_overwrite_each_other(seed: int) -> None:
    """Each reads the end and appends there; who was told that he won is in the log, at that offset."""

    async def scenario(cluster: FakeCluster) -> None:
        (partition,) = cluster.add_topic()
        rng = cluster.simulation.rng
        won: dict[int, bytes] = {}
        refused: set[bytes] = set()

        async def rival(name: int, producer: AsyncProducer) -> None:
            for number in range(15):
                value = b"%d of %d" % (number, name)
                expected = partition.log_end
                try:
                    place = await (await producer.send("t", value, expected_offset=expected))
                except QuorateError as error:
                    if not error.outcome_unknown:
                        refused.add(value)
                else:
                    assert place.offset == expected
                    assert expected not in won
                    won[expected] = value
                if rng.random() < 0.3:
                    partition.script.append(rng.choice([*Trouble, NotEnoughReplicas("by the script")]))
                if rng.random() < 0.1:
                    cluster.elect(partition, rng.choice([1, 2, 3]))

        producers = [cluster.producer(delivery_timeout_ms=2000) for _ in range(3)]
        await asyncio.gather(*(rival(name, producer) for name, producer in enumerate(producers)))
        partition.script.clear()
        for producer in producers:
            await producer.close()
        await asyncio.sleep(cluster.late_s[1])
        log = partition.values()
        assert all(log[offset] == value for offset, value in won.items())
        assert not refused & set(log)
        assert len(set(log)) == len(log)

    simulate(scenario, seed=seed)
