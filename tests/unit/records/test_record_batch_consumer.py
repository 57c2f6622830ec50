"""Records as a consumer gets them: the same as everyone's, and where they are from."""

from __future__ import annotations

import gc
from types import ModuleType

import pytest

from quorate.core.records import Compression, ConsumerRecord
from quorate.errors import CorruptBatch
from tests.unit.records.batches import TIMESTAMP as T
from tests.unit.records.batches import raw_batch, raw_record

HEADERS = (("h", b"x"),)


def batch_of(codec: ModuleType, count: int, *, compression: Compression = Compression.NONE) -> bytes:
    batch = codec.encode_values(
        [b"v%d" % index for index in range(count)],
        timestamps=range(T, T + count),
        keys=[b"k" if index % 2 else None for index in range(count)],
        headers=[HEADERS if index % 3 else () for index in range(count)],
        base_offset=100,
        leader_epoch=7,
        compression=compression,
    )
    assert isinstance(batch, bytes)
    return batch


@pytest.mark.parametrize("compression", Compression)
def test_a_record_says_where_it_is_from(codec: ModuleType, compression: Compression) -> None:
    batch = batch_of(codec, 3, compression=compression)
    assert codec.decode_consumer_records(b"junk" + batch + b"junk", 4, topic="orders", partition=2) == [
        ConsumerRecord("orders", 2, 100, T, None, b"v0", (), 7),
        ConsumerRecord("orders", 2, 101, T + 1, b"k", b"v1", HEADERS, 7),
        ConsumerRecord("orders", 2, 102, T + 2, None, b"v2", HEADERS, 7),
    ]


@pytest.mark.parametrize("from_offset", [0, 100, 101, 102, 103, 2**62])
def test_records_before_the_offset_are_left_out(codec: ModuleType, from_offset: int) -> None:
    batch = batch_of(codec, 3)
    records = codec.decode_consumer_records(batch, topic="t", partition=0, from_offset=from_offset)
    assert [record.offset for record in records] == [each for each in (100, 101, 102) if each >= from_offset]


def test_the_fields_are_those_of_decode_batch(codec: ModuleType) -> None:
    batch = batch_of(codec, 50)
    plain = codec.decode_batch(batch)
    records = codec.decode_consumer_records(batch, topic="t", partition=0)
    assert [(each.offset, each.timestamp, each.key, each.value, each.headers) for each in records] == plain
    assert all(type(each) is ConsumerRecord for each in records)


def test_damage_is_found_even_in_records_that_are_left_out(codec: ModuleType) -> None:
    batch = raw_batch(raw_record(offset_delta=b"\x02"))
    with pytest.raises(CorruptBatch, match="its offset delta"):
        codec.decode_consumer_records(batch, topic="t", partition=0, from_offset=1000)


def test_records_survive_garbage_collection(codec: ModuleType) -> None:
    records = codec.decode_consumer_records(batch_of(codec, 100), topic="t", partition=0)
    kept = records[50]
    del records
    gc.collect()
    assert kept == ConsumerRecord("t", 0, 150, T + 50, None, b"v50", HEADERS, 7)


@pytest.mark.parametrize("topic", [None, b"t", 1])
def test_a_topic_is_a_string(topic: object) -> None:
    compiled = pytest.importorskip("quorate.core.records._compiled")
    with pytest.raises(TypeError):
        compiled.decode_consumer_records(batch_of(compiled, 1), topic=topic, partition=0)
