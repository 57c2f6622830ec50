"""A compacted topic takes no record without a key, since nothing could ever replace it."""

from __future__ import annotations

import pytest
from crc32c import crc32c

from quorate.core.records import Compression, encode_values
from quorate.v1 import broker_pb2
from tests.unit.broker.broker_harness import World, records, simulate

ProducePartition = broker_pb2.ProducePartition


@pytest.mark.parametrize("policy", ["compact", "compact,delete", "delete,compact"])
@pytest.mark.parametrize("compression", Compression)
def test_batch_with_a_record_without_a_key_is_refused(policy: str, compression: Compression) -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(cleanup_policy=policy)
        now_ms = world.clock.wall_ms()
        values = [b"x" * 100] * 20
        keys: list[bytes | None] = [b"key"] * 20
        for missing in (None, 7):
            if missing is not None:
                keys[missing] = None
            batch = encode_values(values, keys=keys, timestamp_ms=now_ms, compression=compression)
            [result] = await world.produce_all(ProducePartition(topic="t", batch=batch))
            assert result.HasField("error") == (missing is not None)
        assert result.error.code == "INVALID_RECORD"
        assert "cleanup.policy" in result.error.message
        assert world.partition().log.log_end_offset == 20

    simulate(scenario)


def test_structured_record_without_a_key_is_refused_and_a_tombstone_is_not() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(cleanup_policy="compact")
        [record] = records("a")
        record.ClearField("key")
        [result] = await world.produce_all(ProducePartition(topic="t", records=[record]))
        assert result.error.code == "INVALID_RECORD"
        record.key = b""
        record.ClearField("value")
        [result] = await world.produce_all(ProducePartition(topic="t", records=[record]))
        assert not result.HasField("error")

    simulate(scenario)


def test_batch_that_cannot_be_taken_apart_is_refused() -> None:
    """Compaction could never clean it."""

    async def scenario(world: World) -> None:
        await world.create_topic("plain")
        await world.create_topic(cleanup_policy="compact")
        batch = encode_values([b"x" * 100], keys=[b"k"], timestamp_ms=world.clock.wall_ms())
        nonsense = batch[:61] + b"\xff" * (len(batch) - 61)
        nonsense = nonsense[:17] + crc32c(nonsense[21:]).to_bytes(4, "big") + nonsense[21:]
        [result] = await world.produce_all(ProducePartition(topic="plain", batch=nonsense))
        assert not result.HasField("error")
        [result] = await world.produce_all(ProducePartition(topic="t", batch=nonsense))
        assert result.error.code == "CORRUPT_BATCH"

    simulate(scenario)


def test_other_topics_take_records_without_a_key() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic()
        [record] = records("a")
        record.ClearField("key")
        [result] = await world.produce_all(ProducePartition(topic="t", records=[record]))
        assert not result.HasField("error")

    simulate(scenario)
