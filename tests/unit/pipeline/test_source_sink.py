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
from quorate.pipeline.source.errors import at_row
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
    """Of one record, or of many: as a `RecordFuture` and as a `Delivery`."""

    def __init__(self, producer: _Producer, error: QuorateError | None) -> None:
        self._producer = producer
        self._error = error

    def done(self) -> bool:
        return False

    def exception(self) -> QuorateError | None:
        self._producer.waits.append(len(self._producer.sent))
        return self._error

    def errors(self) -> dict[int, QuorateError]:
        error = self.exception()
        return {} if error is None else {self._producer.refused: error}


class _Producer:
    """Notes what it is given; nothing is acknowledged before somebody waits for it."""

    def __init__(self, *_: object, **__: object) -> None:
        self.sent: list[Any] = []
        #: how much was sent whenever somebody waited
        self.waits: list[int] = []
        self.error: QuorateError | None = None
        #: which record of many it is about
        self.refused = 0
        self.refusal: QuorateError | None = None

    def __enter__(self) -> _Producer:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def send(self, _topic: str, value: bytes, *, timestamp_ms: int | None, **_: object) -> _Sent:
        if self.refusal is not None and len(self.sent) == self.refused:
            raise self.refusal
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


_PAIR = pa.struct([("key", pa.string()), ("value", pa.binary())])
_UTC = pa.timestamp("us", tz="UTC")
_V = pa.array([b"a", b"b", b"c"])
_COLUMNS: dict[str, Any] = {
    "topic": StringType(),
    "partition": IntegerType(),
    "timestamp": TimestampType(),
    "headers": ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
}


def _written_in_batches(columns: dict[str, pa.Array], **options: str) -> Written:
    """The rows twice, in a batch each; those of the first are all right, being none but the first ones."""
    schema = StructType([StructField("value", BinaryType())] + [StructField(n, _COLUMNS[n]) for n in columns])
    batch = pa.RecordBatch.from_arrays([_V, *columns.values()], names=["value", *columns])
    given = {"kafka.bootstrap.servers": "h:1", **options}
    writer = QuorateWriter(write_options(given, is_streaming=False), schema)
    written = writer.write(iter([batch.slice(0, 1), batch]))
    assert isinstance(written, Written)
    return written


@pytest.mark.usefixtures("producer")
@pytest.mark.parametrize(
    ("columns", "options", "said", "place"),
    [
        (
            {"topic": pa.array(["orders", "orders", None])},
            {},
            "^row 3 of the task: a row has no topic",
            (None, None, 3),
        ),
        (
            {"timestamp": pa.array([0, 0, None], _UTC)},
            {"topic": "orders", "includeTimestamp": "true"},
            "^orders, row 3 of the task: a row has no timestamp",
            ("orders", None, 3),
        ),
        (
            {"headers": pa.array([[], [{"key": "a", "value": b"1"}, None], []], pa.list_(_PAIR))},
            {"topic": "orders"},
            "^orders, row 2 of the task: a row has a header that is null",
            ("orders", None, 2),
        ),
        (
            {"headers": pa.array([[], [], [{"key": None, "value": b"1"}]], pa.list_(_PAIR))},
            {"topic": "orders"},
            "^orders, row 3 of the task: a row has a header without a key",
            ("orders", None, 3),
        ),
        (
            {
                "topic": pa.array(["orders", "bills", "orders"]),
                "partition": pa.array([2, 1, 7], pa.int32()),
                "timestamp": pa.array([0, 0, None], _UTC),
            },
            {"includeTimestamp": "true"},
            "^orders-7, row 3 of the task: a row has no timestamp",
            ("orders", 7, 3),
        ),
    ],
)
def test_a_row_that_cannot_be_written_is_told_with_its_place(
    columns: dict[str, pa.Array], options: dict[str, str], said: str, place: tuple[Any, ...]
) -> None:
    with pytest.raises(InvalidRecord, match=said) as caught:
        _written_in_batches(columns, **options)
    assert tuple(caught.value.facts[each] for each in ("topic", "partition", "row")) == place


def test_a_record_that_is_not_delivered_is_told_with_its_place(producer: _Producer) -> None:
    producer.error, producer.refused = DeliveryTimedOut("too late", partition=3), 2
    with pytest.raises(DeliveryTimedOut, match=r"^orders-3, row 2 of the task: too late") as caught:
        _write()
    assert caught.value.facts == {"topic": "orders", "partition": 3, "row": 2}


def test_a_record_among_rows_that_go_elsewhere_is_told_with_its_own_number(producer: _Producer) -> None:
    producer.error, producer.refused = DeliveryTimedOut("too late", partition=5), 1
    rows = {"topic": pa.array(["orders", "bills", "orders"]), "partition": pa.array([5, 0, 5], pa.int32())}
    schema = StructType([StructField("value", BinaryType())] + [StructField(n, _COLUMNS[n]) for n in rows])
    batch = pa.RecordBatch.from_arrays([_V, *rows.values()], names=["value", *rows])
    options = write_options({"kafka.bootstrap.servers": "h:1"}, is_streaming=False)
    with pytest.raises(DeliveryTimedOut, match=r"^orders-5, row 2 of the task: too late"):
        QuorateWriter(options, schema).write(iter([batch]))


def test_a_record_that_is_not_even_sent_is_told_with_its_place(producer: _Producer) -> None:
    producer.refusal = BufferExhausted("no room")
    # Of many that go in one call nobody says which one it is.
    with pytest.raises(BufferExhausted, match=r"^orders, rows 0 to 999 of the task: no room") as of_many:
        _write()
    assert of_many.value.facts == {"topic": "orders", "partition": None, "row": 0, "last_row": 999}
    producer.refused = 17
    with pytest.raises(BufferExhausted, match=r"^orders, row 17 of the task: no room") as caught:
        _write(includeTimestamp="true")
    assert caught.value.facts == {"topic": "orders", "partition": None, "row": 17}


def test_a_place_that_an_error_has_said_itself_is_not_said_twice() -> None:
    error = at_row(InvalidRecord("orders-3: too large"), topic="orders", partition=3, row=9)
    assert error.message == "orders-3, row 9 of the task: too large"


def test_a_mistake_of_our_own_says_which_rows_it_was_about(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(client, "Producer", lambda *_, **__: _Producer())
    monkeypatch.setattr(connection, "connection_to", lambda _: None)
    monkeypatch.setattr(_Producer, "send_many", broken)
    with pytest.raises(ZeroDivisionError) as caught:
        _written_in_batches({"partition": pa.array([0, 0, 0], pa.int32())}, topic="orders")
    assert caught.value.__notes__ == ["while handling rows 0 to 1 (exclusive) of the task"]
