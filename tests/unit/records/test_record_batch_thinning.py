"""Batches that lose records stay where they are, and say of themselves what they said."""

from __future__ import annotations

from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.core.records import (
    FILLED_OFFSETS_MAX,
    HEADER_BYTES,
    Compression,
    Record,
    TimestampType,
    check_batch,
    decode_batch,
    decode_keys,
    emptied,
    encode_batch,
    filler,
    has_null_key,
    is_filler,
    keys,
    scan_batches,
    thinned,
)
from quorate.errors import BatchTooLarge, CorruptBatch
from tests.unit.records.batches import TIMESTAMP as T
from tests.unit.records.batches import raw_batch, raw_record


@pytest.fixture(autouse=True)
def columns_by(codec: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "decode_columns", codec.decode_columns)


def records(count: int = 20) -> list[Record]:
    return [
        Record(
            100 + n, T + n, b"key %d" % (n % 3), None if n % 4 == 0 else b"value %d" % n * n, (("h", b"x"),)
        )
        for n in range(count)
    ]


def batch_of(rows: list[Record], compression: Compression = Compression.NONE) -> bytes:
    return encode_batch(
        rows,
        base_offset=100,
        leader_epoch=7,
        compression=compression,
        producer_id=5,
        producer_epoch=2,
        base_sequence=9,
    )


# -- keys


@pytest.mark.parametrize("compression", Compression)
def test_keys_are_those_of_the_records(compression: Compression) -> None:
    rows = [*records(), Record(120, T, None, None), Record(121, T, b"", b"")]
    found = decode_keys(batch_of(rows, compression))
    assert found == [(row.offset, row.key, row.value is None) for row in rows]


@pytest.mark.parametrize("compression", Compression)
@pytest.mark.parametrize("row", [None, 0, 7, 8, 19])
def test_one_record_without_a_key_is_found(compression: Compression, row: int | None) -> None:
    rows = records()
    if row is not None:
        rows[row] = rows[row]._replace(key=None)
    assert has_null_key(batch_of(rows, compression)) == (row is not None)


def test_an_empty_key_and_a_null_value_are_no_missing_key() -> None:
    assert not has_null_key(encode_batch([Record(0, T, b"", None)]))


def test_batch_that_cannot_be_decoded_has_no_keys() -> None:
    for look in (decode_keys, has_null_key):
        with pytest.raises(CorruptBatch):
            look(raw_batch(raw_record(key=b"\x7f")))
    with pytest.raises(BatchTooLarge):
        decode_keys(batch_of(records(), Compression.ZSTD), decompressed_bytes_max=10)


def test_emptied_batch_has_no_keys() -> None:
    assert decode_keys(emptied(check_batch(batch_of(records())))) == []
    assert not has_null_key(emptied(check_batch(batch_of(records()))))


# -- thinned


@pytest.mark.parametrize("compression", Compression)
@given(kept=st.lists(st.booleans(), min_size=20, max_size=20).filter(any))
def test_what_is_kept_is_unchanged_and_in_its_place(compression: Compression, kept: list[bool]) -> None:
    rows = records()
    batch = batch_of(rows, compression)
    before = check_batch(batch)
    left = thinned(before, memoryview(batch), kept)
    after = check_batch(left)
    assert decode_batch(left) == [row for row, is_kept in zip(rows, kept, strict=True) if is_kept]
    assert after.record_count == sum(kept)
    for field in before.__class__.__dict__:
        if field in {"attributes", "batch_length", "compression", "crc", "record_count", "size_in_bytes"}:
            continue
        if not field.startswith("_"):
            assert getattr(after, field) == getattr(before, field), field
    assert after.compression in (compression, Compression.NONE)


@pytest.mark.parametrize("compression", Compression)
def test_thinned_batch_is_compressed_as_before_if_that_makes_it_smaller(compression: Compression) -> None:
    rows = [Record(n, T, b"key %d" % n, b"value" * 50) for n in range(20)]
    batch = batch_of(rows, compression)
    left = check_batch(thinned(check_batch(batch), batch, [n > 9 for n in range(20)]))
    assert left.compression is compression
    short = check_batch(batch_of([Record(0, T, b"k", b"v"), Record(1, T, b"l", b"w")]))
    tiny = batch_of([Record(0, T, b"\x01\x7f\x33", b"\x99"), *rows], compression)
    left = check_batch(thinned(check_batch(tiny), tiny, [True] + [False] * 20))
    assert left.compression is Compression.NONE
    assert left.size_in_bytes < short.size_in_bytes


def test_thinned_batch_keeps_the_time_of_the_log() -> None:
    batch = encode_batch(
        [Record(0, 1, b"a", b"1"), Record(1, 2, b"b", b"2")],
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        append_timestamp_ms=T,
    )
    left = thinned(check_batch(batch), batch, [True, False])
    assert [record.timestamp for record in decode_batch(left)] == [T]


# -- empty


@pytest.mark.parametrize("compression", Compression)
def test_emptied_batch_tells_what_its_producer_wrote(compression: Compression) -> None:
    before = check_batch(batch_of(records(), compression))
    left = emptied(before)
    after = check_batch(left)
    assert len(left) == HEADER_BYTES
    assert decode_batch(left) == []
    for field in (
        "base_offset",
        "last_offset",
        "leader_epoch",
        "producer_id",
        "producer_epoch",
        "last_sequence",
    ):
        assert getattr(after, field) == getattr(before, field), field
    assert after.max_timestamp == before.max_timestamp
    assert after.compression is Compression.NONE
    assert not is_filler(after)


@pytest.mark.parametrize("last_offset", [5, 1000, 5 + FILLED_OFFSETS_MAX - 1])
def test_filler_covers_offsets_of_nobody(codec: ModuleType, last_offset: int) -> None:
    left = filler(base_offset=5, last_offset=last_offset, leader_epoch=3, max_timestamp=T)
    header = codec.check_batch(left)
    assert len(left) == HEADER_BYTES
    assert (header.base_offset, header.last_offset, header.next_offset) == (5, last_offset, last_offset + 1)
    assert (header.leader_epoch, header.max_timestamp, header.producer_id) == (3, T, -1)
    assert is_filler(header)
    assert codec.decode_batch(left) == []
    assert codec.decode_consumer_records(left, topic="t", partition=0) == []


def test_filler_covers_no_more_than_its_field_can_tell() -> None:
    with pytest.raises(AssertionError):
        filler(base_offset=0, last_offset=FILLED_OFFSETS_MAX, leader_epoch=0, max_timestamp=T)


def test_batches_of_all_kinds_follow_each_other(codec: ModuleType) -> None:
    batch = batch_of(records())
    header = check_batch(batch)
    first = filler(base_offset=0, last_offset=99, leader_epoch=7, max_timestamp=T)
    after = filler(base_offset=120, last_offset=130, leader_epoch=7, max_timestamp=T)
    for middle in (thinned(header, batch, [n == 3 for n in range(20)]), emptied(header)):
        found = codec.scan_batches(first + middle + after)
        assert found.fault is None
        assert [each.base_offset for each in found.headers] == [0, 100, 120]
    assert scan_batches(first).headers[0].record_count == 0
