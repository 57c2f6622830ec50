"""Making batches: what they hold, and what cannot be put into one."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import Mock

import pytest

from quorate.core.records import Compression, Record, TimestampType
from quorate.errors import InvalidRecord
from tests.unit.records.batches import TIMESTAMP as T

VALUES: list[bytes | None] = [b"a" * 300, None, b"", b"d"]
KEYS: list[bytes | None] = [None, b"k", b"", None]
TIMESTAMPS = [T, T - 70, T + 9_000, T]
HEADERS: list[tuple[tuple[str, bytes | None], ...]] = [(), (("h", b"1"), ("é", None)), (), (("", b""),)]
RECORDS = [
    Record(row, timestamp, key, value, headers)
    for row, (timestamp, key, value, headers) in enumerate(
        zip(TIMESTAMPS, KEYS, VALUES, HEADERS, strict=True)
    )
]
FIELDS: dict[str, Any] = {
    "base_offset": 2**50,
    "leader_epoch": 3,
    "producer_id": 9,
    "producer_epoch": 1,
    "base_sequence": 5,
    "is_transactional": True,
}


def test_offsets_are_assigned_whatever_the_records_say(codec: ModuleType) -> None:
    batch = codec.encode_batch([record._replace(offset=77) for record in RECORDS], base_offset=10)
    assert [record.offset for record in codec.decode_batch(batch)] == [10, 11, 12, 13]


@pytest.mark.parametrize("compression", Compression)
def test_columns_and_records_make_the_same_batch(codec: ModuleType, compression: Compression) -> None:
    from_records = codec.encode_batch(RECORDS, compression=compression, **FIELDS)
    from_columns = codec.encode_values(
        VALUES, timestamps=TIMESTAMPS, keys=KEYS, headers=HEADERS, compression=compression, **FIELDS
    )
    assert from_columns == from_records
    header = codec.check_batch(from_records)
    assert header.max_timestamp == max(TIMESTAMPS)
    assert {name: getattr(header, name) for name in FIELDS} == FIELDS


def test_one_timestamp_serves_all_values(codec: ModuleType) -> None:
    batch = codec.encode_values(VALUES, timestamp_ms=T)
    assert batch == codec.encode_values(VALUES, timestamps=[T] * 4)
    assert [record.value for record in codec.decode_batch(batch)] == VALUES


def test_any_object_with_the_attributes_is_a_record(codec: ModuleType) -> None:
    lookalikes = [
        SimpleNamespace(timestamp=r.timestamp, key=r.key, value=r.value, headers=r.headers) for r in RECORDS
    ]
    assert codec.encode_batch(lookalikes) == codec.encode_batch(RECORDS)
    assert codec.encode_batch(tuple(RECORDS)) == codec.encode_batch(RECORDS)


class HeaderPair(NamedTuple):
    key: str
    value: bytes | bytearray | None


@pytest.mark.parametrize("kind", [bytearray, memoryview])
def test_any_buffer_of_bytes_is_a_field(codec: ModuleType, kind: Any) -> None:
    def wrap(field: bytes | None) -> Any:
        return None if field is None else kind(field)

    batch = codec.encode_values(
        list(map(wrap, VALUES)),
        keys=tuple(map(wrap, KEYS)),
        timestamps=TIMESTAMPS,
        headers=[[HeaderPair(key, wrap(value)) for key, value in headers] for headers in HEADERS],
    )
    assert batch == codec.encode_batch(RECORDS)


def test_a_strided_memoryview_is_written_as_the_bytes_it_shows(codec: ModuleType) -> None:
    batch = codec.encode_values([memoryview(b"a-b-c")[::2]], timestamp_ms=T)
    assert codec.decode_batch(batch)[0].value == b"abc"


def test_log_append_time_is_that_of_the_batch(codec: ModuleType) -> None:
    batch = codec.encode_batch(
        RECORDS, timestamp_type=TimestampType.LOG_APPEND_TIME, append_timestamp_ms=T + 5
    )
    header = codec.parse_header(batch)
    assert (header.timestamp_type, header.max_timestamp) == (TimestampType.LOG_APPEND_TIME, T + 5)
    assert {record.timestamp for record in codec.decode_batch(batch)} == {T + 5}


@pytest.mark.parametrize("compression", set(Compression) - {Compression.NONE})
def test_what_compression_would_not_make_smaller_is_stored_plain(
    codec: ModuleType, compression: Compression
) -> None:
    batch = codec.encode_values([b"v"], timestamp_ms=T, compression=compression)
    assert codec.parse_header(batch).compression is Compression.NONE
    larger = codec.encode_values([b"v" * 500], timestamp_ms=T, compression=compression)
    assert codec.parse_header(larger).compression is compression


def test_extreme_timestamps_are_kept(codec: ModuleType) -> None:
    low, high = -(2**63), 2**63 - 1
    for timestamps in ([low, -1], [-1, high - 1], [high, 0], [low], [high]):
        batch = codec.encode_values([b"v"] * len(timestamps), timestamps=timestamps)
        assert [record.timestamp for record in codec.decode_batch(batch)] == timestamps


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (Record(0, T, None, "text"), r"record 1: value must be bytes or None, not str.*value\.encode\(\)"),  # type: ignore[arg-type]
        (Record(0, T, "text", None), r"record 1: key must be bytes or None, not str.*key\.encode\(\)"),  # type: ignore[arg-type]
        (Record(0, T, None, 5), "record 1: value must be bytes or None, not int"),  # type: ignore[arg-type]
        (Record(0, 1.5, None, None), "record 1: a timestamp is .* not 1.5"),  # type: ignore[arg-type]
        (Record(0, None, None, None), "record 1: a timestamp is .* not None"),  # type: ignore[arg-type]
        (Record(0, 2**63, None, None), "record 1: a timestamp is"),
        (Record(0, -(2**63) - 1, None, None), "record 1: a timestamp is"),
        (Record(0, -(2**63), None, None), "record 1: a timestamp is .* from the first record's"),
        (Record(0, T, None, None, None), "record 1: headers are"),  # type: ignore[arg-type]
        (Record(0, T, None, None, {"a": b"b"}), "record 1: headers are"),  # type: ignore[arg-type]
        (Record(0, T, None, None, ("ab",)), "record 1: headers are"),  # type: ignore[arg-type]
        (Record(0, T, None, None, (("a", b"", b""),)), "record 1: headers are"),  # type: ignore[arg-type]
        (Record(0, T, None, None, ((b"a", b""),)), "record 1: headers are"),  # type: ignore[arg-type]
        (Record(0, T, None, None, (("\ud800", b""),)), "record 1: headers are"),
        (Record(0, T, None, None, (("a", "b"),)), "record 1: header value must be bytes or None, not str"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_record_is_refused_with_the_reason(codec: ModuleType, record: Record, reason: str) -> None:
    with pytest.raises(InvalidRecord, match=reason) as caught:
        codec.encode_batch([RECORDS[0], record])
    assert caught.value.facts == {"record": 1}


def test_a_batch_without_records_is_refused(codec: ModuleType) -> None:
    with pytest.raises(InvalidRecord, match="at least one record"):
        codec.encode_batch([])
    with pytest.raises(InvalidRecord, match="at least one record"):
        codec.encode_values([], timestamps=[])


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({}, "either timestamp_ms or timestamps"),
        ({"timestamp_ms": T, "timestamps": TIMESTAMPS}, "either timestamp_ms or timestamps"),
        ({"timestamps": [T]}, "1 timestamps for 4 values"),
        ({"timestamp_ms": T, "keys": KEYS[1:]}, "3 keys for 4 values"),
        ({"timestamp_ms": T, "headers": [*HEADERS, ()]}, "5 headers for 4 values"),
    ],
)
def test_columns_of_unequal_length_are_refused(
    codec: ModuleType, columns: dict[str, Any], reason: str
) -> None:
    with pytest.raises(InvalidRecord, match=reason):
        codec.encode_values(VALUES, **columns)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("base_offset", -1),
        ("base_offset", 2**63 - 2**31),
        ("base_offset", None),
        ("leader_epoch", -2),
        ("leader_epoch", 2**31),
        ("compression", 5),
        ("compression", -1),
        ("compression", "gzip"),
        ("timestamp_type", 2),
        ("producer_id", -2),
        ("producer_id", 2**63),
        ("producer_epoch", 2**15),
        ("base_sequence", 2**31),
        ("append_timestamp_ms", T),
    ],
)
def test_fields_of_the_batch_have_to_fit_the_header(codec: ModuleType, name: str, wrong: Any) -> None:
    with pytest.raises(InvalidRecord, match=name):
        codec.encode_batch(RECORDS, **{name: wrong})
    with pytest.raises(InvalidRecord, match=name):
        codec.encode_values(VALUES, timestamp_ms=T, **{name: wrong})


@pytest.mark.parametrize("wrong", [None, 2**63, 1.5])
def test_log_append_time_needs_the_time(codec: ModuleType, wrong: Any) -> None:
    with pytest.raises(InvalidRecord, match="append_timestamp_ms"):
        codec.encode_batch(RECORDS, timestamp_type=TimestampType.LOG_APPEND_TIME, append_timestamp_ms=wrong)


def test_a_batch_beyond_the_format_is_refused_before_anything_is_copied(codec: ModuleType) -> None:
    huge = bytes(2**31)  # zero pages that nobody touches cost no memory
    with pytest.raises(InvalidRecord, match="more than 2147483647 bytes"):
        codec.encode_values([b"first", huge], timestamp_ms=T)
    with pytest.raises(InvalidRecord, match="more than 2147483647 bytes"):
        codec.encode_values([None], keys=[huge], timestamp_ms=T)


class Meddler:
    """An integer that empties a list while it is read."""

    def __init__(self, victim: list[Any]) -> None:
        self.victim = victim

    def __index__(self) -> int:
        self.victim.clear()
        return T


def test_columns_that_change_meanwhile_do_no_harm(codec: ModuleType) -> None:
    values: list[bytes | None] = [b"%d" % row for row in range(50)]
    kept = list(values)
    timestamps: list[Any] = [T] * 49
    timestamps.append(Meddler(values))
    batch = codec.encode_values(values, timestamps=timestamps)
    assert values == []
    assert [record.value for record in codec.decode_batch(batch)] == kept


def test_an_object_that_only_claims_to_be_bytes_is_refused(codec: ModuleType) -> None:
    with pytest.raises(InvalidRecord, match="value must be bytes or None"):
        codec.encode_values([Mock(spec=bytes)], timestamp_ms=T)
    with pytest.raises(InvalidRecord, match="headers are"):
        codec.encode_values([b"v"], timestamp_ms=T, headers=[[(Mock(spec=str), b"")]])
    with pytest.raises(InvalidRecord, match="headers are"):
        codec.encode_values([b"v"], timestamp_ms=T, headers=[Mock(spec=tuple)])
