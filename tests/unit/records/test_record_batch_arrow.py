"""A batch as Arrow arrays."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from quorate.core.records import (
    Compression,
    Record,
    TimestampType,
    arrow,
    arrow_schema,
    batch_to_arrow,
    encode_batch,
)
from quorate.errors import CorruptBatch, MissingExtra
from tests.unit.records.batches import TIMESTAMP as T

pa = pytest.importorskip("pyarrow")

RECORDS = [
    Record(0, T, None, b"first"),
    Record(1, T + 5, b"", None, (("h", b"1"), ("h", None))),
    Record(2, T - 5, b"key", b"", (("\u2603", b""),)),
    *[Record(offset, T, b"k" * offset, b"v" * offset) for offset in range(3, 40)],
]


@pytest.fixture(autouse=True)
def columns_by(codec: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow, "decode_columns", codec.decode_columns)


@pytest.mark.parametrize("compression", Compression)
def test_every_column_holds_what_the_records_hold(compression: Compression) -> None:
    batch = batch_to_arrow(encode_batch(RECORDS, compression=compression, base_offset=100), headers=True)
    batch.validate(full=True)
    assert batch.schema == arrow_schema(headers=True)
    assert batch["offset"].to_pylist() == list(range(100, 140))
    assert batch["timestamp"].cast(pa.int64()).to_pylist() == [record.timestamp for record in RECORDS]
    assert batch["key"].to_pylist() == [record.key for record in RECORDS]
    assert batch["value"].to_pylist() == [record.value for record in RECORDS]
    assert batch["headers"].to_pylist() == [
        [{"key": key, "value": value} for key, value in record.headers] for record in RECORDS
    ]


def test_headers_come_only_if_asked_for() -> None:
    batch = batch_to_arrow(encode_batch(RECORDS))
    batch.validate(full=True)
    assert batch.schema.names == ["offset", "timestamp", "key", "value"]
    assert batch.schema == arrow_schema()


def test_timestamps_are_instants_in_utc() -> None:
    assert arrow_schema().field("timestamp").type == pa.timestamp("ms", tz="UTC")


def test_columns_without_nulls_have_no_validity_bitmap() -> None:
    batch = batch_to_arrow(encode_batch([Record(0, T, None, b"v")] * 9))
    assert batch["value"].null_count == 0
    assert batch["value"].buffers()[0] is None
    assert batch["key"].null_count == 9


def test_log_append_time_fills_the_timestamp_column() -> None:
    batch = batch_to_arrow(
        encode_batch(RECORDS, timestamp_type=TimestampType.LOG_APPEND_TIME, append_timestamp_ms=T + 7)
    )
    assert set(batch["timestamp"].cast(pa.int64()).to_pylist()) == {T + 7}


def test_a_batch_emptied_by_compaction_has_no_rows() -> None:
    emptied = bytes.fromhex(
        "000000000000006400000031000000040259824a5e0000000000090000018bcfe568000000018bcfe56800ffffffffff"
        "ffffffffffffffffff00000000"
    )
    batch = batch_to_arrow(emptied, headers=True)
    batch.validate(full=True)
    assert batch.num_rows == 0


def test_arrays_outlive_the_buffer() -> None:
    buffer = bytearray(encode_batch(RECORDS))
    batch = batch_to_arrow(buffer)
    buffer[:] = bytes(len(buffer))
    assert batch["value"].to_pylist() == [record.value for record in RECORDS]


def test_a_corrupt_batch_gives_no_arrays() -> None:
    with pytest.raises(CorruptBatch, match="CRC"):
        batch_to_arrow(encode_batch(RECORDS)[:-1] + b"\x01")


def test_without_pyarrow_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    arrow._pyarrow.cache_clear()
    try:
        with pytest.raises(MissingExtra, match=r"pip install 'quorate\[arrow\]'"):
            batch_to_arrow(encode_batch(RECORDS))
    finally:
        arrow._pyarrow.cache_clear()
