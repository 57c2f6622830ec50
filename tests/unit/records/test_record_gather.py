"""Records on their way into a batch: both implementations measure, sort and put them in alike."""

from __future__ import annotations

import threading
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.core.records import _pure as pure
from quorate.core.records import encode_values
from quorate.errors import InvalidRecord
from tests.unit.records.implementations import BOTH

FIELDS = st.none() | st.binary(max_size=300)
HEADERS = st.lists(st.tuples(st.text(max_size=10), FIELDS), max_size=3).map(tuple)
ROWS = st.lists(st.tuples(FIELDS, FIELDS, HEADERS), max_size=30)
#: what is put into a batch at once: alone, or many with or without keys and headers
STEPS = st.lists(
    st.tuples(st.sampled_from(["append", "extend"]), ROWS, st.booleans(), st.booleans(), st.integers(0, 9)),
    max_size=6,
)


class Bytes(bytes):
    """Of a derived class: its bytes are taken as they are."""


def columns_of(rows: list[Any], *, has_keys: bool, has_headers: bool) -> tuple[Any, Any, Any]:
    return (
        [row[0] for row in rows],
        [row[1] for row in rows] if has_keys else None,
        [row[2] for row in rows] if has_headers else None,
    )


def filled(codec: ModuleType, steps: list[Any]) -> tuple[Any, ...]:
    builder = codec.ColumnBuilder()
    places = []
    for how, rows, has_keys, has_headers, timestamp in steps:
        values, keys, headers = columns_of(rows, has_keys=has_keys, has_headers=has_headers)
        if how == "extend":
            start = min(timestamp, len(values))
            places.append(builder.extend(values, keys, headers, timestamp, start, len(values)))
            continue
        for row, value in enumerate(values):
            key = None if keys is None else keys[row]
            places.append(builder.append(value, key, None if headers is None else headers[row], timestamp))
    return places, builder.values, builder.keys, builder.headers, builder.timestamps


@given(steps=STEPS)
def test_both_fill_a_batch_with_the_same_records(steps: list[Any]) -> None:
    outcomes = [filled(codec, steps) for codec in BOTH]
    assert outcomes == [outcomes[0]] * len(BOTH)


@given(steps=STEPS)
def test_columns_are_always_equally_long(steps: list[Any]) -> None:
    for codec in BOTH:
        _, values, keys, headers, timestamps = filled(codec, steps)
        lengths = {len(column) for column in (values, keys, headers, timestamps) if column is not None}
        assert len(lengths) == 1


@given(rows=ROWS.filter(bool), timestamp=st.integers(0, 9))
def test_many_at_once_make_the_bytes_that_one_by_one_make(rows: list[Any], timestamp: int) -> None:
    values, keys, headers = columns_of(rows, has_keys=True, has_headers=True)
    for codec in BOTH:
        together, alone = codec.ColumnBuilder(), codec.ColumnBuilder()
        together.extend(values, keys, headers, timestamp, 0, len(values))
        for value, key, pairs in rows:
            alone.append(value, key, pairs, timestamp)
        encoded = [
            encode_values(
                builder.values, keys=builder.keys, headers=builder.headers, timestamps=builder.timestamps
            )
            for builder in (together, alone)
        ]
        assert encoded[0] == encoded[1]


@given(rows=ROWS, has_keys=st.booleans(), has_headers=st.booleans())
def test_both_measure_records_alike(rows: list[Any], has_keys: bool, has_headers: bool) -> None:
    columns = columns_of(rows, has_keys=has_keys, has_headers=has_headers)
    ends = [codec.record_ends(*columns) for codec in BOTH]
    assert ends == [ends[0]] * len(BOTH)
    total = 0
    for row, (value, key, headers) in enumerate(rows):
        sizes = {
            codec.record_bytes(value, key if has_keys else None, headers if has_headers else None)
            for codec in BOTH
        }
        assert len(sizes) == 1
        total += sizes.pop()
        assert ends[0][row] == total


@given(rows=ROWS.filter(bool))
def test_record_never_takes_more_than_it_is_measured_as(rows: list[Any]) -> None:
    values, keys, headers = columns_of(rows, has_keys=True, has_headers=True)
    batch = encode_values(values, keys=keys, headers=headers, timestamp_ms=1)
    assert len(batch) - 61 <= pure.record_ends(values, keys, headers)[-1]


@given(keys=st.lists(st.none() | st.binary(max_size=20), max_size=50), count=st.integers(1, 9))
def test_rows_go_where_their_keys_say_and_keep_their_order(keys: list[bytes | None], count: int) -> None:
    groups = [list(codec.rows_by_partition(keys, count).items()) for codec in BOTH]
    assert groups == [groups[0]] * len(BOTH)
    chosen = pure.partitions_for_keys(keys, count)
    for partition, rows in groups[0]:
        assert rows == [row for row, found in enumerate(chosen) if found == partition]
        for codec in BOTH:
            assert codec.picked(keys, rows) == [keys[row] for row in rows]


@given(key=st.binary(max_size=40), count=st.integers(1, 2**31 - 1))
def test_one_key_goes_where_many_would_send_it(key: bytes, count: int) -> None:
    for codec in BOTH:
        assert codec.partition_for_key(key, count) == pure.partitions_for_keys([key], count)[0]


@pytest.mark.parametrize(
    ("column", "is_plain"),
    [
        ([], True),
        ([b"a", None], True),
        ([b"a", Bytes(b"b")], False),
        ([b"a", "b"], False),
        ([bytearray(b"a")], False),
    ],
)
def test_only_bytes_themselves_and_none_need_no_conversion(
    codec: ModuleType, column: list[Any], is_plain: bool
) -> None:
    assert codec.are_plain_fields(column) is is_plain


def test_bytes_of_a_derived_class_are_measured_and_put_in(codec: ModuleType) -> None:
    builder = codec.ColumnBuilder()
    builder.append(Bytes(b"12345"), Bytes(b"k"), None, 1)
    assert (builder.values, builder.keys) == ([b"12345"], [b"k"])
    assert codec.record_bytes(Bytes(b"12345"), None, None) == codec.record_bytes(b"12345", None, None)
    assert list(codec.record_ends([Bytes(b"12345")], None, None)) == [
        codec.record_bytes(b"12345", None, None)
    ]


def test_columns_of_different_length_are_refused(codec: ModuleType) -> None:
    with pytest.raises(InvalidRecord, match="1 keys for 2 values"):
        codec.record_ends([b"a", b"b"], [b"k"], None)


@pytest.mark.parametrize(("start", "end"), [(-1, 1), (0, 3), (2, 1), (3, 3)])
def test_rows_that_are_not_there_cannot_be_put_in(codec: ModuleType, start: int, end: int) -> None:
    builder = codec.ColumnBuilder()
    with pytest.raises(IndexError):
        builder.extend([b"a", b"b"], None, None, 1, start, end)
    assert builder.timestamps == []


@pytest.mark.parametrize("row", [-1, 2])
def test_row_that_is_not_there_cannot_be_picked(codec: ModuleType, row: int) -> None:
    with pytest.raises(IndexError):
        codec.picked([b"a", b"b"], [0, row])


def test_what_was_dropped_leaves_the_timestamps(codec: ModuleType) -> None:
    builder = codec.ColumnBuilder()
    builder.extend([b"a", b"b"], [b"k", None], [(), (("h", b"v"),)], 7, 0, 2)
    builder.drop_fields()
    assert (builder.values, builder.keys, builder.headers) == ([], None, None)
    assert builder.timestamps == [7, 7]


def intake(
    codec: ModuleType, *, bytes_left: int = 1_000, bytes_max: int = 1_000, budget_max: int = 1_000
) -> Any:
    budget = codec.Budget()
    budget.bytes_max, budget.waiting = budget_max, []
    made = codec.Intake(budget, threading.Lock())
    made.batch, made.columns, made.bytes_left = "batch", codec.ColumnBuilder(), bytes_left
    made.columns.bytes_max = bytes_max
    return made, budget


def placed(made: Any, value: bytes) -> Any:
    return made.place(value, 5, lambda batch, place: (batch, place))


@pytest.mark.parametrize("codec", BOTH)
def test_value_is_placed_and_counted_everywhere(codec: ModuleType) -> None:
    made, budget = intake(codec)
    assert [placed(made, b"abc"), placed(made, b"")] == [("batch", 0), ("batch", 1)]
    assert made.columns.values == [b"abc", b""]
    assert made.columns.timestamps == [5, 5]
    assert (made.columns.bytes, budget.used, made.bytes_left) == (35, 35, 965)


@pytest.mark.parametrize("codec", BOTH)
@pytest.mark.parametrize("bound", ["bytes_left", "bytes_max", "budget_max"])
def test_value_that_does_not_fit_leaves_no_trace(codec: ModuleType, bound: str) -> None:
    made, budget = intake(codec, **{bound: 20})
    assert placed(made, b"12345") is None
    assert (made.columns.values, made.columns.bytes, budget.used) == ([], 0, 0)
    assert placed(made, b"1234") == ("batch", 0)
    assert placed(made, b"") is None


@pytest.mark.parametrize("codec", BOTH)
def test_nobody_overtakes_who_waits_for_room(codec: ModuleType) -> None:
    made, budget = intake(codec)
    budget.waiting.append("somebody")
    assert placed(made, b"") is None
    budget.waiting.clear()
    assert placed(made, b"") == ("batch", 0)
    made.columns = None
    assert placed(made, b"") is None


@pytest.mark.parametrize("codec", BOTH)
def test_lock_is_free_after_a_value_was_placed_or_not(codec: ModuleType) -> None:
    lock = threading.Lock()
    budget = codec.Budget()
    budget.waiting = []
    made = codec.Intake(budget, lock)
    assert placed(made, b"") is None
    assert not lock.locked()
    with pytest.raises(TypeError):
        made.place(None, 5, tuple)
    assert not lock.locked()
