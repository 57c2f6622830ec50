"""What a group consumer commits, when, and in whose name."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import pytest

from quorate.client.consumer.async_consumer import AsyncConsumer
from quorate.client.groups.offsets import OffsetAndMetadata
from quorate.errors import (
    BufferExhausted,
    CoordinatorLoadInProgress,
    FencedMemberEpoch,
    InvalidRequest,
    NotEnoughReplicas,
    QuorateError,
    StaleMemberEpoch,
    UnknownTopicOrPartition,
)
from tests.unit.client.fake_coordinator import Committed, GroupCluster, simulate
from tests.unit.client.group_helpers import Application, until

T0: Any = ("t", 0)
T1: Any = ("t", 1)


def topic_of(cluster: GroupCluster, partitions: int, records: int) -> None:
    for partition in cluster.add_topic(partitions=partitions).partitions:
        partition.fill(records)


async def poll_offsets(consumer: AsyncConsumer, count: int) -> list[int]:
    offsets: list[int] = []
    while len(offsets) < count:
        offsets += [record.offset for record in await consumer.poll(count - len(offsets), timeout=60)]
    return offsets


def kept(cluster: GroupCluster, partition: int = 0) -> Committed:
    return cluster.group().offsets[cluster.topics["t"].topic_id, partition]


# -- by the application


def test_a_partition_that_there_is_not_cannot_be_committed_and_is_named() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 3, 1)
        async with cluster.member(topics=["t"]) as consumer:
            await poll_offsets(consumer, 3)
            for number in (77, -1):
                with pytest.raises(UnknownTopicOrPartition, match=rf"^t has no partition {number}: it has 3"):
                    await consumer.commit({("t", number): 1})

    simulate(scenario)


def test_commit_keeps_positions_with_the_epoch_of_the_last_record_that_was_read() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        partition = cluster.add_topic().partitions[0]
        partition.fill(10)
        partition.elect(1)
        partition.fill(20)
        async with cluster.member(topics=["t"]) as consumer:
            assert await poll_offsets(consumer, 10) == list(range(10))
            await consumer.commit()
            assert kept(cluster) == Committed(10, 1, "")
            await poll_offsets(consumer, 1)
            await consumer.commit()
            assert kept(cluster) == Committed(11, 2, "")
            assert await consumer.committed(T0) == 11

    simulate(scenario)


def test_offsets_that_are_given_are_committed_with_their_metadata() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 2, 10)
        async with cluster.member(topics=["t"]) as consumer:
            records = [*await consumer.poll(5, timeout=60), *await consumer.poll(15, timeout=60)]
            third = next(each for each in records if (each.partition, each.offset) == (0, 3))
            await consumer.commit({T0: OffsetAndMetadata.after(third, "up to three")})
            assert kept(cluster) == Committed(4, 1, "up to three")
            assert await consumer.committed_offsets() == {T0: OffsetAndMetadata(4, 1, "up to three")}
            assert await consumer.committed(T1) is None
            await consumer.commit({T1: 2})
            assert kept(cluster, 1) == Committed(2, None, "")
            await consumer.commit()
            assert kept(cluster) == Committed(10, 1, "")

    simulate(scenario)


def test_commit_in_an_iteration_is_behind_the_record_that_was_yielded_last() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 100)
        async with cluster.member(topics=["t"]) as consumer:
            async for record in consumer:
                await consumer.commit()
                assert cluster.committed() == record.offset + 1
                if record.offset == 20:
                    break

    simulate(scenario)


def test_commit_in_an_iteration_has_the_epoch_of_the_record_that_was_read_and_not_of_the_next() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        partition = cluster.add_topic().partitions[0]
        partition.fill(10)
        partition.elect(1)
        partition.fill(20)
        async with cluster.member(topics=["t"]) as consumer:
            async for record in consumer:
                await consumer.commit()
                assert kept(cluster) == Committed(record.offset + 1, record.leader_epoch, "")
                if record.offset == 15:
                    break

    simulate(scenario)


def test_only_positions_that_have_moved_are_committed() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 2, 10)
        async with cluster.member(topics=["t"]) as consumer:
            await poll_offsets(consumer, 20)
            await consumer.commit()
            before = len(cluster.commits())
            await consumer.commit()
            assert len(cluster.commits()) == before
            cluster.topics["t"].partitions[1].fill(11)
            cluster.tell()
            await poll_offsets(consumer, 1)
            await consumer.commit()
            assert [each.partition for each in cluster.commits()[-1].offsets] == [1]

    simulate(scenario)


def test_commits_without_waiting_are_in_order_and_go_together() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 100)
        told: list[tuple[int, QuorateError | None]] = []
        async with cluster.member(topics=["t"]) as consumer:
            for _ in range(50):
                await consumer.poll(1, timeout=60)
                consumer.commit_async(
                    on_commit=lambda offsets, error: told.append((offsets[T0].offset, error))
                )
            await until(cluster, lambda: cluster.committed() == 50)
            await consumer.poll(1, timeout=60)
            assert told == [(offset, None) for offset in range(1, 51)]
            assert len(cluster.commits()) < 40
            committed = [each.offsets[0].offset for each in cluster.commits()]
            assert committed == sorted(committed)

    simulate(scenario)


def test_a_commit_that_is_tried_again_does_not_undo_a_later_one() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 100)
        async with cluster.member(topics=["t"]) as consumer:
            await poll_offsets(consumer, 10)
            cluster.group_errors["CommitOffsets"] = deque([NotEnoughReplicas("too few")] * 3)
            consumer.commit_async()
            await poll_offsets(consumer, 10)
            await consumer.commit()
            assert cluster.committed() == 20
            await cluster.sleep(10)
            assert cluster.committed() == 20
            numbers = [each.commit_number for each in cluster.commits()]
            assert numbers == sorted(set(numbers)), "one that is slow must not pass for a later one"
            assert numbers[0] > 0

    simulate(scenario)


def test_a_commit_from_before_a_partition_was_lost_does_not_count_when_it_is_held_again() -> None:
    """Somebody else has had it meanwhile, and has gone further: rule 62."""

    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 100)
        told: list[QuorateError | None] = []
        async with cluster.member(topics=["t"]) as consumer:
            await poll_offsets(consumer, 10)
            cluster.group_errors["CommitOffsets"] = deque([NotEnoughReplicas("too few")] * 100)
            consumer.commit_async(on_commit=lambda _, error: told.append(error))
            await cluster.sleep(1)
            before = consumer.membership()
            assert before is not None
            cluster.group().remove(before.member_id)
            cluster.commit(0, 50)
            await until(cluster, lambda: _is_back(consumer, before.member_id))
            del cluster.group_errors["CommitOffsets"]
            await cluster.sleep(20)
            assert cluster.committed() == 50, "the group was taken back"
            assert await poll_offsets(consumer, 1) == [50]
        assert isinstance(told[0], FencedMemberEpoch)

    simulate(scenario)


def _is_back(consumer: AsyncConsumer, former_id: str) -> bool:
    membership = consumer.membership()
    return membership is not None and membership.member_id != former_id


@pytest.mark.parametrize(
    "error", [CoordinatorLoadInProgress("loading"), NotEnoughReplicas("too few"), StaleMemberEpoch("old")]
)
def test_what_passes_is_tried_again(error: QuorateError) -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 10)
        async with cluster.member(topics=["t"]) as consumer:
            await poll_offsets(consumer, 10)
            cluster.group_errors["CommitOffsets"] = deque([error] * 3)
            await consumer.commit()
            assert cluster.committed() == 10

    simulate(scenario)


def test_a_stale_epoch_makes_the_member_ask() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 10)
        cluster.heartbeat_interval_ms = 60_000
        async with cluster.member(topics=["t"]) as consumer:
            await poll_offsets(consumer, 10)
            await cluster.sleep(5)
            cluster.group_errors["CommitOffsets"] = deque([StaleMemberEpoch("old")])
            before = len(cluster.heartbeats())
            await consumer.commit()
            assert len(cluster.heartbeats()) > before

    simulate(scenario)


def test_what_does_not_pass_is_told() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 10)
        told: list[QuorateError | None] = []
        async with cluster.member(topics=["t"]) as consumer:
            await poll_offsets(consumer, 10)
            cluster.group_errors["CommitOffsets"] = deque([InvalidRequest("beyond the end")] * 2)
            with pytest.raises(InvalidRequest, match="beyond the end"):
                await consumer.commit()
            consumer.commit_async(on_commit=lambda _, error: told.append(error))
            await consumer.poll(timeout=5)
            assert isinstance(told[0], InvalidRequest)

    simulate(scenario)


def test_commits_that_nobody_takes_do_not_pile_up() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 10)
        async with cluster.member(topics=["t"]) as consumer:
            await poll_offsets(consumer, 10)
            cluster.elect_coordinator(None)
            for offset in range(1000):
                consumer.commit_async({T0: offset})
            with pytest.raises(BufferExhausted):
                consumer.commit_async({T0: 1000})
            cluster.elect_coordinator(1)

    simulate(scenario)


@pytest.mark.parametrize(
    "offsets",
    [{T0: -1}, {T0: "5"}, {("t",): 5}, [(T0, 5)], {T0: OffsetAndMetadata(1, None, b"x")}],  # type: ignore[arg-type]
)
def test_offsets_of_the_wrong_type_are_refused(offsets: Any) -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 10)
        async with cluster.member(topics=["t"]) as consumer:
            await poll_offsets(consumer, 1)
            with pytest.raises(InvalidRequest):
                await consumer.commit(offsets)
            with pytest.raises(InvalidRequest):
                consumer.commit_async(offsets)

    simulate(scenario)


# -- by itself


def test_auto_commit_keeps_what_earlier_polls_handed_out_and_nothing_more() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 100)
        options: Any = {"enable_auto_commit": True, "auto_commit_interval_ms": 1000}
        async with cluster.member(topics=["t"], **options) as consumer:
            for polled in range(10, 100, 10):
                await poll_offsets(consumer, 10)
                await cluster.sleep(3)
                assert cluster.committed() in (None, polled - 10), "what it was handed may be at work"

    simulate(scenario)


def test_auto_commit_in_an_iteration_leaves_out_the_record_that_is_at_work() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 100)
        options: Any = {"enable_auto_commit": True, "auto_commit_interval_ms": 1000}
        async with cluster.member(topics=["t"], **options) as consumer:
            async for record in consumer:
                await cluster.sleep(0.7)
                assert (cluster.committed() or 0) <= record.offset
                if record.offset > 5:
                    assert (cluster.committed() or 0) >= record.offset - 3
                if record.offset == 50:
                    break

    simulate(scenario)


def test_auto_commit_happens_also_while_a_poll_waits() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 10)
        async with cluster.member(topics=["t"], enable_auto_commit=True) as consumer:
            await poll_offsets(consumer, 10)
            assert await consumer.poll(timeout=8) == []
            assert cluster.committed() == 10

    simulate(scenario)


def test_without_auto_commit_nothing_is_committed() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 2, 100)
        first, second = Application(cluster, "a"), Application(cluster, "b")
        first.start()
        await until(cluster, lambda: len(first.read) == 200)
        second.start()
        await until(cluster, lambda: len(second.read) == 100)
        await first.close()
        await second.close()
        assert cluster.commits() == []

    simulate(scenario)


def test_close_commits_what_was_handed_out() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 100)
        async with cluster.member(topics=["t"], enable_auto_commit=True) as consumer:
            await poll_offsets(consumer, 30)
        assert cluster.committed() == 30
        assert cluster.group().members == {}

    simulate(scenario)


@pytest.mark.parametrize("way", ["poll", "iteration"])
def test_an_error_that_ends_the_application_leaves_its_last_records_to_be_read_again(way: str) -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 100)

        async def work() -> None:
            async with cluster.member(topics=["t"], enable_auto_commit=True) as consumer:
                if way == "poll":
                    await poll_offsets(consumer, 30)
                    await consumer.poll(10, timeout=10)
                    raise ZeroDivisionError
                async for record in consumer:
                    if record.offset == 30:
                        raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await work()
        assert cluster.committed() == 30

    simulate(scenario)


def test_an_error_does_not_take_back_what_the_application_committed_itself() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 100)

        async def work() -> None:
            async with cluster.member(topics=["t"], enable_auto_commit=True) as consumer:
                await consumer.poll(30, timeout=10)
                await consumer.commit({T0: 5})
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await work()
        assert cluster.committed() == 5

    simulate(scenario)


def test_close_in_a_finally_clause_knows_of_the_error_too() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 100)
        consumer = cluster.member(topics=["t"], enable_auto_commit=True)

        async def work() -> None:
            try:
                await poll_offsets(consumer, 10)
                await consumer.poll(10, timeout=10)
                raise ZeroDivisionError
            finally:
                await consumer.close()

        with pytest.raises(ZeroDivisionError):
            await work()
        assert cluster.committed() == 10

    simulate(scenario)


@pytest.mark.parametrize("fate", ["at work", "cancelled", "failed", "done"])
def test_what_another_task_was_handed_is_processed_only_if_that_task_is_done(fate: str) -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 100)
        consumer = cluster.member(topics=["t"], enable_auto_commit=True)

        async def work() -> None:
            await poll_offsets(consumer, 10)
            await consumer.poll(10, timeout=10)
            if fate == "failed":
                raise ZeroDivisionError
            await cluster.sleep(60 if fate != "done" else 0)

        task = asyncio.get_running_loop().create_task(work())
        await cluster.sleep(4)
        if fate == "cancelled":
            task.cancel()
            await asyncio.wait([task])
        await consumer.close()
        assert cluster.committed() == (20 if fate == "done" else 10)
        await asyncio.wait([task])

    simulate(scenario)


def test_commits_that_are_under_way_are_waited_for_before_a_partition_is_given_up() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 2, 100)
        first, second = Application(cluster, "a"), Application(cluster, "b")

        async def commit_without_waiting(_: list[int]) -> None:
            cluster.group_errors["CommitOffsets"] = deque([NotEnoughReplicas("too few")] * 3)
            first.consumer.commit_async()

        first.on_revoked = commit_without_waiting
        first.start()
        await until(cluster, lambda: len(first.read) == 200)
        second.start()
        await until(cluster, lambda: second.assignment)
        await cluster.sleep(5)
        assert second.read == []
        first.on_revoked = None
        await first.close()
        await second.close()

    simulate(scenario)


# -- without membership


def test_partitions_that_are_assigned_by_hand_go_on_where_the_group_stands() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 3, 100)
        cluster.commit(0, 90, leader_epoch=1)
        async with cluster.member(auto_offset_reset="latest") as consumer:
            consumer.assign([T0, T1, ("t", 2)])
            consumer.seek(("t", 2), 95)
            found = [
                (each.partition, each.offset) for _ in range(5) for each in await consumer.poll(timeout=1)
            ]
            assert sorted(found) == [(0, offset) for offset in range(90, 100)] + [
                (2, offset) for offset in range(95, 100)
            ]
            await consumer.commit()
            assert [cluster.committed(number) for number in range(3)] == [100, 100, 100]
            assert all(not each.member_id for each in cluster.commits())
            assert cluster.heartbeats() == []
            consumer.assign([])
            consumer.subscribe(["t"])
            assert await consumer.poll(timeout=5) == []
            assert len(consumer.assignment()) == 3

    simulate(scenario)


def test_a_record_has_one_name_for_ever() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 10)
        async with cluster.member(topics=["t"]) as consumer:
            record = await anext(consumer)
            assert consumer.record_id(record) == ("g", cluster.topics["t"].topic_id, 0, 0)

    simulate(scenario)
