"""What Produce promises."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from quorate.errors import InvalidRequest
from quorate.storage import producer_state
from quorate.v1 import broker_pb2, records_pb2
from tests.unit.broker.broker_harness import World, batch, records, settle, simulate

ProducePartition = broker_pb2.ProducePartition
TRANSACTIONAL = batch("a", is_transactional=True, producer_id=1, producer_epoch=0, base_sequence=0)


def test_records_get_consecutive_offsets_and_come_back_as_they_were() -> None:
    sent = [
        records_pb2.Record(key=b"k", value=b"v", timestamp_ms=5),
        records_pb2.Record(value=b""),
        records_pb2.Record(key=b""),
        records_pb2.Record(
            value=b"x", headers=[records_pb2.Header(key="h", value=b"1"), records_pb2.Header(key="h")]
        ),
    ]

    async def scenario(world: World) -> None:
        await world.create_topic()
        await world.produce("before")
        [result] = await world.produce_all(ProducePartition(topic="t", records=sent))
        assert (result.base_offset, result.next_offset, result.log_start_offset) == (1, 5, 0)
        fetched = await world.fetch(1)
        assert [record.offset for record in fetched.records] == [1, 2, 3, 4]
        assert fetched.records[0].timestamp_ms == 5
        assert fetched.records[1].timestamp_ms == world.clock.wall_ms()
        for record in fetched.records:
            record.ClearField("offset")
            record.ClearField("timestamp_ms")
        sent[0].ClearField("timestamp_ms")
        assert list(fetched.records) == sent

    simulate(scenario)


def test_batch_is_stored_as_it_is_but_for_offset_and_epoch() -> None:
    sent = batch("a", "b")

    async def scenario(world: World) -> None:
        await world.create_topic()
        await world.produce("first")
        [result] = await world.produce_all(ProducePartition(topic="t", batch=sent))
        assert (result.base_offset, result.next_offset) == (1, 3)
        fetched = await world.fetch(1, format=broker_pb2.RECORD_FORMAT_BATCHES)
        assert fetched.batches[:8] == (1).to_bytes(8, "big")
        assert fetched.batches[8:12] == sent[8:12]
        assert fetched.batches[16:] == sent[16:]

    simulate(scenario)


@pytest.mark.parametrize(
    ("entry", "code"),
    [
        (ProducePartition(topic="t"), "INVALID_REQUEST"),
        (ProducePartition(topic="t", records=records("a"), batch=batch("a")), "INVALID_REQUEST"),
        (ProducePartition(records=records("a")), "INVALID_REQUEST"),
        (ProducePartition(topic="absent", records=records("a")), "UNKNOWN_TOPIC_OR_PARTITION"),
        (ProducePartition(topic="t", topic_id="x" * 22, records=records("a")), "UNKNOWN_TOPIC_OR_PARTITION"),
        (ProducePartition(topic="t", partition=7, records=records("a")), "UNKNOWN_TOPIC_OR_PARTITION"),
        (ProducePartition(topic="t", partition=-1, records=records("a")), "UNKNOWN_TOPIC_OR_PARTITION"),
        (ProducePartition(topic="t", current_leader_epoch=-1, records=records("a")), "FENCED_LEADER_EPOCH"),
        (ProducePartition(topic="t", current_leader_epoch=9, records=records("a")), "UNKNOWN_LEADER_EPOCH"),
        (ProducePartition(topic="t", records=[records_pb2.Record(offset=0)]), "INVALID_RECORD"),
        (ProducePartition(topic="t", records=records("x" * 2_000)), "MESSAGE_TOO_LARGE"),
        (ProducePartition(topic="t", batch=b"no batch"), "CORRUPT_BATCH"),
        (ProducePartition(topic="t", batch=batch("a")[:-1] + b"!"), "CORRUPT_BATCH"),
        (ProducePartition(topic="t", batch=batch("a") + batch("b")), "CORRUPT_BATCH"),
        (
            ProducePartition(
                topic="t",
                batch=batch("a", is_transactional=True, producer_id=1, producer_epoch=0, base_sequence=0),
            ),
            "UNSUPPORTED_BATCH",
        ),
        (ProducePartition(topic="t", batch=batch("a", is_control=True)), "UNSUPPORTED_BATCH"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_refused_partition_is_not_written_and_does_not_affect_the_others(
    entry: broker_pb2.ProducePartition, code: str
) -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(partitions=2, max_message_bytes="1000")
        good = ProducePartition(topic="t", partition=1, records=records("good"))
        refused, accepted = await world.produce_all(entry, good)
        assert refused.error.code == code
        assert not refused.HasField("base_offset")
        assert not accepted.HasField("error")
        assert await world.values(0) == []
        assert await world.values(1) == ["good"]

    simulate(scenario)


def test_partition_named_twice_fails_the_call_and_nothing_is_written() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic()
        topic_id = world.topic_id()
        by_name = ProducePartition(topic="t", records=records("a"))
        by_id = ProducePartition(topic_id=topic_id, records=records("b"))
        with pytest.raises(InvalidRequest, match="named twice"):
            await world.produce_all(by_name, by_id)
        assert await world.values() == []

    simulate(scenario)


@pytest.mark.parametrize(
    "request_fields", [{"acks": 99}, {"timeout_ms": -1}, {"partitions": [ProducePartition()] * 3}]
)
def test_request_out_of_bounds_fails_as_a_whole(request_fields: dict[str, Any]) -> None:
    async def scenario(world: World) -> None:
        with pytest.raises(InvalidRequest):
            await world.call("Produce", broker_pb2.ProduceRequest(**request_fields))

    simulate(scenario, request_partitions_max=2)


def test_acks_none_is_answered_without_an_offset() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic()
        result = await world.produce("a", acks=broker_pb2.ACKS_NONE)
        assert not result.HasField("error")
        assert not result.HasField("base_offset")
        assert await world.values() == ["a"]

    simulate(scenario)


@pytest.mark.parametrize("acks", [broker_pb2.ACKS_UNSPECIFIED, broker_pb2.ACKS_ALL, broker_pb2.ACKS_LEADER])
def test_fsync_topic_answers_after_the_sync(acks: broker_pb2.Acks) -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(durability="fsync")
        began = world.now
        result = await world.produce("a", acks=acks)
        assert result.base_offset == 0
        assert world.now >= began + world.disk.sync_delay_s
        assert world.partition().log.recovery_point == 1

    simulate(scenario, sync_delay_s=0.5)


def test_fsync_topic_shows_nothing_to_consumers_before_the_sync() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(durability="fsync")
        producing = asyncio.create_task(world.produce("a"))
        await settle()
        before = await world.fetch(0)
        assert before.high_watermark == 0
        assert not before.HasField("error")
        assert not before.records
        await producing
        after = await world.fetch(0)
        assert after.high_watermark == 1
        assert after.records[0].value == b"a"

    simulate(scenario, sync_delay_s=0.5)


def test_fsync_topic_commits_acks_none_in_the_background() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(durability="fsync")
        began = world.now
        await world.produce("a", acks=broker_pb2.ACKS_NONE)
        assert world.now == began
        fetched = await world.fetch(0, max_wait_ms=10_000, min_bytes=1)
        assert fetched.records[0].value == b"a"
        assert world.now < began + 10

    simulate(scenario, sync_delay_s=0.5)


def test_producers_that_wait_at_the_same_time_share_syncs() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(durability="fsync")
        await world.produce("warm up")
        began = world.now
        results = await asyncio.gather(*(world.produce(str(number)) for number in range(100)))
        assert sorted(result.base_offset for result in results) == list(range(1, 101))
        # The first sync began with the first append; the second covers all the others.
        assert world.now <= began + 2 * world.disk.sync_delay_s

    simulate(scenario, sync_delay_s=0.5)


def test_produce_that_is_not_acknowledged_in_time_is_unknown_and_carries_no_offset() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(durability="fsync")
        world.disk.sync_delay_s = 5.0
        began = world.now
        result = await world.produce("a", timeout_ms=100)
        assert world.now == pytest.approx(began + 0.1)
        assert result.error.code == "REQUEST_TIMED_OUT"
        assert result.error.outcome_unknown
        assert not result.HasField("base_offset")
        assert not result.HasField("next_offset")
        assert (await world.produce("b")).base_offset == 1
        assert await world.values() == ["a", "b"]

    simulate(scenario)


def test_produce_timeout_is_bounded_by_the_broker() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(durability="fsync")
        world.disk.sync_delay_s = 60.0
        began = world.now
        result = await world.produce("a", timeout_ms=3_600_000)
        assert result.error.code == "REQUEST_TIMED_OUT"
        assert world.now == pytest.approx(began + 2)

    simulate(scenario, produce_timeout_max_ms=2_000)


def test_client_that_goes_away_does_not_disturb_the_others() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(durability="fsync")
        impatient = asyncio.create_task(world.produce("a"))
        patient = asyncio.create_task(world.produce("b"))
        await settle()
        impatient.cancel()
        assert (await patient).base_offset == 1
        assert await world.values() == ["a", "b"]

    simulate(scenario, sync_delay_s=0.5)


def test_retry_of_an_idempotent_producer_gets_the_original_offset() -> None:
    sent = batch("a", "b", producer_id=7, producer_epoch=0, base_sequence=0)

    async def scenario(world: World) -> None:
        await world.create_topic(durability="fsync")
        [first] = await world.produce_all(ProducePartition(topic="t", batch=sent))
        await world.produce("between")
        [second] = await world.produce_all(ProducePartition(topic="t", batch=sent))
        assert (second.base_offset, second.next_offset) == (first.base_offset, first.next_offset) == (0, 2)
        assert await world.values() == ["a", "b", "between"]

    simulate(scenario)


def test_full_disk_refuses_appends_keeps_serving_and_heals() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic()
        await world.produce("before")
        world.disk.capacity_bytes = world.disk.used_bytes + 10
        refused = await world.produce("refused")
        assert refused.error.code == "DISK_FULL"
        assert refused.error.retriable
        assert await world.values() == ["before"]
        world.disk.capacity_bytes = None
        assert (await world.produce("after")).base_offset == 1
        assert await world.values() == ["before", "after"]

    simulate(scenario)


def test_partition_with_no_room_for_another_producer_says_so_and_goes_on_with_those_it_knows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def sent(producer_id: int, sequence: int) -> ProducePartition:
        content = batch("a", producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
        return ProducePartition(topic="t", batch=content)

    async def scenario(world: World) -> None:
        monkeypatch.setattr(producer_state, "PRODUCERS_MAX", 2)
        await world.create_topic()
        for producer_id in (1, 2):
            [result] = await world.produce_all(sent(producer_id, 0))
            assert not result.HasField("error")
        [refused] = await world.produce_all(sent(3, 0))
        assert refused.error.code == "OVERLOADED"
        assert refused.error.retriable
        assert not refused.error.outcome_unknown
        [known] = await world.produce_all(sent(1, 1))
        assert known.base_offset == 2

    simulate(scenario)
