"""Batches of the log as Arrow batches: exactly the rows of the range, in the schema that Spark wants."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from quorate.core.records import Record, encode_batch
from quorate.core.records import TimestampType as RecordTimestampType
from quorate.errors import CorruptBatch, InvalidConfig, InvalidRecord
from quorate.pipeline.source.arrow_rows import ArrowRows
from quorate.pipeline.source.ranges import OffsetRange
from quorate.pipeline.source.tasks import check_schema

HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
SCHEMA = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
        StructField("headers", ArrayType(HEADER)),
    ]
)


def batch(base_offset: int, count: int, **more: Any) -> bytes:
    records = [
        Record(0, 1000 + n, None if n % 2 else b"k", b"v%d" % (base_offset + n), (("h", b"1"),) if n else ())
        for n in range(count)
    ]
    return encode_batch(records, base_offset=base_offset, **more)


def rows_of(chunk: bytes, start: int, end: int, schema: StructType = SCHEMA) -> list[dict[str, Any]]:
    wanted = to_arrow_schema(schema, timezone="UTC")
    found = list(ArrowRows(OffsetRange("t", "id", 3, start, end), wanted).of_chunk(chunk))
    assert all(each.schema.equals(wanted) for each in found)
    return [row for each in found for row in each.to_pylist()]


def test_every_column_is_as_it_was_written() -> None:
    first, second = rows_of(batch(10, 2), 0, 100)
    assert first["timestamp"].timestamp() == 1.0
    del first["timestamp"], second["timestamp"]
    assert first == {
        "key": b"k", "value": b"v10", "topic": "t", "partition": 3, "offset": 10,
        "timestampType": 0, "headers": None,
    }  # fmt: skip
    assert second["key"] is None
    assert second["headers"] == [{"key": "h", "value": b"1"}]


@pytest.mark.parametrize(
    ("start", "end"), [(0, 100), (12, 100), (0, 27), (12, 13), (19, 21), (29, 30), (30, 40)]
)
def test_rows_outside_of_the_range_are_left_out(start: int, end: int) -> None:
    chunk = batch(10, 10) + batch(20, 10)
    found = [row["offset"] for row in rows_of(chunk, start, end)]
    assert found == [offset for offset in range(10, 30) if start <= offset < end]


def test_control_batches_are_no_rows() -> None:
    chunk = batch(0, 1, is_control=True, is_transactional=True, producer_id=1, producer_epoch=0) + batch(1, 2)
    assert [row["offset"] for row in rows_of(chunk, 0, 9)] == [1, 2]


def test_each_row_tells_whose_clock_its_timestamp_is_from() -> None:
    stamped = batch(2, 2, timestamp_type=RecordTimestampType.LOG_APPEND_TIME, append_timestamp_ms=5000)
    found = rows_of(batch(0, 2) + stamped, 0, 9)
    assert [row["timestampType"] for row in found] == [0, 0, 1, 1]
    assert found[3]["timestamp"].timestamp() == 5.0


def test_a_record_without_headers_has_null_as_with_kafkas_source() -> None:
    found = rows_of(batch(0, 3) + batch(3, 1), 0, 9)
    assert [row["headers"] for row in found] == [
        None,
        [{"key": "h", "value": b"1"}],
        [{"key": "h", "value": b"1"}],
        None,
    ]


def test_what_cannot_be_decoded_is_told_with_its_place() -> None:
    second = bytearray(batch(5, 5))
    second[-1] ^= 1
    with pytest.raises(CorruptBatch, match="t-3 at offset 5") as caught:
        rows_of(batch(0, 5) + bytes(second), 0, 10)
    assert (caught.value.facts["partition"], caught.value.facts["offset"]) == (3, 5)


def test_a_time_that_spark_has_no_number_for_is_told_with_its_place() -> None:
    chunk = encode_batch([Record(0, 1 << 62, b"k", b"v", ())], base_offset=7)
    with pytest.raises(InvalidRecord, match="t-3 at offset 7"):
        rows_of(chunk, 0, 10)


def test_a_mistake_of_our_own_is_told_with_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(ArrowRows, "_decoded", broken)
    with pytest.raises(ZeroDivisionError) as caught:
        rows_of(batch(7, 2), 5, 9)
    assert caught.value.__notes__ == ["while handling t-3 at offset 7"]


def test_many_small_batches_become_few_large_ones() -> None:
    chunk = b"".join(batch(100 * n, 100) for n in range(50))
    wanted = to_arrow_schema(SCHEMA, timezone="UTC")
    found = list(ArrowRows(OffsetRange("t", "id", 3, 0, 5000), wanted).of_chunk(chunk))
    assert [each.num_rows for each in found] == [5000]


def test_a_schema_may_leave_columns_out_and_change_their_order() -> None:
    schema = StructType([SCHEMA["value"], SCHEMA["key"]])
    check_schema(schema)
    assert rows_of(batch(0, 1), 0, 9, schema) == [{"value": b"v0", "key": b"k"}]


@pytest.mark.parametrize(
    ("field", "said"),
    [
        (StructField("color", StringType()), "there is no column color"),
        (StructField("value", StringType()), "column value is binary, not string: cast it"),
    ],
)
def test_a_schema_with_other_columns_is_refused(field: StructField, said: str) -> None:
    with pytest.raises(InvalidConfig, match=said):
        check_schema(StructType([field]))
