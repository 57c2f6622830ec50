"""Taking batches apart: whatever is wrong in one is named, and nothing wrong comes out."""

from __future__ import annotations

import gc
from types import ModuleType
from typing import Any

import pytest

from quorate.core.records import Compression, Headers, Record
from quorate.core.records.compression import compress
from quorate.errors import CorruptBatch, UnsupportedBatch
from tests.unit.records.batches import TIMESTAMP as T
from tests.unit.records.batches import raw_batch, raw_record, raw_varint

GOOD = raw_batch(raw_record())
INT64_MAX = 2**63 - 1


def test_a_batch_is_read_at_its_position_and_what_follows_is_not(codec: ModuleType) -> None:
    assert codec.decode_batch(b"junk" + GOOD + b"junk", 4) == [Record(0, T, None, b"v")]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
@pytest.mark.parametrize("compression", Compression)
def test_any_buffer_is_decoded(codec: ModuleType, kind: Any, compression: Compression) -> None:
    batch = codec.encode_values([b"value" * 100] * 3, timestamp_ms=T, compression=compression)
    assert [record.value for record in codec.decode_batch(kind(batch))] == [b"value" * 100] * 3


def test_records_outlive_the_buffer_they_were_read_from(codec: ModuleType) -> None:
    buffer = bytearray(raw_batch(raw_record(key=b"\x02k", headers=b"\x02\x02h\x02x")))
    (record,) = codec.decode_batch(buffer)
    buffer[:] = bytes(len(buffer))
    del buffer
    assert record == Record(0, T, b"k", b"v", (("h", b"x"),))
    assert isinstance(record, Record)


def test_records_survive_garbage_collection_and_go_when_they_should(codec: ModuleType) -> None:
    batch = codec.encode_values([b"v"] * 100, timestamp_ms=T, headers=[(("h", b"x"),)] * 100)
    records = codec.decode_batch(batch)
    gc.collect()
    assert records == codec.decode_batch(batch)
    kept = records[50]
    del records
    gc.collect()
    assert kept == Record(50, T, None, b"v", (("h", b"x"),))


def test_header_keys_are_those_of_the_record_whatever_its_neighbours_have(codec: ModuleType) -> None:
    keys = ["same", "same", "sam", "same1", "", "s\u00e9me", "s\u00e9me", "same"]
    headers: list[Headers] = [((key, b"1"), ("fixed", None)) for key in keys]
    headers[3:3] = [(), (("same", b"1"), ("fixed", None), ("third", b""))]
    batch = codec.encode_values([None] * len(headers), timestamp_ms=T, headers=headers)
    assert [record.headers for record in codec.decode_batch(batch)] == headers


def test_a_crc_that_does_not_match_is_refused(codec: ModuleType) -> None:
    with pytest.raises(CorruptBatch, match="CRC"):
        codec.decode_batch(GOOD[:-1] + b"\x01")


def test_an_unknown_compression_is_refused(codec: ModuleType) -> None:
    with pytest.raises(UnsupportedBatch, match="compression 6"):
        codec.decode_batch(raw_batch(raw_record(), attributes=6))


def varint_of(size: int, last: int = 0x01) -> bytes:
    """A varint of `size` bytes; the bits of all but the last are zero."""
    return b"\x80" * (size - 1) + bytes([last])


LENGTH = "its length is negative, or reaches beyond the batch"
TRUNCATED = "it ends within a field"
VARINT = "a varint is too long"
OFFSET = "its offset delta"
TIMESTAMP = "its timestamp does not fit"
FIELD_LENGTH = "a negative length other than -1"
HEADER_COUNT = "its header count"
HEADER_KEY = "a header key is null, or not UTF-8"
TRAILING = "bytes follow its last field"

BAD_RECORDS = [
    ("length is negative", raw_record(length=b"\x01"), LENGTH),
    ("length is one too many", raw_record(length=raw_varint(8)), LENGTH),
    ("length is huge", raw_record(length=raw_varint(2**31 - 1)), LENGTH),
    ("length is the most negative", raw_record(length=raw_varint(-(2**31))), LENGTH),
    ("length never ends", b"\xff" * 20, VARINT),
    ("length has a sixth byte", raw_record(length=varint_of(6)), VARINT),
    ("length has 33 bits", raw_record(length=varint_of(5, 0x10)), VARINT),
    ("length ends with the batch", b"\x80" * 7, VARINT),
    ("length is zero", raw_record(length=b"\x00"), TRUNCATED),
    ("only attributes", raw_record(length=b"\x02"), TRUNCATED),
    ("ends after the timestamp", raw_record(length=b"\x04"), TRUNCATED),
    ("ends after the offset", raw_record(length=b"\x06"), TRUNCATED),
    ("ends after the key", raw_record(length=b"\x08"), TRUNCATED),
    ("ends within the value", raw_record(length=b"\x0a"), TRUNCATED),
    ("ends after the value", raw_record(length=b"\x0c"), TRUNCATED),
    ("timestamp never ends", raw_record(timestamp_delta=b"\xff" * 20), VARINT),
    ("timestamp has 65 bits", raw_record(timestamp_delta=varint_of(10, 0x02)), VARINT),
    ("timestamp has an eleventh byte", raw_record(timestamp_delta=varint_of(11)), VARINT),
    ("timestamp is beyond 64 bits", raw_record(timestamp_delta=raw_varint(INT64_MAX)), TIMESTAMP),
    ("offset is negative", raw_record(offset_delta=b"\x01"), OFFSET),
    ("offset is beyond the last", raw_record(offset_delta=b"\x02"), OFFSET),
    ("offset has 33 bits", raw_record(offset_delta=varint_of(5, 0x10)), VARINT),
    ("key length is -2", raw_record(key=b"\x03"), FIELD_LENGTH),
    ("key is longer than the record", raw_record(key=b"\x0ak"), TRUNCATED),
    ("key is as long as can be", raw_record(key=raw_varint(2**31 - 1)), TRUNCATED),
    ("value length is the most negative", raw_record(value=raw_varint(-(2**31))), FIELD_LENGTH),
    ("value takes the header count", raw_record(value=b"\x04v"), TRUNCATED),
    ("header count is negative", raw_record(headers=b"\x01"), HEADER_COUNT),
    ("header count is huge", raw_record(headers=raw_varint(2**31 - 1)), HEADER_COUNT),
    ("header count is one too many", raw_record(headers=b"\x04\x00\x00"), HEADER_COUNT),
    ("header key is null", raw_record(headers=b"\x02\x01\x00"), HEADER_KEY),
    ("header key is not UTF-8", raw_record(headers=b"\x02\x02\xff\x00"), HEADER_KEY),
    ("header key is a surrogate", raw_record(headers=b"\x02\x06\xed\xa0\x80\x00"), HEADER_KEY),
    ("header key length is -2", raw_record(headers=b"\x02\x03\x00"), FIELD_LENGTH),
    ("header value length is -2", raw_record(headers=b"\x02\x00\x03"), FIELD_LENGTH),
    ("header value is longer than the record", raw_record(headers=b"\x02\x00\x08v"), TRUNCATED),
    ("bytes after the fields", raw_record(trailing=b"\x00"), TRAILING),
    ("bytes after the headers", raw_record(headers=b"\x02\x00\x01", trailing=b"\x00"), TRAILING),
]


@pytest.mark.parametrize(("body", "reason"), [pytest.param(*case[1:], id=case[0]) for case in BAD_RECORDS])
@pytest.mark.parametrize("compression", [Compression.NONE, Compression.ZSTD])
def test_a_record_that_is_wrong_is_refused_with_the_reason(
    codec: ModuleType, body: bytes, reason: str, compression: Compression
) -> None:
    batch = raw_batch(compress(compression, body), attributes=compression, base_offset=42)
    for decode in (codec.decode_batch, codec.decode_columns):
        with pytest.raises(CorruptBatch, match=reason) as caught:
            decode(batch)
        assert caught.value.facts == {"base_offset": 42, "record": 0}


def test_the_error_names_the_record(codec: ModuleType) -> None:
    body = raw_record() + raw_record(offset_delta=b"\x02") + raw_record(offset_delta=b"\x04", trailing=b"x")
    with pytest.raises(CorruptBatch, match="record 2 of the batch at offset 7: bytes follow") as caught:
        codec.decode_batch(raw_batch(body, base_offset=7, record_count=3))
    assert caught.value.facts == {"base_offset": 7, "record": 2}


@pytest.mark.parametrize("second", [b"\x00", b"\x01"])
def test_offsets_have_to_increase(codec: ModuleType, second: bytes) -> None:
    body = raw_record() + raw_record(offset_delta=second)
    with pytest.raises(CorruptBatch, match=r"record 1 .* its offset delta"):
        codec.decode_batch(raw_batch(body, record_count=2))


def test_overlong_varints_are_read_as_kafka_reads_them(codec: ModuleType) -> None:
    body = raw_record(timestamp_delta=b"\x86\x80\x00", key=b"\x82\x80\x80\x80\x00k")
    assert codec.decode_batch(raw_batch(body)) == [Record(0, T + 3, b"k", b"v")]


def test_the_attributes_of_a_record_are_ignored(codec: ModuleType) -> None:
    body = bytearray(raw_record())
    body[1] = 0xFF
    assert codec.decode_batch(raw_batch(bytes(body))) == [Record(0, T, None, b"v")]


@pytest.mark.parametrize("compression", Compression)
def test_bytes_after_the_last_record_are_refused(codec: ModuleType, compression: Compression) -> None:
    body = compress(compression, raw_record() + bytes(3))
    for decode in (codec.decode_batch, codec.decode_columns):
        with pytest.raises(CorruptBatch, match="3 bytes follow the last record"):
            decode(raw_batch(body, attributes=compression))


@pytest.mark.parametrize("compression", set(Compression) - {Compression.NONE})
def test_a_count_beyond_the_decompressed_bytes_is_refused(
    codec: ModuleType, compression: Compression
) -> None:
    batch = raw_batch(compress(compression, raw_record()), attributes=compression, record_count=2**31 - 1)
    with pytest.raises(CorruptBatch, match="claims 2147483647 records in 8 bytes"):
        codec.decode_batch(batch)


def test_a_batch_without_records_may_have_a_compressed_nothing_or_no_body(codec: ModuleType) -> None:
    for compression in Compression:
        empty = raw_batch(
            compress(compression, b""), attributes=compression, record_count=0, last_offset_delta=4
        )
        assert codec.decode_batch(empty) == []
        bare = raw_batch(b"", attributes=compression, record_count=0, last_offset_delta=4)
        assert codec.decode_batch(bare) == []
        assert codec.decode_columns(bare).record_count == 0


def test_a_timestamp_delta_that_cannot_be_added_is_refused_under_log_append_time_too(
    codec: ModuleType,
) -> None:
    body = raw_record(timestamp_delta=raw_varint(INT64_MAX))
    with pytest.raises(CorruptBatch, match=TIMESTAMP):
        codec.decode_batch(raw_batch(body, attributes=0x08))
