"""Compare and set: a batch that is appended only where its producer expects the log to end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from quorate.core.ids import LeaderEpoch
from quorate.rpc.error_detail import error_from_detail
from quorate.v1 import broker_pb2
from tests.unit.broker.broker_harness import SECOND, SELF, THIRD, World, batch, records, settle, simulate

THREE = (SELF, SECOND, THIRD)


async def append_at(world: World, expected_offset: int, value: str = "a", **more: Any) -> Any:
    entry = broker_pb2.ProducePartition(topic="t", batch=batch(value), expected_offset=expected_offset)
    return (await world.produce_all(entry, **more))[0]


async def appending_at(world: World, expected_offset: int, **more: Any) -> asyncio.Task[Any]:
    task = asyncio.create_task(append_at(world, expected_offset, **more))
    await settle()
    return task


def commit(world: World, offset: int) -> None:
    for follower in (SECOND, THIRD):
        world.follower_fetches(follower, offset)


def test_batch_is_appended_where_it_is_expected() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic()
        assert (await append_at(world, 0, "a")).base_offset == 0
        assert (await append_at(world, 1, "b")).base_offset == 1
        assert await world.values() == ["a", "b"]

    simulate(scenario)


def test_structured_records_are_appended_where_they_are_expected() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic()
        entry = broker_pb2.ProducePartition(topic="t", records=records("a", "b"), expected_offset=0)
        [first] = await world.produce_all(entry)
        assert (first.base_offset, first.next_offset) == (0, 2)
        [second] = await world.produce_all(entry)
        assert second.error.code == "OFFSET_MISMATCH"

    simulate(scenario)


def test_late_batch_is_refused_with_the_offset_at_which_the_log_ends() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic()
        await world.produce("a", "b")
        error = error_from_detail((await append_at(world, 1)).error)
        assert error.code == "OFFSET_MISMATCH"
        assert not error.retriable
        assert not error.outcome_unknown
        assert error.facts == {"actual_offset": 2}
        assert await world.values() == ["a", "b"]

    simulate(scenario)


def test_refusal_waits_until_the_offset_that_it_names_is_committed() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(replicas=THREE)
        await world.produce("a", acks=broker_pb2.ACKS_LEADER)
        task = await appending_at(world, 0)
        assert not task.done()
        world.follower_fetches(SECOND, 1)
        await settle()
        assert not task.done()
        world.follower_fetches(THIRD, 1)
        assert error_from_detail((await task).error).facts == {"actual_offset": 1}
        assert world.partition().log.log_end_offset == 1

    simulate(scenario)


def test_refusal_names_no_offset_when_leadership_is_lost_before_that_is_committed() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(replicas=THREE)
        await world.produce("a", acks=broker_pb2.ACKS_LEADER)
        task = await appending_at(world, 0)
        world.change(leader=SECOND, leader_epoch=LeaderEpoch(1))
        error = error_from_detail((await task).error)
        assert error.code == "OFFSET_NOT_AVAILABLE"
        assert error.retriable
        assert not error.outcome_unknown
        assert error.facts == {}

    simulate(scenario)


def test_refusal_names_no_offset_when_the_time_is_over_before_that_is_committed() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(replicas=THREE)
        await world.produce("a", acks=broker_pb2.ACKS_LEADER)
        error = error_from_detail((await append_at(world, 0, timeout_ms=100)).error)
        assert (error.code, error.facts) == ("OFFSET_NOT_AVAILABLE", {})

    simulate(scenario)


def test_refusal_needs_the_lease_as_it_leaves() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(replicas=THREE)
        await world.produce("a", acks=broker_pb2.ACKS_LEADER)
        task = await appending_at(world, 0)
        world.lease.revoke()
        commit(world, 1)
        result = await task
        assert result.error.code == "BROKER_FENCED"
        assert not result.error.outcome_unknown

    simulate(scenario)


def test_acknowledgement_needs_no_lease() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic()
        world.lease.revoke()
        assert (await append_at(world, 0)).base_offset == 0

    simulate(scenario)


def test_early_batch_is_to_be_tried_again() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic()
        result = await append_at(world, 1)
        assert result.error.code == "OFFSET_NOT_AVAILABLE"
        assert result.error.retriable
        assert world.partition().log.log_end_offset == 0

    simulate(scenario)


def test_retry_gets_the_original_offset_though_the_log_goes_on_behind_it() -> None:
    sent = broker_pb2.ProducePartition(
        topic="t",
        batch=batch("a", producer_id=7, producer_epoch=0, base_sequence=0),
        expected_offset=0,
    )

    async def scenario(world: World) -> None:
        await world.create_topic()
        await world.produce_all(sent)
        await world.produce("b")
        [retry] = await world.produce_all(sent)
        assert (retry.base_offset, retry.next_offset) == (0, 1)

    simulate(scenario)


def test_refused_batch_uses_up_no_sequence_number() -> None:
    def sent(expected_offset: int) -> broker_pb2.ProducePartition:
        content = batch("a", producer_id=7, producer_epoch=0, base_sequence=0)
        return broker_pb2.ProducePartition(topic="t", batch=content, expected_offset=expected_offset)

    async def scenario(world: World) -> None:
        await world.create_topic()
        await world.produce("first")
        [refused] = await world.produce_all(sent(0))
        assert refused.error.code == "OFFSET_MISMATCH"
        [accepted] = await world.produce_all(sent(1))
        assert accepted.base_offset == 1

    simulate(scenario)


def test_of_many_that_expect_the_same_end_one_is_appended() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(replicas=THREE)
        tasks = [await appending_at(world, 0, value=str(number)) for number in range(5)]
        commit(world, 1)
        results = [await task for task in tasks]
        assert sum(result.HasField("base_offset") for result in results) == 1
        refused = [result.error for result in results if result.HasField("error")]
        assert all(error_from_detail(error).facts == {"actual_offset": 1} for error in refused)

    simulate(scenario)


@pytest.mark.parametrize(
    ("expected_offset", "acks"),
    [(0, broker_pb2.ACKS_LEADER), (0, broker_pb2.ACKS_NONE), (-1, broker_pb2.ACKS_ALL)],
)
def test_condition_that_makes_no_sense_is_refused(expected_offset: int, acks: broker_pb2.Acks) -> None:
    async def scenario(world: World) -> None:
        await world.create_topic()
        assert (await append_at(world, expected_offset, acks=acks)).error.code == "INVALID_REQUEST"
        assert world.partition().log.log_end_offset == 0

    simulate(scenario)
