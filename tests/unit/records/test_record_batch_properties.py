"""Properties: what goes in comes out, and both implementations agree on everything, errors too."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from quorate.core.records import Compression, Record, TimestampType
from quorate.core.records import _pure as pure
from quorate.core.records.compression import compress
from quorate.errors import BatchTooLarge, CorruptBatch, InvalidRecord, UnsupportedBatch
from tests.unit.records.batches import raw_batch, raw_record, raw_varint
from tests.unit.records.implementations import BOTH

INT64 = st.integers(-(2**63), 2**63 - 1)
FIELDS = st.none() | st.binary(max_size=200)
HEADERS = st.lists(st.tuples(st.text(max_size=20), FIELDS), max_size=4).map(tuple)
TIMESTAMPS = st.integers(-(2**62), 2**62 - 1)
RECORDS = st.lists(
    st.builds(Record, st.just(0), TIMESTAMPS, FIELDS, FIELDS, HEADERS), min_size=1, max_size=20
)
BATCH_FIELDS = st.fixed_dictionaries(
    {
        "base_offset": st.integers(0, 2**62),
        "leader_epoch": st.integers(-1, 2**31 - 1),
        "compression": st.sampled_from(Compression),
        "producer_id": st.integers(-1, 2**63 - 1),
        "producer_epoch": st.integers(-1, 2**15 - 1),
        "base_sequence": st.integers(-1, 2**31 - 1),
        "is_transactional": st.booleans(),
        "is_control": st.booleans(),
    }
)


def outcome(function: Callable[..., Any], *arguments: Any, **keywords: Any) -> object:
    """What a call gives: its result, or its error with all that the error says.

    Any other exception passes through and fails the test: only these may leave the codec.
    """
    try:
        return repr(function(*arguments, **keywords))
    except (CorruptBatch, UnsupportedBatch, BatchTooLarge, InvalidRecord) as error:
        return type(error), error.message, error.facts


def assert_both_agree(name: str, *arguments: Any, **keywords: Any) -> None:
    outcomes = [outcome(getattr(codec, name), *arguments, **keywords) for codec in BOTH]
    assert outcomes == [outcomes[0]] * len(BOTH)


def assert_both_read_the_same(batch: bytes) -> None:
    for name in ("parse_header", "check_batch", "scan_batches"):
        assert_both_agree(name, batch)
    stamp = {
        "next_offset": int.from_bytes(batch[:8], signed=True),
        "end_offset": 2**63 - 1,
        "leader_epoch": int.from_bytes(batch[12:16], signed=True),
    }
    assert_both_agree("scan_run", batch, 0, max_timestamp=-1, mark_from=0, mark_every=100, **stamp)
    assert_both_agree("decode_batch", batch, decompressed_bytes_max=100_000)
    assert_both_agree("decode_columns", batch, headers=True, decompressed_bytes_max=100_000)


def with_matching_crc(batch: bytes) -> bytes:
    return batch[:17] + crc32c(batch[21:]).to_bytes(4) + batch[21:]


@given(records=RECORDS, fields=BATCH_FIELDS)
def test_records_come_back_as_they_were(records: list[Record], fields: dict[str, Any]) -> None:
    batches = {codec.encode_batch(records, **fields) for codec in BOTH}
    assert len(batches) == 1
    batch = batches.pop()
    expected = [record._replace(offset=fields["base_offset"] + index) for index, record in enumerate(records)]
    for codec in BOTH:
        assert codec.decode_batch(batch) == expected
        header = codec.check_batch(batch)
        assert header.size_in_bytes == len(batch)
        assert header.next_offset == fields["base_offset"] + len(records)
        assert header.is_transactional == fields["is_transactional"]
        assert header.is_control == fields["is_control"]
    assert_both_read_the_same(batch)


def test_the_crc_is_the_same_at_every_size() -> None:
    """The compiled codec computes it itself, in words and lanes, unless the batch is large."""
    noise = random.Random(7).randbytes(100_000)
    for size in (*range(2100), *range(16_200, 16_500), 100_000):
        batch = pure.encode_values([noise[:size]], timestamp_ms=size)
        for codec in BOTH:
            assert codec.encode_values([noise[:size]], timestamp_ms=size) == batch
            assert codec.check_batch(batch).size_in_bytes == len(batch)


@given(records=RECORDS, append_timestamp_ms=INT64)
def test_log_append_time_replaces_every_timestamp(records: list[Record], append_timestamp_ms: int) -> None:
    fields = {
        "timestamp_type": TimestampType.LOG_APPEND_TIME,
        "append_timestamp_ms": append_timestamp_ms,
    }
    batch = pure.encode_batch(records, **fields)  # type: ignore[arg-type]
    for codec in BOTH:
        assert codec.encode_batch(records, **fields) == batch
        assert {record.timestamp for record in codec.decode_batch(batch)} == {append_timestamp_ms}


@given(timestamps=st.lists(INT64, min_size=1, max_size=5))
def test_both_accept_and_refuse_the_same_timestamps(timestamps: list[int]) -> None:
    assert_both_agree("encode_values", [b"v"] * len(timestamps), timestamps=timestamps)


ANYTHING = (
    st.none() | st.integers() | st.floats() | st.text(max_size=3) | st.binary(max_size=3) | st.booleans()
)


@given(record=st.builds(Record, st.just(0), ANYTHING, ANYTHING, ANYTHING, ANYTHING | HEADERS))
def test_both_refuse_the_same_records_with_the_same_words(record: Record) -> None:
    assert_both_agree("encode_batch", [Record(0, 0, None, None), record])


@given(batch=st.binary(max_size=200))
def test_any_bytes_are_read_alike(batch: bytes) -> None:
    assert_both_read_the_same(batch)


@given(
    body=st.binary(max_size=100),
    count=st.integers(0, 5) | st.integers(-(2**31), 2**31 - 1),
    compression=st.sampled_from(Compression),
    base_timestamp=INT64,
    attributes=st.sampled_from([0, 0x08, 0x40]),
)
def test_any_body_under_a_valid_crc_is_read_alike(
    body: bytes, count: int, compression: Compression, base_timestamp: int, attributes: int
) -> None:
    batch = raw_batch(
        compress(compression, body),
        record_count=count,
        last_offset_delta=max(count - 1, 0),
        attributes=attributes | compression,
        base_timestamp=base_timestamp,
    )
    assert_both_read_the_same(batch)


VARINTS = st.one_of(
    st.integers(-2, 5).map(raw_varint),
    st.integers(-(2**31), 2**31 - 1).map(raw_varint),
    INT64.map(raw_varint),
    st.binary(min_size=1, max_size=11),
)
FIELD_BYTES = st.binary(max_size=20).map(lambda field: raw_varint(len(field)) + field) | VARINTS
NEARLY_RECORDS = st.builds(
    raw_record,
    timestamp_delta=VARINTS,
    offset_delta=st.integers(0, 4).map(raw_varint) | VARINTS,
    key=FIELD_BYTES,
    value=FIELD_BYTES,
    headers=st.just(b"\x00") | st.tuples(VARINTS, FIELD_BYTES, FIELD_BYTES).map(b"".join),
    trailing=st.just(b"") | st.binary(max_size=2),
    length=st.none() | VARINTS,
)


@given(records=st.lists(NEARLY_RECORDS, max_size=4), base_timestamp=INT64)
def test_records_that_are_nearly_right_are_read_alike(records: list[bytes], base_timestamp: int) -> None:
    batch = raw_batch(
        b"".join(records), record_count=len(records), last_offset_delta=5, base_timestamp=base_timestamp
    )
    assert_both_read_the_same(batch)


@given(
    records=RECORDS,
    compression=st.sampled_from(Compression),
    changes=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=4),
    is_crc_made_to_match=st.booleans(),
)
def test_a_damaged_batch_is_read_alike(
    records: list[Record],
    compression: Compression,
    changes: list[tuple[int, int]],
    is_crc_made_to_match: bool,
) -> None:
    damaged = bytearray(pure.encode_batch(records, compression=compression))
    for position, byte in changes:
        damaged[position % len(damaged)] = byte
    batch = bytes(damaged)
    assert_both_read_the_same(with_matching_crc(batch) if is_crc_made_to_match else batch)


@given(records=RECORDS, cut=st.integers(0, 5000), extra=st.binary(max_size=80))
def test_a_cut_and_continued_log_is_scanned_alike(records: list[Record], cut: int, extra: bytes) -> None:
    batch = pure.encode_batch(records)
    assert_both_agree("scan_batches", batch + batch[: cut % len(batch)] + extra)


@pytest.mark.skipif(len(BOTH) < 2, reason="the compiled codec was not built here")
def test_the_properties_above_compare_two_implementations() -> None:
    names: list[ModuleType] = list(BOTH)
    assert [module.__name__.rpartition(".")[2] for module in names] == ["_pure", "_compiled"]
