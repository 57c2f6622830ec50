"""How a task of the sink hands its rows to the producer, and what it says when that fails."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
import pytest

pytest.importorskip("pyspark", reason="the extra spark is not installed")

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from quorate import client
from quorate.errors import BufferExhausted, DeliveryTimedOut, InvalidRecord, QuorateError
from quorate.pipeline.source import connection
from quorate.pipeline.source.sink import QuorateWriter, Written
from quorate.pipeline.source.write_options import write_options

_ROWS = 1000
_SCHEMA = StructType(
    [
        StructField("key", StringType()),
        StructField("value", BinaryType()),
        StructField("timestamp", TimestampType()),
    ]
)


class _Sent:
    def __init__(self, producer: _Producer, error: QuorateError | None) -> None:
        self._producer = producer
        self._error = error

    def done(self) -> bool:
        return False

    def exception(self) -> QuorateError | None:
        self._producer.waits.append(len(self._producer.sent))
        return self._error


class _Producer:
    """Notes what it is given; nothing is acknowledged before somebody waits for it."""

    def __init__(self, *_: object, **__: object) -> None:
        self.sent: list[Any] = []
        #: how much was sent whenever somebody waited
        self.waits: list[int] = []
        self.error: QuorateError | None = None
        self.refusal: QuorateError | None = None

    def __enter__(self) -> _Producer:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def send(self, _topic: str, value: bytes, *, timestamp_ms: int | None, **_: object) -> _Sent:
        self.sent.append(value if timestamp_ms is None else (value, timestamp_ms))
        return _Sent(self, self.error)

    def send_many(self, _topic: str, values: list[bytes], **_: object) -> _Sent:
        if self.refusal is not None:
            raise self.refusal
        self.sent += values
        return _Sent(self, self.error)


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch) -> _Producer:
    made = _Producer()
    monkeypatch.setattr(client, "Producer", lambda *_, **__: made)
    monkeypatch.setattr(connection, "connection_to", lambda _: None)
    return made


def _write(**options: str) -> Written:
    at = datetime(2026, 1, 31, tzinfo=UTC)
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array([str(n) for n in range(_ROWS)]),
            pa.array([b"%d" % n for n in range(_ROWS)]),
            pa.array([at] * _ROWS, pa.timestamp("us", tz="UTC")),
        ],
        names=["key", "value", "timestamp"],
    )
    given = {"kafka.bootstrap.servers": "h:1", "topic": "orders", **options}
    written = QuorateWriter(write_options(given, is_streaming=False), _SCHEMA).write(iter([batch]))
    assert isinstance(written, Written)
    return written


def test_rows_go_in_one_call(producer: _Producer) -> None:
    assert _write().records == _ROWS
    assert producer.sent == [b"%d" % n for n in range(_ROWS)]
    assert producer.waits == [_ROWS]


def test_rows_with_timestamps_do_not_wait_for_each_other(producer: _Producer) -> None:
    assert _write(includeTimestamp="true").records == _ROWS
    assert producer.sent[0] == (b"0", 1_769_817_600_000)
    assert set(producer.waits) == {_ROWS}, "all of a batch are sent before the first is waited for"


@pytest.mark.parametrize("is_mixed", [False, True])
def test_rows_of_one_partition_keep_their_order_however_it_is_named(
    producer: _Producer, *, is_mixed: bool
) -> None:
    """Rows with a partition and rows whose key decides may go to the same one."""
    schema = StructType([StructField("value", BinaryType()), StructField("partition", IntegerType())])
    partitions = [3, None if is_mixed else 1, 3, 1, None if is_mixed else 3, 3]
    values = [b"%d" % n for n in range(len(partitions))]
    arrays = [pa.array(values), pa.array(partitions, pa.int32())]
    batch = pa.RecordBatch.from_arrays(arrays, names=["value", "partition"])
    options = write_options({"kafka.bootstrap.servers": "h:1", "topic": "orders"}, is_streaming=False)
    written = QuorateWriter(options, schema).write(iter([batch]))

    assert isinstance(written, Written)
    assert written.records == len(values)
    # Without a mixture a partition goes in one call.
    assert producer.sent == (values if is_mixed else [b"0", b"2", b"4", b"5", b"1", b"3"])


@pytest.mark.usefixtures("producer")
def test_a_header_that_is_null_is_refused() -> None:
    kind = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
    schema = StructType([StructField("value", BinaryType()), StructField("headers", ArrayType(kind))])
    pair = pa.struct([("key", pa.string()), ("value", pa.binary())])
    headers = pa.array([[{"key": "a", "value": b"1"}, None]], pa.list_(pair))
    batch = pa.RecordBatch.from_arrays([pa.array([b"v"]), headers], names=["value", "headers"])
    options = write_options({"kafka.bootstrap.servers": "h:1", "topic": "orders"}, is_streaming=False)
    with pytest.raises(InvalidRecord, match="a row has a header that is null"):
        QuorateWriter(options, schema).write(iter([batch]))


def test_an_error_names_the_topic(producer: _Producer) -> None:
    producer.error = DeliveryTimedOut("too late", partition=3)
    with pytest.raises(DeliveryTimedOut, match="orders-3: too late"):
        _write()
    producer.refusal = BufferExhausted("no room")
    with pytest.raises(BufferExhausted, match="orders: no room"):
        _write()
