"""Who may answer a reader, and with what: leaders, followers, the lease, damage."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from quorate.core.ids import LeaderEpoch, Offset
from quorate.errors import LogDamaged
from quorate.rpc.error_detail import error_from_detail
from quorate.v1 import broker_pb2
from tests.unit.broker.broker_harness import (
    DATA_DIRECTORY,
    SECOND,
    SELF,
    THIRD,
    World,
    batch,
    settle,
    simulate,
)

THREE = (SELF, SECOND, THIRD)
LATEST = broker_pb2.OFFSET_SPEC_LATEST
EARLIEST = broker_pb2.OFFSET_SPEC_EARLIEST
AT_TIMESTAMP = broker_pb2.OFFSET_SPEC_AT_TIMESTAMP


async def list_offset(world: World, **fields: Any) -> broker_pb2.ListOffsetsPartitionResult:
    entry = broker_pb2.ListOffsetsPartition(topic="t", **fields)
    response = await world.call("ListOffsets", broker_pb2.ListOffsetsRequest(partitions=[entry]))
    result: broker_pb2.ListOffsetsPartitionResult = response.partitions[0]
    return result


async def end_of_epoch(
    world: World, leader_epoch: int, **fields: Any
) -> broker_pb2.OffsetForLeaderEpochResult:
    entry = broker_pb2.OffsetForLeaderEpochPartition(topic="t", leader_epoch=leader_epoch, **fields)
    request = broker_pb2.OffsetForLeaderEpochRequest(partitions=[entry])
    result: broker_pb2.OffsetForLeaderEpochResult = (
        await world.call("OffsetForLeaderEpoch", request)
    ).partitions[0]
    return result


def commit(world: World, offset: int) -> None:
    for follower in (SECOND, THIRD):
        world.follower_fetches(follower, offset)


async def follow_with(world: World, *values: str, high_watermark: int) -> None:
    """This broker follows, has these records, and has heard of that high watermark."""
    await world.create_topic(replicas=THREE)
    await world.produce(*values, acks=broker_pb2.ACKS_LEADER)
    world.change(leader=SECOND, leader_epoch=LeaderEpoch(1))
    world.partition().advance_high_watermark_from_leader(Offset(high_watermark))


# -- consumers see what is committed, and nothing else (rule 17)


def test_fetch_shows_nothing_above_the_high_watermark_and_wakes_when_it_moves() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(replicas=THREE)
        await world.produce("a", acks=broker_pb2.ACKS_LEADER)
        fetching = asyncio.create_task(world.fetch(0, max_wait_ms=10_000))
        await settle()
        assert not fetching.done()
        commit(world, 1)
        result = await fetching
        assert [record.value for record in result.records] == [b"a"]
        assert (result.high_watermark, result.last_stable_offset) == (1, 1)

    simulate(scenario)


def test_fetch_that_waits_is_answered_when_another_broker_leads() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(replicas=THREE)
        began = world.now
        fetching = asyncio.create_task(world.fetch(0, max_wait_ms=10_000))
        await settle()
        world.change(leader=SECOND, leader_epoch=LeaderEpoch(1))
        error = error_from_detail((await fetching).error)
        assert error.code == "NOT_LEADER_OR_FOLLOWER"
        assert (error.facts["leader"], error.facts["leader_address"]) == (SECOND, "broker2:9092")
        assert world.now == began

    simulate(scenario)


def test_new_leader_does_not_tell_an_end_before_it_knows_what_is_committed() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(replicas=THREE)
        await world.produce("a", acks=broker_pb2.ACKS_LEADER)
        world.change(leader_epoch=LeaderEpoch(1))
        for spec in (LATEST, AT_TIMESTAMP):
            result = await list_offset(world, spec=spec)
            assert result.error.code == "OFFSET_NOT_AVAILABLE"
            assert result.error.retriable
        assert (await end_of_epoch(world, 0)).error.code == "OFFSET_NOT_AVAILABLE"
        assert (await list_offset(world, spec=EARLIEST)).offset == 0
        commit(world, 1)
        assert (await list_offset(world, spec=LATEST)).offset == 1

    simulate(scenario)


def test_end_of_an_epoch_is_that_of_the_largest_epoch_not_beyond_it() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic()
        await world.produce("a", "b")
        world.change(leader_epoch=LeaderEpoch(3))
        await world.produce("c")
        for asked, found in [(0, (0, 2)), (2, (0, 2)), (3, (3, 3)), (9, (3, 3))]:
            result = await end_of_epoch(world, asked, current_leader_epoch=3)
            assert not result.HasField("error")
            assert (result.leader_epoch, result.end_offset) == found
        assert (await end_of_epoch(world, 0, current_leader_epoch=2)).error.code == "FENCED_LEADER_EPOCH"

    simulate(scenario)


# -- followers (rule 18)


def test_follower_answers_only_if_asked_to_and_no_further_than_it_knows_to_be_committed() -> None:
    async def scenario(world: World) -> None:
        await follow_with(world, "a", high_watermark=0)
        assert (await world.fetch(0)).error.code == "NOT_LEADER_OR_FOLLOWER"
        for offset in (0, 1):
            result = await world.fetch(offset, allow_follower=True)
            assert not result.HasField("error")
            assert not result.records
        world.partition().advance_high_watermark_from_leader(Offset(5))
        result = await world.fetch(0, allow_follower=True)
        assert [record.value for record in result.records] == [b"a"]
        assert result.high_watermark == 1

    simulate(scenario)


def test_follower_that_is_behind_does_not_call_an_offset_out_of_range() -> None:
    async def scenario(world: World) -> None:
        await follow_with(world, "a", high_watermark=1)
        result = await world.fetch(2, allow_follower=True)
        assert result.error.code == "OFFSET_NOT_AVAILABLE"
        assert result.error.retriable

    simulate(scenario)


def test_fetch_at_a_follower_wakes_when_it_hears_of_a_higher_high_watermark() -> None:
    async def scenario(world: World) -> None:
        await follow_with(world, "a", high_watermark=0)
        began = world.now
        fetching = asyncio.create_task(world.fetch(0, allow_follower=True, max_wait_ms=10_000))
        await settle()
        world.partition().advance_high_watermark_from_leader(Offset(1))
        assert (await fetching).records[0].value == b"a"
        assert world.now == began

    simulate(scenario)


@pytest.mark.parametrize("epoch", [0, 2])
def test_follower_checks_the_leader_epoch_too(epoch: int) -> None:
    async def scenario(world: World) -> None:
        await follow_with(world, "a", high_watermark=1)
        entry = broker_pb2.FetchPartition(topic="t", current_leader_epoch=epoch)
        [result] = await world.fetch_all(entry, allow_follower=True)
        assert result.error.code == ("FENCED_LEADER_EPOCH" if epoch == 0 else "UNKNOWN_LEADER_EPOCH")

    simulate(scenario)


def test_follower_finds_no_offsets() -> None:
    async def scenario(world: World) -> None:
        await follow_with(world, "a", high_watermark=1)
        for spec in (LATEST, EARLIEST, AT_TIMESTAMP):
            assert (await list_offset(world, spec=spec)).error.code == "NOT_LEADER_OR_FOLLOWER"
        assert (await end_of_epoch(world, 0)).error.code == "NOT_LEADER_OR_FOLLOWER"

    simulate(scenario)


# -- the lease (rule 37)


def test_without_the_lease_no_reader_is_answered() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic()
        await world.produce("a")
        world.lease.revoke()
        began = world.now
        for result in (
            await world.fetch(0, max_wait_ms=10_000),
            await list_offset(world, spec=LATEST),
            await end_of_epoch(world, 0),
        ):
            assert result.error.code == "BROKER_FENCED"
            assert result.error.retriable
            assert (result.topic, result.partition) == ("t", 0)
            assert len(result.ListFields()) <= 3
        assert world.now == began

    simulate(scenario)


def test_lease_that_ends_while_a_fetch_waits_leaves_it_without_an_answer() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic()
        fetching = asyncio.create_task(world.fetch(0, max_wait_ms=10_000))
        await settle()
        world.lease.revoke()
        await world.produce("a")
        result = await fetching
        assert result.error.code == "BROKER_FENCED"
        assert not result.records

    simulate(scenario)


# -- damage (rule 44)


def test_damage_found_by_a_read_is_not_served_and_sends_the_reader_to_another_leader() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(partitions=2, replicas=THREE)
        await world.produce("a", acks=broker_pb2.ACKS_LEADER)
        commit(world, 1)
        world.disk.flip_bit(f"{DATA_DIRECTORY}/t-0/00000000000000000000.log", 8 * 65)
        for _ in range(2):
            result = await world.fetch(0)
            assert result.error.code == "NOT_LEADER_OR_FOLLOWER"
            assert result.error.retriable
            assert result.error.refresh_metadata
            assert not result.records
        assert world.partition().failure is not None
        assert (await world.produce("b")).error.code == "NOT_LEADER_OR_FOLLOWER"
        assert (await world.fetch(0, partition=1)).HasField("error") is False

    simulate(scenario)


def test_replica_that_could_not_be_opened_sends_clients_to_another_leader() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(replicas=THREE)
        [key] = world.replicas.found
        world.replicas.found[key] = LogDamaged("the log is damaged")
        for result in (await world.fetch(0), await world.produce("a")):
            error = error_from_detail(result.error)
            assert (error.code, error.facts["cause"]) == ("NOT_LEADER_OR_FOLLOWER", "LOG_DAMAGED")

    simulate(scenario)


def test_batches_come_back_byte_for_byte() -> None:
    sent = batch("a", "b")

    async def scenario(world: World) -> None:
        await world.create_topic()
        await world.produce_all(broker_pb2.ProducePartition(topic="t", batch=sent))
        result = await world.fetch(0, format=broker_pb2.RECORD_FORMAT_BATCHES)
        assert result.batches[16:] == sent[16:]

    simulate(scenario)
