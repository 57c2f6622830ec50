"""What Fetch and ListOffsets promise."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from quorate.core.records import Compression, decode_batch, parse_header
from quorate.errors import InvalidRequest
from quorate.rpc.error_detail import error_from_detail
from quorate.v1 import broker_pb2
from tests.unit.broker.broker_harness import World, batch, records, settle, simulate

FetchPartition = broker_pb2.FetchPartition
BATCHES = broker_pb2.RECORD_FORMAT_BATCHES


def test_fetch_wakes_when_a_record_arrives() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(partitions=2)
        began = world.now
        fetching = asyncio.create_task(world.fetch(0, partition=1, max_wait_ms=10_000))
        await asyncio.sleep(3)
        await world.produce("elsewhere", partition=0)
        await settle()
        assert not fetching.done()
        await world.produce("a", partition=1)
        assert (await fetching).records[0].value == b"a"
        assert world.now == began + 3

    simulate(scenario)


def test_fetch_of_many_partitions_wakes_for_any_of_them() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(partitions=3)
        entries = [FetchPartition(topic="t", partition=number) for number in range(3)]
        fetching = asyncio.create_task(world.fetch_all(*entries, max_wait_ms=10_000))
        await settle()
        await world.produce("a", partition=2)
        results = await fetching
        assert [bool(result.batches) for result in results] == [False, False, True]

    simulate(scenario)


def test_fetch_waits_for_min_bytes_over_all_partitions() -> None:
    one = len(batch("x"))

    async def scenario(world: World) -> None:
        await world.create_topic(partitions=2)
        entries = [FetchPartition(topic="t", partition=number) for number in range(2)]
        fetching = asyncio.create_task(world.fetch_all(*entries, max_wait_ms=10_000, min_bytes=3 * one))
        for partition in (0, 1):
            await world.produce("x", partition=partition)
            await settle()
            assert not fetching.done()
        await world.produce("x", partition=0)
        results = await fetching
        assert sum(len(result.batches) for result in results) == 3 * one

    simulate(scenario)


def test_fetch_that_finds_too_little_is_answered_with_it_when_its_time_is_over() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic()
        await world.produce("a")
        began = world.now
        result = await world.fetch(0, max_wait_ms=1_500, min_bytes=1_000)
        assert world.now == began + 1.5
        assert [record.value for record in result.records] == [b"a"]
        assert result.next_fetch_offset == 1

    simulate(scenario)


def test_fetch_does_not_wait_for_more_than_its_answer_may_hold() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic()
        await world.produce("x" * 500)
        began = world.now
        result = await world.fetch(0, format=BATCHES, max_wait_ms=10_000, min_bytes=1 << 20, max_bytes=400)
        assert result.batches
        assert world.now == began

    simulate(scenario)


def test_structured_fetch_wakes_by_what_a_batch_unpacks_to() -> None:
    squeezed = batch("x" * 10_000, compression=Compression.ZSTD)
    assert len(squeezed) < 1_000

    async def scenario(world: World) -> None:
        await world.create_topic()
        began = world.now
        fetching = asyncio.create_task(world.fetch(0, max_wait_ms=10_000, min_bytes=5_000))
        await settle()
        await world.produce_all(broker_pb2.ProducePartition(topic="t", batch=squeezed))
        assert len((await fetching).records[0].value) == 10_000
        assert world.now == began

    simulate(scenario)


def test_fetch_without_a_wait_is_answered_at_once() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic()
        began = world.now
        result = await world.fetch(0)
        assert world.now == began
        assert not result.HasField("error")
        assert (result.high_watermark, result.log_start_offset, result.next_fetch_offset) == (0, 0, 0)

    simulate(scenario)


def test_fetch_wait_is_bounded_by_the_broker() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic()
        began = world.now
        await world.fetch(0, max_wait_ms=3_600_000)
        assert world.now == began + 2

    simulate(scenario, fetch_wait_max_ms=2_000)


@pytest.mark.parametrize("epoch", [-1, 1])
def test_wrong_leader_epoch_is_told_with_both_epochs(epoch: int) -> None:
    async def scenario(world: World) -> None:
        await world.create_topic()
        [result] = await world.fetch_all(FetchPartition(topic="t", current_leader_epoch=epoch))
        facts = error_from_detail(result.error).facts
        assert facts == {"request_leader_epoch": epoch, "current_leader_epoch": 0}

    simulate(scenario)


@pytest.mark.parametrize(
    ("entry", "code"),
    [
        (FetchPartition(topic="absent"), "UNKNOWN_TOPIC_OR_PARTITION"),
        (FetchPartition(topic="t", partition=5), "UNKNOWN_TOPIC_OR_PARTITION"),
        (FetchPartition(topic="t", current_leader_epoch=-1), "FENCED_LEADER_EPOCH"),
        (FetchPartition(topic="t", current_leader_epoch=1), "UNKNOWN_LEADER_EPOCH"),
        (FetchPartition(topic="t", fetch_offset=2), "OFFSET_OUT_OF_RANGE"),
    ],
)
def test_error_in_one_partition_answers_at_once_and_the_others_are_read(
    entry: broker_pb2.FetchPartition, code: str
) -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(partitions=2)
        await world.produce("a", partition=0)
        await world.produce("b", partition=1)
        began = world.now
        good = FetchPartition(topic="t", partition=1)
        failed, read = await world.fetch_all(entry, good, max_wait_ms=10_000, min_bytes=1_000)
        assert world.now == began
        assert failed.error.code == code
        assert read.batches

    simulate(scenario)


def test_offset_out_of_range_says_what_the_log_holds() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic()
        await world.produce("a", "b")
        result = await world.fetch(3)
        error = error_from_detail(result.error)
        assert (error.facts["log_start_offset"], error.facts["log_end_offset"]) == (0, 2)
        assert (result.log_start_offset, result.high_watermark) == (0, 2)

    simulate(scenario)


def test_first_batch_is_sent_however_large_and_a_second_partition_then_waits_its_turn() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(partitions=2)
        await world.produce("x" * 1_000, partition=0)
        await world.produce("y" * 1_000, partition=1)
        entries = [FetchPartition(topic="t", partition=number) for number in range(2)]
        entries[1].fetch_offset = 1
        await world.produce("z" * 1_000, partition=1)
        first, second = await world.fetch_all(*entries, max_bytes=100)
        assert len(first.batches) > 1_000
        assert (second.batches, second.next_fetch_offset) == (b"", 1)
        first, second = await world.fetch_all(*entries, max_bytes=1_200)
        assert first.batches
        assert (second.batches, second.next_fetch_offset) == (b"", 1)
        first, second = await world.fetch_all(*entries, max_bytes=3_000)
        assert first.batches
        assert second.batches

    simulate(scenario)


def test_structured_answer_is_bounded_after_decompression() -> None:
    squeezed = batch(*(["x" * 1_000] * 100), compression=Compression.ZSTD)
    assert len(squeezed) < 1_000

    async def scenario(world: World) -> None:
        await world.create_topic(partitions=10)
        for partition in range(10):
            await world.produce_all(
                broker_pb2.ProducePartition(topic="t", partition=partition, batch=squeezed)
            )
        entries = [FetchPartition(topic="t", partition=number) for number in range(10)]
        results = await world.fetch_all(*entries, max_bytes=50_000, format=broker_pb2.RECORD_FORMAT_RECORDS)
        assert 0 < sum(result.ByteSize() for result in results) < 55_000
        seen = [0] * 10
        while min(seen) < 100:
            for number, entry in enumerate(entries):
                entry.fetch_offset = seen[number]
            # Whoever got something goes to the back, or the first would starve the others.
            entries_in_turn = sorted(entries, key=lambda entry: entry.fetch_offset)
            for result in await world.fetch_all(
                *entries_in_turn, max_bytes=50_000, format=broker_pb2.RECORD_FORMAT_RECORDS
            ):
                offsets = [record.offset for record in result.records]
                assert offsets == list(range(seen[result.partition], result.next_fetch_offset))
                seen[result.partition] = result.next_fetch_offset

    simulate(scenario)


def test_answer_is_bounded_by_the_broker() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic()
        for _ in range(20):
            await world.produce("x" * 200)
        result = await world.fetch(0, format=BATCHES, max_bytes=1 << 30)
        assert 0 < len(result.batches) <= 1_024

    simulate(scenario, fetch_max_bytes=1_024)


def test_batches_are_whole_and_the_first_may_begin_before_the_offset() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic()
        await world.produce("a", "b", "c")
        result = await world.fetch(1, format=BATCHES)
        assert parse_header(result.batches).base_offset == 0
        assert len(decode_batch(result.batches)) == 3
        assert result.next_fetch_offset == 3

    simulate(scenario)


@pytest.mark.parametrize("max_bytes", [1, 40, 100, 10_000])
def test_structured_records_are_cut_to_size_and_go_on_where_they_ended(max_bytes: int) -> None:
    async def scenario(world: World) -> None:
        await world.create_topic()
        await world.produce(*(f"value {number}" for number in range(10)))
        await world.produce("last")
        seen: list[str] = []
        offset = 0
        while offset < 11:
            result = await world.fetch(offset, max_bytes=max_bytes)
            assert result.records[0].offset == offset
            seen += [record.value.decode() for record in result.records]
            offset = result.next_fetch_offset
        assert seen == [*(f"value {number}" for number in range(10)), "last"]

    simulate(scenario)


def test_batch_that_holds_no_records_but_lies_is_reported_with_its_offset() -> None:
    # The checksum is right: only who decodes it can tell.
    from crc32c import crc32c

    lying = bytearray(batch("a", "b"))
    lying[-1] ^= 0xFF
    lying[62] = 0x7F
    lying[17:21] = crc32c(bytes(lying[21:])).to_bytes(4, "big")

    async def scenario(world: World) -> None:
        await world.create_topic()
        await world.produce("good")
        await world.produce_all(broker_pb2.ProducePartition(topic="t", batch=bytes(lying)))
        result = await world.fetch(1)
        assert result.error.code == "CORRUPT_BATCH"
        assert error_from_detail(result.error).facts["base_offset"] == 1

    simulate(scenario)


def test_stop_answers_fetches_that_wait() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic()
        began = world.now
        fetching = asyncio.create_task(world.fetch(0, max_wait_ms=60_000))
        await settle()
        world.service.release_waiting()
        assert not (await fetching).HasField("error")
        await world.fetch(0, max_wait_ms=60_000)
        assert world.now == began

    simulate(scenario)


def test_client_that_goes_away_leaves_no_watch_behind() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic()
        fetching = asyncio.create_task(world.fetch(0, max_wait_ms=60_000))
        await settle()
        fetching.cancel()
        await settle()
        await world.produce("a")
        assert (await world.fetch(0)).records[0].value == b"a"

    simulate(scenario)


@pytest.mark.parametrize(
    "request_fields",
    [
        {"max_wait_ms": -1},
        {"min_bytes": -1},
        {"max_bytes": 0},
        {"format": 77},
        {"partitions": [FetchPartition(topic="t", fetch_offset=-1)]},
        {"partitions": [FetchPartition(topic="t", partition_max_bytes=0)]},
        {"partitions": [FetchPartition(topic="t")] * 3},
    ],
)
def test_fetch_out_of_bounds_fails_as_a_whole(request_fields: dict[str, Any]) -> None:
    async def scenario(world: World) -> None:
        with pytest.raises(InvalidRequest):
            await world.call("Fetch", broker_pb2.FetchRequest(**request_fields))

    simulate(scenario, request_partitions_max=2)


async def list_offset(world: World, **fields: Any) -> broker_pb2.ListOffsetsPartitionResult:
    entry = broker_pb2.ListOffsetsPartition(topic="t", **fields)
    response = await world.call("ListOffsets", broker_pb2.ListOffsetsRequest(partitions=[entry]))
    result: broker_pb2.ListOffsetsPartitionResult = response.partitions[0]
    return result


def test_offsets_are_found_by_end_and_by_time() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic()
        for timestamp_ms in (100, 200, 300):
            [record] = records(str(timestamp_ms))
            record.timestamp_ms = timestamp_ms
            await world.produce_all(broker_pb2.ProducePartition(topic="t", records=[record]))
        earliest, latest = broker_pb2.OFFSET_SPEC_EARLIEST, broker_pb2.OFFSET_SPEC_LATEST
        assert (await list_offset(world, spec=earliest)).offset == 0
        assert (await list_offset(world, spec=latest)).offset == 3
        assert (await list_offset(world)).offset == 3
        at_time = broker_pb2.OFFSET_SPEC_AT_TIMESTAMP
        found = await list_offset(world, spec=at_time, timestamp_ms=150)
        assert (found.offset, found.timestamp_ms) == (1, 200)
        assert not found.HasField("end_offset")
        late = await list_offset(world, spec=at_time, timestamp_ms=301)
        assert not late.HasField("offset")
        assert late.end_offset == 3

    simulate(scenario)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"spec": 50}, "INVALID_REQUEST"),
        ({"partition": 3}, "UNKNOWN_TOPIC_OR_PARTITION"),
        ({"current_leader_epoch": 8}, "UNKNOWN_LEADER_EPOCH"),
    ],
)
def test_offsets_that_cannot_be_found_are_refused(fields: dict[str, Any], code: str) -> None:
    async def scenario(world: World) -> None:
        await world.create_topic()
        assert (await list_offset(world, **fields)).error.code == code

    simulate(scenario)


def test_time_beyond_the_high_watermark_is_not_found() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(durability="fsync")
        producing = asyncio.create_task(world.produce("a"))
        await settle()
        at_time = broker_pb2.OFFSET_SPEC_AT_TIMESTAMP
        late = await list_offset(world, spec=at_time, timestamp_ms=0)
        assert not late.HasField("offset")
        assert late.HasField("end_offset")
        assert late.end_offset == 0
        await producing
        assert (await list_offset(world, spec=at_time, timestamp_ms=0)).offset == 0

    simulate(scenario, sync_delay_s=0.5)
