"""Topics that a consumer reads, and what it hears of those that it does not read any more."""

from __future__ import annotations

from typing import Any

import pytest

from quorate.client.consumer import AsyncConsumer, Consumer
from quorate.errors import InvalidRequest, UnknownTopicOrPartition
from tests.unit.client.fake_log_broker import FakeCluster, simulate

PRESENT: Any = ("present", 0)
ABSENT: Any = ("absent", 0)


async def read_for_a_minute(consumer: AsyncConsumer) -> int:
    return sum([len(await consumer.poll(timeout=1)) for _ in range(60)])


@pytest.mark.parametrize("is_told_before", [True, False])
@pytest.mark.parametrize("topics", [None, ["absent"]])
def test_nothing_is_told_of_a_topic_that_is_no_longer_read(
    topics: list[str] | None, is_told_before: bool
) -> None:
    async def scenario(cluster: FakeCluster) -> None:
        cluster.add_topic("present").partitions[0].fill(10)
        async with cluster.consumer(topics=topics) as consumer:
            if topics is None:
                consumer.assign([ABSENT])
            if is_told_before:
                with pytest.raises(UnknownTopicOrPartition):
                    await consumer.poll(timeout=5)
            else:  # it waits to be told
                await cluster.simulation.clock.sleep(5)
            consumer.assign([PRESENT])
            assert await read_for_a_minute(consumer) == 10

    simulate(scenario)


def test_nothing_is_told_of_a_partition_that_is_no_longer_read() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        cluster.add_topic("present").partitions[0].fill(10)
        async with cluster.consumer() as consumer:
            consumer.assign([("present", 7)])
            await cluster.simulation.clock.sleep(5)
            consumer.assign([PRESENT])
            assert await read_for_a_minute(consumer) == 10

    simulate(scenario)


def test_topic_that_is_given_up_and_read_again_is_looked_for_again() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        async with cluster.consumer() as consumer:
            consumer.assign([ABSENT])
            with pytest.raises(UnknownTopicOrPartition):
                await consumer.poll(timeout=5)
            consumer.assign([])
            await cluster.simulation.clock.sleep(60)
            consumer.assign([ABSENT])
            consumer.assign([])
            consumer.assign([ABSENT])
            with pytest.raises(UnknownTopicOrPartition):
                await consumer.poll(timeout=5)
            cluster.add_topic("absent").partitions[0].fill(3)
            got = 0
            while got < 3:
                try:
                    got += len(await consumer.poll(timeout=5))
                except UnknownTopicOrPartition:
                    continue

    simulate(scenario)


def test_consumer_of_nothing_says_so_instead_of_waiting_for_ever() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        cluster.add_topic("present").partitions[0].fill(1)
        async with cluster.consumer() as consumer:
            for is_assigned_before in (False, True):
                with pytest.raises(
                    InvalidRequest, match=r"^no topics: pass topics=\[…\] or call assign\(\)$"
                ):
                    await anext(consumer)
                with pytest.raises(InvalidRequest, match=r"^no topics"):
                    await consumer.poll()
                if not is_assigned_before:
                    consumer.assign([PRESENT])
                    assert (await anext(consumer)).offset == 0
                    consumer.assign([])

    simulate(scenario)


def test_thread_that_reads_nothing_hears_so_too() -> None:
    with Consumer("127.0.0.1:1") as consumer:
        with pytest.raises(InvalidRequest, match=r"^no topics"):
            next(iter(consumer))
        with pytest.raises(InvalidRequest, match=r"^no topics"):
            consumer.poll()


def test_topic_that_is_given_up_is_not_asked_for_any_more() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        async with cluster.consumer() as consumer:
            consumer.assign([ABSENT])
            await cluster.simulation.clock.sleep(3)
            consumer.assign([])
            await cluster.simulation.clock.sleep(3)
            before = len(cluster.asked)
            await cluster.simulation.clock.sleep(30)
            assert len(cluster.asked) == before

    simulate(scenario)
