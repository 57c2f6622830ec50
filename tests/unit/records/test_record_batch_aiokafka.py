"""Against an implementation that nobody here wrote: aiokafka's, in both directions."""

from __future__ import annotations

import random
from types import ModuleType

import pytest
from aiokafka.record.control_record import (  # type: ignore[import-untyped]
    COMMIT_MARKER,
    ControlRecord,
)
from aiokafka.record.default_records import (  # type: ignore[import-untyped]
    DefaultRecordBatch,
    DefaultRecordBatchBuilder,
)

from quorate.core.records import Compression, Headers, Record, TimestampType
from tests.unit.records.batches import TIMESTAMP as T


def some_records(seed: int, count: int) -> list[Record]:
    """Nulls, empty fields, repeated text, header keys beyond ASCII, timestamps in any order."""
    chance = random.Random(seed)
    fields = (None, b"", b"quorate", b"x" * 300, b"\x00\xff" * 40)
    headers: tuple[Headers, ...] = (
        (),
        (("k", b"v"),),
        (("", None), ("k", b""), ("k", b"2")),
        (("ключ\U0001f5dd", b"\xff"),),
    )
    return [
        Record(
            offset,
            T + chance.randrange(-(10**9), 10**9),
            chance.choice(fields),
            chance.choice(fields),
            chance.choice(headers),
        )
        for offset in range(count)
    ]


def written_by_aiokafka(
    records: list[Record], compression: Compression, *, is_transactional: bool = False
) -> bytes:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=compression,
        is_transactional=is_transactional,
        producer_id=123456789012,
        producer_epoch=7,
        base_sequence=99,
        batch_size=2**30,
    )
    for record in records:
        builder.append(record.offset, record.timestamp, record.key, record.value, list(record.headers))
    return bytes(builder.build())


def read_by_aiokafka(batch: bytes) -> list[Record]:
    reader = DefaultRecordBatch(batch)
    assert reader.validate_crc()
    return [
        Record(record.offset, record.timestamp, record.key, record.value, tuple(record.headers))
        for record in reader
    ]


@pytest.mark.parametrize("count", [1, 2, 70, 3000])
@pytest.mark.parametrize("compression", Compression)
def test_aiokafka_reads_what_the_codec_writes(
    codec: ModuleType, compression: Compression, count: int
) -> None:
    records = some_records(count, count)
    batch = codec.encode_batch(records, compression=compression)
    assert read_by_aiokafka(batch) == records


@pytest.mark.parametrize("count", [1, 2, 70, 3000])
@pytest.mark.parametrize("compression", Compression)
def test_the_codec_reads_what_aiokafka_writes(
    codec: ModuleType, compression: Compression, count: int
) -> None:
    records = some_records(count, count)
    assert codec.decode_batch(written_by_aiokafka(records, compression)) == records


@pytest.mark.parametrize("is_transactional", [False, True])
def test_uncompressed_both_write_the_same_bytes(codec: ModuleType, is_transactional: bool) -> None:
    records = some_records(3, 500)
    expected = written_by_aiokafka(records, Compression.NONE, is_transactional=is_transactional)
    assert expected == codec.encode_batch(
        records,
        producer_id=123456789012,
        producer_epoch=7,
        base_sequence=99,
        is_transactional=is_transactional,
    )


def test_both_read_the_same_header(codec: ModuleType) -> None:
    batch = codec.encode_batch(
        some_records(1, 20),
        base_offset=2**33,
        leader_epoch=12,
        producer_id=5,
        producer_epoch=6,
        base_sequence=7,
        is_transactional=True,
        compression=Compression.ZSTD,
    )
    ours, theirs = codec.parse_header(batch), DefaultRecordBatch(batch)
    assert ours.base_offset == theirs.base_offset
    assert ours.magic == theirs.magic
    assert ours.crc == theirs.crc
    assert ours.attributes == theirs.attributes
    assert ours.compression == theirs.compression_type
    assert ours.timestamp_type == theirs.timestamp_type
    assert ours.is_transactional == theirs.is_transactional
    assert ours.is_control == theirs.is_control_batch
    assert ours.last_offset_delta == theirs.last_offset_delta
    assert ours.base_timestamp == theirs.first_timestamp
    assert ours.max_timestamp == theirs.max_timestamp
    assert ours.producer_id == theirs.producer_id
    assert ours.producer_epoch == theirs.producer_epoch
    assert ours.base_sequence == theirs.base_sequence
    assert ours.next_offset == theirs.next_offset


def test_aiokafka_reads_a_commit_marker(codec: ModuleType) -> None:
    marker = Record(0, T, bytes.fromhex("00000001"), bytes.fromhex("000000000000"))
    batch = codec.encode_batch([marker], producer_id=5, is_transactional=True, is_control=True)
    reader = DefaultRecordBatch(batch)
    assert reader.is_control_batch
    assert reader.is_transactional
    assert ControlRecord.parse(next(iter(reader)).key) == COMMIT_MARKER


def test_aiokafka_reads_log_append_time(codec: ModuleType) -> None:
    batch = codec.encode_batch(
        some_records(8, 20), timestamp_type=TimestampType.LOG_APPEND_TIME, append_timestamp_ms=T + 1
    )
    assert {record.timestamp for record in read_by_aiokafka(batch)} == {T + 1}
    assert read_by_aiokafka(batch) == codec.decode_batch(batch)
