"""What an acknowledgement promises, with followers, and who may give one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from quorate.core.ids import LeaderEpoch
from quorate.rpc.error_detail import error_from_detail
from quorate.v1 import broker_pb2
from tests.unit.broker.broker_harness import SECOND, SELF, THIRD, World, batch, records, settle, simulate

ProducePartition = broker_pb2.ProducePartition
THREE = (SELF, SECOND, THIRD)
ALL, LEADER, NONE = broker_pb2.ACKS_ALL, broker_pb2.ACKS_LEADER, broker_pb2.ACKS_NONE


def assert_unknown(result: broker_pb2.ProducePartitionResult, code: str) -> None:
    assert result.error.code == code
    assert result.error.outcome_unknown
    assert not result.HasField("base_offset")
    assert not result.HasField("next_offset")


async def producing(world: World, *values: str, **more: Any) -> asyncio.Task[Any]:
    """A produce call under way, as far as it gets without followers."""
    task = asyncio.create_task(world.produce(*values, **more))
    await settle()
    return task


def test_acks_all_is_answered_when_every_member_of_the_isr_has_the_batch() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(replicas=THREE)
        task = await producing(world, "a", "b")
        world.follower_fetches(SECOND, 2)
        await settle()
        assert not task.done()
        world.follower_fetches(THIRD, 1)
        await settle()
        assert not task.done()
        world.follower_fetches(THIRD, 2)
        result = await task
        assert (result.base_offset, result.next_offset) == (0, 2)

    simulate(scenario)


def test_acks_of_the_leader_is_answered_at_once_and_shown_to_no_consumer() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(replicas=THREE)
        result = await world.produce("a", acks=LEADER)
        assert result.base_offset == 0
        assert await world.values() == []

    simulate(scenario)


def test_too_few_in_sync_refuse_acks_all_before_anything_is_written() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(replicas=THREE)
        world.change(isr=(SELF,))
        refused = await world.produce("a")
        assert refused.error.code == "NOT_ENOUGH_REPLICAS"
        assert not refused.error.outcome_unknown
        assert world.partition().log.log_end_offset == 0
        assert (await world.produce("b", acks=LEADER)).base_offset == 0

    simulate(scenario)


def test_too_few_in_sync_after_the_append_leave_the_outcome_unknown() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(replicas=THREE)
        task = await producing(world, "a")
        world.change(isr=(SELF,))
        assert_unknown(await task, "NOT_ENOUGH_REPLICAS_AFTER_APPEND")

    simulate(scenario)


def test_lost_leadership_leaves_the_outcome_unknown_whatever_the_new_leader_has() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(replicas=THREE)
        task = await producing(world, "a")
        world.change(leader=SECOND, leader_epoch=LeaderEpoch(1))
        assert_unknown(await task, "UNAVAILABLE")

    simulate(scenario)


def test_wait_of_many_partitions_ends_with_the_last_of_them_each_with_its_own_outcome() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(partitions=3, replicas=THREE)
        entries = [ProducePartition(topic="t", partition=number, records=records("a")) for number in range(3)]
        task = asyncio.create_task(world.produce_all(*entries))
        await settle()
        for follower in (SECOND, THIRD):
            world.follower_fetches(follower, 1, number=2)
        world.change(1, leader=SECOND, leader_epoch=LeaderEpoch(1))
        await settle()
        assert not task.done()
        for follower in (SECOND, THIRD):
            world.follower_fetches(follower, 1, number=0)
        first, second, third = await task
        assert (first.base_offset, third.base_offset) == (0, 0)
        assert_unknown(second, "UNAVAILABLE")

    simulate(scenario)


def test_time_out_tells_apart_what_was_acknowledged_and_what_was_not() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(partitions=2, replicas=THREE)
        entries = [ProducePartition(topic="t", partition=number, records=records("a")) for number in range(2)]
        task = asyncio.create_task(world.produce_all(*entries, timeout_ms=500))
        await settle()
        for follower in (SECOND, THIRD):
            world.follower_fetches(follower, 1, number=1)
        first, second = await task
        assert_unknown(first, "REQUEST_TIMED_OUT")
        assert second.base_offset == 0

    simulate(scenario)


def test_retry_gets_the_original_offset_only_once_that_is_committed() -> None:
    sent = ProducePartition(
        topic="t", batch=batch("a", producer_id=7, producer_epoch=0, base_sequence=0), current_leader_epoch=0
    )

    async def scenario(world: World) -> None:
        await world.create_topic(replicas=THREE)
        first = asyncio.create_task(world.produce_all(sent))
        await settle()
        retry = asyncio.create_task(world.produce_all(sent))
        await settle()
        assert not retry.done()
        assert world.partition().log.log_end_offset == 1
        for follower in (SECOND, THIRD):
            world.follower_fetches(follower, 1)
        assert (await first)[0].base_offset == (await retry)[0].base_offset == 0

    simulate(scenario)


def test_gap_in_the_sequence_is_refused_and_not_written() -> None:
    def sent(sequence: int) -> broker_pb2.ProducePartition:
        content = batch("a", producer_id=7, producer_epoch=0, base_sequence=sequence)
        return ProducePartition(topic="t", batch=content)

    async def scenario(world: World) -> None:
        await world.create_topic()
        await world.produce_all(sent(0))
        [refused] = await world.produce_all(sent(2))
        assert refused.error.code == "OUT_OF_ORDER_SEQUENCE_NUMBER"
        [accepted] = await world.produce_all(sent(1))
        assert accepted.base_offset == 1

    simulate(scenario)


# -- the lease (rule 37)


@pytest.mark.parametrize("acks", [LEADER, NONE])
def test_without_the_lease_the_leader_alone_takes_nothing(acks: broker_pb2.Acks) -> None:
    async def scenario(world: World) -> None:
        await world.create_topic()
        world.lease.revoke()
        result = await world.produce("a", acks=acks)
        assert result.error.code == "BROKER_FENCED"
        assert not result.error.outcome_unknown
        assert world.partition().log.log_end_offset == 0

    simulate(scenario)


def test_without_the_lease_acks_all_goes_on() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic()
        world.lease.revoke()
        assert (await world.produce("a")).base_offset == 0

    simulate(scenario)


def test_lease_that_ends_before_the_answer_leaves_makes_acks_of_the_leader_unknown() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(durability="fsync")
        task = await producing(world, "a", acks=LEADER)
        world.lease.revoke()
        assert_unknown(await task, "UNAVAILABLE")

    simulate(scenario, sync_delay_s=0.5)


# -- who leads


def test_broker_that_does_not_lead_names_the_one_that_does() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(replicas=THREE)
        world.change(leader=THIRD, leader_epoch=LeaderEpoch(4))
        error = error_from_detail((await world.produce("a")).error)
        assert error.code == "NOT_LEADER_OR_FOLLOWER"
        assert error.retriable
        assert error.facts["leader"] == THIRD
        assert error.facts["leader_epoch"] == 4
        assert error.facts.get("leader_address") == "broker3:9092"

    simulate(scenario)


def test_broker_without_a_replica_names_the_one_that_leads() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(replicas=THREE)
        world.change(leader=SECOND, leader_epoch=LeaderEpoch(1))
        world.replicas.found.clear()
        error = error_from_detail((await world.produce("a")).error)
        assert error.code == "NOT_LEADER_OR_FOLLOWER"
        assert error.facts["leader_address"] == "broker2:9092"

    simulate(scenario)


# -- times (message.timestamp.*.max.ms)

HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("age_ms", "configs", "is_accepted"),
    [
        (0, {}, True),
        (10 * 365 * 24 * HOUR_MS, {}, True),
        (-HOUR_MS, {}, True),
        (-HOUR_MS - 1, {}, False),
        (-HOUR_MS - 1, {"message_timestamp_after_max_ms": "-1"}, True),
        (-1, {"message_timestamp_after_max_ms": "0"}, False),
        (HOUR_MS, {"message_timestamp_before_max_ms": "1h"}, True),
        (HOUR_MS + 1, {"message_timestamp_before_max_ms": "1h"}, False),
    ],
)
def test_record_from_another_time_is_refused(age_ms: int, configs: dict[str, Any], is_accepted: bool) -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(**configs)
        [record] = records("a")
        record.timestamp_ms = world.clock.wall_ms() - age_ms
        [result] = await world.produce_all(ProducePartition(topic="t", records=[record]))
        assert result.HasField("error") != is_accepted
        if not is_accepted:
            assert result.error.code == "INVALID_TIMESTAMP"
            assert world.partition().log.log_end_offset == 0

    simulate(scenario)
