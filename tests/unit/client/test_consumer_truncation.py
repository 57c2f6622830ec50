"""What a consumer has read and is gone, or what it will never get: it hears of it (rules 43, 66)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest

from quorate.client.consumer.async_consumer import AsyncConsumer
from quorate.client.consumer.positions import BEGINNING, Need, PartitionReader, Start
from quorate.errors import (
    LogTruncated,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    QuorateError,
    UnknownTopicOrPartition,
)
from tests.unit.client.fake_log_broker import (
    T0,
    FakeCluster,
    FakePartition,
    append,
    numbers,
    one_partition,
    read,
    simulate,
)


async def first_error(consumer: AsyncConsumer, *, polls: int = 100) -> QuorateError:
    """The records before it do not matter here."""
    for _ in range(polls):
        try:
            await consumer.poll(timeout=10)
        except QuorateError as error:
            return error
    raise AssertionError("no error was raised")


async def truncate_uncleanly(cluster: FakeCluster, partition: FakePartition, end_offset: int) -> None:
    """A stale replica takes over, and goes on writing beyond where the consumer stands."""
    partition.truncate(end_offset)
    partition.elect(2)
    partition.fill(200)
    cluster.tell()


async def truncation_is_reported(cluster: FakeCluster) -> None:
    partition = one_partition(cluster, 100)
    async with cluster.consumer(topics=["t"]) as consumer:
        await read(consumer, 100)
        await truncate_uncleanly(cluster, partition, 70)
        error = await first_error(consumer)
        assert isinstance(error, LogTruncated)
        assert error.facts == {
            "topic": "t",
            "partition": 0,
            "offset": 100,
            "end_offset": 70,
            "read_leader_epoch": 1,
            "end_leader_epoch": 1,
            "current_leader_epoch": 2,
        }


def test_truncation_behind_the_position_is_reported_with_where_the_log_ended() -> None:
    simulate(truncation_is_reported)


def test_truncation_is_told_until_the_application_seeks() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        partition = one_partition(cluster, 100)
        async with cluster.consumer(topics=["t"]) as consumer:
            await read(consumer, 100)
            await truncate_uncleanly(cluster, partition, 70)
            for _ in range(5):
                assert isinstance(await first_error(consumer, polls=1 if _ else 100), LogTruncated)
            consumer.seek(T0, 70, leader_epoch=1)
            assert await read(consumer, 130) == numbers(70, 200)

    simulate(scenario)


def test_truncation_of_one_partition_leaves_the_others_readable() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        broken, good = cluster.add_topic(partitions=2).partitions
        broken.fill(10)
        good.fill(10)
        async with cluster.consumer(topics=["t"]) as consumer:
            await read(consumer, 20)
            broken.truncate(0)
            broken.elect(3)
            broken.fill(30)
            cluster.tell()
            errors, values = 0, []
            for number in range(60):
                good.fill(11 + number)
                cluster.tell()
                try:
                    values += [(each.partition, each.offset) for each in await consumer.poll(timeout=10)]
                except LogTruncated:
                    errors += 1
            assert errors > 2
            assert values == [(1, 10 + index) for index in range(len(values))]
            assert len(values) > 20

    simulate(scenario)


@pytest.mark.parametrize("end_offset", [10, 70])
def test_records_that_wait_here_and_are_gone_from_the_log_are_not_handed_out(end_offset: int) -> None:
    async def scenario(cluster: FakeCluster) -> None:
        partition = one_partition(cluster, 100)
        async with cluster.consumer(topics=["t"]) as consumer:
            await read(consumer, 15)
            await cluster.simulation.clock.sleep(2)
            await truncate_uncleanly(cluster, partition, end_offset)
            await cluster.simulation.clock.sleep(5)
            values = await read(consumer, max(0, end_offset - 15))
            assert isinstance(await first_error(consumer, polls=1), LogTruncated)
            assert values == numbers(15, end_offset)

    simulate(scenario)


def test_a_longer_log_of_an_older_epoch_is_not_taken_for_the_one_that_was_read() -> None:
    """Kafka's check, by the end offset alone, misses this one."""

    async def scenario(cluster: FakeCluster) -> None:
        partition = one_partition(cluster, 50)
        stale = list(partition.batches)
        partition.elect(2)
        partition.fill(60)
        async with cluster.consumer(topics=["t"]) as consumer:
            await read(consumer, 60)
            # A replica that has more of epoch 1, and nothing of epoch 2, is elected.
            partition.batches, partition.leader_epoch = stale, 1
            partition.fill(200)
            partition.leader_epoch = 2
            partition.elect(3)
            cluster.tell()
            error = await first_error(consumer)
            assert isinstance(error, LogTruncated)
            assert (error.facts["offset"], error.facts["end_offset"]) == (60, None)

    simulate(scenario)


def test_a_clean_failover_is_checked_once_and_loses_nothing() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        partition = one_partition(cluster, 100)
        async with cluster.consumer(topics=["t"]) as consumer:
            await read(consumer, 100)
            for leader in (2, 3, 1):
                partition.elect(leader)
                partition.fill(partition.high_watermark + 10)
                cluster.tell()
                await read(consumer, 10)
            assert await consumer.position(T0) == 130
            assert cluster.count("OffsetForLeaderEpoch") == 3
            assert consumer.statistics().validations == 3

    simulate(scenario)


def test_an_epoch_without_records_is_no_truncation() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        partition = one_partition(cluster, 100)
        async with cluster.consumer() as consumer:
            consumer.assign([T0])
            consumer.seek_to_end()
            assert await consumer.position(T0) == 100
            for leader in (2, 3, 2):
                partition.elect(leader)
                cluster.tell()
                assert await consumer.poll(timeout=3) == []
            partition.append(b"next")
            cluster.tell()
            assert await read(consumer, 1) == [b"next"]

    simulate(scenario)


def test_nothing_is_fetched_in_an_epoch_in_which_the_position_was_not_validated() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        partition = one_partition(cluster, 100)
        async with cluster.consumer(topics=["t"]) as consumer:
            await read(consumer, 100)
            refusal = NotLeaderOrFollower("still loading")
            partition.errors["OffsetForLeaderEpoch"] = deque([refusal] * 5)
            partition.elect(2)
            cluster.tell()
            cluster.asked.clear()
            partition.append(b"next")
            assert await read(consumer, 1) == [b"next"]
            asked = [name for broker, name, _ in cluster.asked if broker == 2 and name != "GetMetadata"]
            assert asked[:6] == ["OffsetForLeaderEpoch"] * 6
            assert set(asked[6:]) == {"Fetch"}

    simulate(scenario)


def test_a_kept_position_is_checked_by_its_epoch_before_it_is_used() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        partition = one_partition(cluster, 70)
        partition.elect(2)
        partition.fill(200)
        async with cluster.consumer() as consumer:
            consumer.assign([T0])
            consumer.seek(T0, 100, leader_epoch=1)
            error = await first_error(consumer)
            assert isinstance(error, LogTruncated)
            assert error.facts["end_offset"] == 70
            consumer.seek(T0, 100, leader_epoch=2)
            assert await read(consumer, 1) == [b"100"]

    simulate(scenario)


# -- retention


async def retention_is_reported(cluster: FakeCluster) -> None:
    partition = one_partition(cluster, 100)
    async with cluster.consumer(topics=["t"], auto_offset_reset="earliest") as consumer:
        await read(consumer, 50)
        consumer.seek(T0, 50)
        partition.delete_before(80)
        error = await first_error(consumer)
        assert isinstance(error, OffsetOutOfRange)
        assert (error.facts["offset"], error.facts["log_start_offset"]) == (50, 80)
        assert isinstance(await first_error(consumer, polls=1), OffsetOutOfRange)
        consumer.seek_to_beginning(T0)
        assert (await read(consumer, 1)) == [b"80"]


def test_records_deleted_before_they_were_read_are_reported_whatever_auto_offset_reset_says() -> None:
    simulate(retention_is_reported)


@pytest.mark.parametrize(("reset", "value"), [("earliest", b"80"), ("latest", b"100")])
def test_records_deleted_before_they_were_read_are_passed_over_only_on_request(
    reset: str, value: bytes
) -> None:
    async def scenario(cluster: FakeCluster) -> None:
        partition = one_partition(cluster, 100)
        async with cluster.consumer(topics=["t"], out_of_range_reset=reset) as consumer:
            await read(consumer, 50)
            consumer.seek(T0, 50)
            partition.delete_before(80)
            cluster.simulation.loop.call_later(9, append, cluster, partition, b"100")
            assert await read(consumer, 1) == [value]
            assert consumer.statistics().resets == 1

    simulate(scenario)


def test_what_was_fetched_in_time_is_handed_out_before_the_position_is_reset() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        partition = one_partition(cluster, 100)
        async with cluster.consumer(
            topics=["t"], out_of_range_reset="earliest", prefetch_bytes=2000, max_partition_fetch_bytes=500
        ) as consumer:
            values = await read(consumer, 5)
            await cluster.simulation.clock.sleep(5)
            partition.fill(300)
            partition.delete_before(290)
            while len(values) < 300 and values[-1] != b"299":
                values += await read(consumer, 1)
            offsets = [int(value or b"") for value in values]
            kept = offsets.index(290)
            assert kept > 10
            assert offsets == [*range(kept), *range(290, 300)]
            assert consumer.statistics().resets == 1

    simulate(scenario)


def test_a_beginning_that_retention_overtakes_before_the_first_record_is_looked_up_again() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        partition = one_partition(cluster, 100)
        partition.errors["Fetch"] = deque([NotLeaderOrFollower("not yet")])
        async with cluster.consumer(topics=["t"]) as consumer:
            assert await consumer.position(T0) == 0
            partition.delete_before(80)
            assert await read(consumer, 20) == numbers(80, 100)
            assert consumer.statistics().resets == 0

    simulate(scenario)


@pytest.mark.parametrize("reset", ["fail", "earliest", "latest"])
def test_a_position_beyond_the_log_is_never_reset(reset: str) -> None:
    async def scenario(cluster: FakeCluster) -> None:
        one_partition(cluster, 100)
        async with cluster.consumer(topics=["t"], out_of_range_reset=reset) as consumer:
            await read(consumer, 1)
            consumer.seek(T0, 5000)
            error = await first_error(consumer)
            assert isinstance(error, OffsetOutOfRange)
            assert error.facts["high_watermark"] == 100

    simulate(scenario)


def test_without_a_position_and_with_reset_fail_the_application_has_to_seek() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        one_partition(cluster, 100)
        async with cluster.consumer(topics=["t"], auto_offset_reset="fail") as consumer:
            with pytest.raises(OffsetOutOfRange, match="seek first"):
                await consumer.poll(timeout=60)
            consumer.seek(T0, 99)
            assert await read(consumer, 1) == [b"99"]

    simulate(scenario)


# -- topics that are made anew


def test_a_topic_made_anew_is_not_read_with_the_old_ones_offsets() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        one_partition(cluster, 10)
        async with cluster.consumer(topics=["t"]) as consumer:
            await read(consumer, 10)
            cluster.delete_topic("t")
            topic = cluster.add_topic(partitions=3)
            topic.partitions[0].fill(100)
            cluster.tell()
            error = await first_error(consumer)
            assert isinstance(error, UnknownTopicOrPartition)
            assert error.facts["topic_id"] == "id1".ljust(22, "x")
            assert error.facts["current_topic_id"] == topic.topic_id
            assert consumer.assignment() == [T0], "its new partitions are not the old topic's"
            consumer.assign([])
            consumer.assign([T0])
            assert await read(consumer, 1) == [b"0"]

    simulate(scenario)


def test_a_deleted_topic_is_reported() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        one_partition(cluster, 10)
        async with cluster.consumer(topics=["t"]) as consumer:
            await read(consumer, 10)
            cluster.delete_topic("t")
            error = await first_error(consumer)
            assert isinstance(error, UnknownTopicOrPartition)
            assert error.facts["current_topic_id"] is None

    simulate(scenario)


# -- mutants: what would go unnoticed if the checks were not there


@pytest.fixture
def without_validation(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def need(self: PartitionReader, read_epoch: object) -> Need:
        self.validated_epoch = self.leader_epoch
        return Need.OFFSET if self.start is not None else Need.FETCH

    with monkeypatch.context() as patch:
        patch.setattr(PartitionReader, "need", need)
        yield


@pytest.fixture
def with_silent_resets(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    original = PartitionReader.out_of_range

    def out_of_range(self: PartitionReader, error: Any, log_start: Any, reset: Start | None) -> bool:
        return original(self, error, log_start, reset or BEGINNING)

    with monkeypatch.context() as patch:
        patch.setattr(PartitionReader, "out_of_range", out_of_range)
        yield


@pytest.mark.usefixtures("without_validation")
def test_mutant_that_does_not_validate_is_found() -> None:
    with pytest.raises(AssertionError, match="no error was raised"):
        simulate(truncation_is_reported)


@pytest.mark.usefixtures("with_silent_resets")
def test_mutant_that_resets_silently_is_found() -> None:
    with pytest.raises(AssertionError, match="no error was raised"):
        simulate(retention_is_reported)
