"""Where a group begins in a partition: at its offset, or else so that nothing new is skipped."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import Any

import pytest

from quorate.client.consumer.async_consumer import AsyncConsumer
from quorate.errors import (
    CoordinatorLoadInProgress,
    GroupNotFound,
    LogTruncated,
    NoOffsetForPartition,
    OffsetOutOfRange,
    StaleMemberEpoch,
    Unavailable,
    UnknownServerError,
)
from tests.unit.client.fake_coordinator import GroupCluster, simulate
from tests.unit.client.fake_log_broker import FakePartition
from tests.unit.client.group_helpers import Application, until

T0: Any = ("t", 0)


def topic_of(cluster: GroupCluster, partitions: int, records: int) -> None:
    for partition in cluster.add_topic(partitions=partitions).partitions:
        partition.fill(records)


async def first_offset(consumer: AsyncConsumer) -> int:
    records = await consumer.poll(timeout=60) or await consumer.poll(timeout=60)
    assert records, "there is nothing to read"
    return records[0].offset


async def read_for(consumer: AsyncConsumer, seconds: int) -> list[tuple[int, int]]:
    found = []
    for _ in range(seconds):
        with suppress(UnknownServerError):
            found += [(each.partition, each.offset) for each in await consumer.poll(timeout=1)]
    return found


@pytest.mark.parametrize("reset", ["earliest", "latest", "fail"])
def test_a_committed_offset_counts_whatever_the_reset_is(reset: str) -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 100)
        cluster.commit(0, 40, leader_epoch=1)
        async with cluster.member(topics=["t"], auto_offset_reset=reset) as consumer:
            assert await first_offset(consumer) == 40

    simulate(scenario)


def test_without_an_offset_fail_says_so_until_the_application_seeks() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 100)
        async with cluster.member(topics=["t"], auto_offset_reset="fail") as consumer:
            for _ in range(3):
                with pytest.raises(NoOffsetForPartition, match="auto_offset_reset is fail"):
                    await consumer.poll(timeout=10)
            consumer.seek(T0, 7)
            assert await first_offset(consumer) == 7

    simulate(scenario)


def test_an_offset_beyond_the_log_is_told_and_never_moved() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 2, 100)
        cluster.commit(0, 400)
        async with cluster.member(topics=["t"]) as consumer:
            with pytest.raises(OffsetOutOfRange, match="t-0: offset 400"):
                await read_for(consumer, 60)

    simulate(scenario)


def test_an_offset_that_retention_has_overtaken_is_told() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 100)
        cluster.commit(0, 40)
        cluster.topics["t"].partitions[0].delete_before(60)
        async with cluster.member(topics=["t"]) as consumer:
            with pytest.raises(OffsetOutOfRange):
                await consumer.poll(timeout=10)
        async with cluster.member(topics=["t"], out_of_range_reset="earliest") as consumer:
            assert await first_offset(consumer) == 60

    simulate(scenario)


def test_records_that_vanished_before_the_committed_offset_are_told() -> None:
    """The committed epoch is checked: the log is long enough again, with other records (rule 66)."""

    async def scenario(cluster: GroupCluster) -> None:
        partition = cluster.add_topic().partitions[0]
        partition.fill(20)
        partition.elect(1)
        partition.fill(40)
        cluster.commit(0, 40, leader_epoch=2)
        partition.truncate(20)
        partition.elect(1)
        partition.fill(60)
        async with cluster.member(topics=["t"]) as consumer:
            with pytest.raises(LogTruncated, match="read up to offset 40 in leader epoch 2"):
                await consumer.poll(timeout=10)

    simulate(scenario)


def test_a_stale_epoch_is_asked_with_again_after_a_heartbeat_and_not_taken_for_no_offset() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 100)
        cluster.commit(0, 40)
        cluster.group_errors["FetchOffsets"] = deque(
            [StaleMemberEpoch("old"), CoordinatorLoadInProgress("loading"), Unavailable("gone")] * 3
        )
        async with cluster.member(topics=["t"]) as consumer:
            assert await first_offset(consumer) == 40

    simulate(scenario)


def test_an_answer_that_leaves_a_partition_out_does_not_say_that_it_has_no_offset() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 2, 100)
        cluster.commit(0, 40)
        cluster.commit(1, 50)
        cluster.leave_out = 3
        async with cluster.member(topics=["t"]) as consumer:
            with pytest.raises(UnknownServerError, match="FetchOffsets"):
                await consumer.poll(timeout=10)
            found = await read_for(consumer, 10)
            assert min(found) == (0, 40)
            assert len(found) == 110

    simulate(scenario)


def test_an_error_of_the_coordinator_does_not_say_that_nothing_is_committed() -> None:
    """By hand too; and neither does "there is no such group", which is no answer to this question."""

    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 100)
        cluster.commit(0, 40)
        cluster.group_errors["FetchOffsets"] = deque([GroupNotFound("there is none")])
        async with cluster.member() as consumer:
            consumer.assign([T0])
            with pytest.raises(GroupNotFound):
                await consumer.poll(timeout=10)
            assert await first_offset(consumer) == 40

    simulate(scenario)


# -- latest


def test_a_group_that_begins_at_the_end_writes_down_where_before_it_reads() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 2, 100)
        async with cluster.member(topics=["t"], auto_offset_reset="latest") as consumer:
            assert await consumer.poll(timeout=5) == []
            assert [cluster.committed(number) for number in range(2)] == [100, 100]
            assert len(consumer.assignment()) == 2
            cluster.topics["t"].partitions[0].fill(101)
            cluster.tell()
            assert await first_offset(consumer) == 100

    simulate(scenario)


def test_nothing_is_handed_out_before_the_beginning_is_written_down() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 100)
        cluster.group_errors["CommitOffsets"] = deque([CoordinatorLoadInProgress("loading")] * 50)
        async with cluster.member(topics=["t"], auto_offset_reset="latest") as consumer:
            await consumer.poll(timeout=1)
            cluster.topics["t"].partitions[0].fill(150)
            cluster.tell()
            assert await first_offset(consumer) == 100
            assert cluster.committed() == 100
            assert not cluster.group_errors["CommitOffsets"]

    simulate(scenario)


def test_a_group_that_stopped_before_its_first_commit_does_not_skip_what_came_meanwhile() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 100)
        first = Application(cluster, "a", auto_offset_reset="latest")
        first.start()
        await until(cluster, lambda: first.assignment)
        first.crash()
        cluster.group().remove(next(iter(cluster.group().members)))
        cluster.topics["t"].partitions[0].fill(150)
        async with cluster.member(topics=["t"], auto_offset_reset="latest") as consumer:
            assert await first_offset(consumer) == 100

    simulate(scenario)


def test_a_partition_that_is_added_while_the_group_reads_is_read_from_its_beginning() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 100)
        app = Application(cluster, "a", auto_offset_reset="latest")
        app.start()
        await until(cluster, lambda: app.assignment == [0])
        added = FakePartition(leader=2)
        added.fill(30)
        cluster.topics["t"].partitions.append(added)
        cluster.tell()
        cluster.group().rebalance()
        await until(cluster, lambda: len(app.read) == 30)
        assert app.read == [(1, offset) for offset in range(30)]
        await app.close()

    simulate(scenario)


def test_a_partition_that_was_added_while_nobody_was_there_is_read_from_its_beginning() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 100)
        async with cluster.member(topics=["t"], auto_offset_reset="latest") as consumer:
            await consumer.poll(timeout=5)
        added = FakePartition(leader=2)
        added.fill(30)
        cluster.topics["t"].partitions.append(added)
        cluster.tell()
        async with cluster.member(topics=["t"], auto_offset_reset="latest") as consumer:
            assert sorted(await read_for(consumer, 5)) == [(1, offset) for offset in range(30)]

    simulate(scenario)


def test_a_topic_that_is_created_while_the_group_waits_for_it_is_read_from_its_beginning() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        async with cluster.member(topics=["t"], auto_offset_reset="latest") as consumer:
            assert await consumer.poll(timeout=5) == []
            topic_of(cluster, 2, 10)
            cluster.group().rebalance()
            assert len(await read_for(consumer, 5)) == 20

    simulate(scenario)


def test_members_of_a_new_group_that_start_together_all_begin_at_the_end() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 6, 100)
        apps = [Application(cluster, name, auto_offset_reset="latest") for name in "abc"]
        for app in apps:
            app.start()
        await until(cluster, lambda: all(len(app.assignment) == 2 for app in apps))
        assert all(app.read == [] for app in apps)
        for number in range(6):
            assert cluster.committed(number) == 100
        for app in apps:
            await app.close()

    simulate(scenario)


@pytest.mark.parametrize("delay_s", [0.0005, 0.001, 0.002, 0.004, 0.05, 1.0])
def test_a_member_that_comes_a_moment_later_begins_at_the_end_too(delay_s: float) -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 6, 100)
        apps = [Application(cluster, name, auto_offset_reset="latest") for name in "abc"]
        for app in apps:
            app.start()
            await cluster.sleep(delay_s)
        await until(cluster, lambda: all(len(app.assignment) == 2 for app in apps))
        assert all(app.read == [] for app in apps)
        for app in apps:
            await app.close()

    for seed in range(1, 6):
        simulate(scenario, seed=seed)


def test_a_leader_that_is_away_keeps_only_its_own_partitions_waiting() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 3, 100)
        cluster.elect_coordinator(2)
        cluster.kill(1)
        app = Application(cluster, "a", auto_offset_reset="latest")
        app.start()
        await until(cluster, lambda: app.assignment == [1, 2])
        cluster.topics["t"].partitions[0].elect(3)
        cluster.tell()
        await until(cluster, lambda: app.assignment == [0, 1, 2])
        await app.close()

    simulate(scenario)
