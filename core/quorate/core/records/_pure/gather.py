"""Records on their way into a batch, as columns: what they take, where they go, and how they are put in.

The batch of a producer is filled record by record, or by many at a time. Either way this is all that is done
for each record before it is encoded, so it is compiled where it can be.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sized
from itertools import accumulate, repeat
from operator import add
from threading import Lock
from typing import Any, Final, TypeVar

from quorate.core.records import faults
from quorate.core.records._pure.key_hash import partitions_for_keys
from quorate.core.records.columns import check_lengths
from quorate.core.records.format import RECORD_OVERHEAD_BYTES, EncodableHeaders

__all__ = [
    "Budget",
    "ColumnBuilder",
    "Intake",
    "are_plain_fields",
    "picked",
    "record_bytes",
    "record_ends",
    "rows_by_partition",
]

Made = TypeVar("Made")

_NONE_TYPE: Final = type(None)
_PLAIN: Final = {bytes, _NONE_TYPE}


def record_bytes(value: bytes | None, key: bytes | None, headers: EncodableHeaders | None) -> int:
    """What a record takes in a batch, about, and never less."""
    size = RECORD_OVERHEAD_BYTES
    if value is not None:
        size += len(value)
    if key is not None:
        size += len(key)
    if headers:
        for name, content in headers:
            size += RECORD_OVERHEAD_BYTES + 4 * len(name) + (0 if content is None else len(content))
    return size


def record_ends(
    values: list[bytes | None], keys: list[bytes | None] | None, headers: list[EncodableHeaders] | None
) -> array[int]:
    """``[i]``: the `record_bytes` of records 0 to i together."""
    check_lengths(len(values), 0, None, keys, headers)
    if headers is None and None not in values and (keys is None or None not in keys):
        # In one pass of the interpreter's own loops.
        sizes: Iterable[int] = map(RECORD_OVERHEAD_BYTES.__add__, map(len, values))  # type: ignore[arg-type]
        if keys is not None:
            sizes = map(add, sizes, map(len, keys))  # type: ignore[arg-type]
    else:
        nothing: list[None] = [None] * len(values)
        sizes = map(record_bytes, values, keys or nothing, headers or nothing)
    return array("q", accumulate(sizes))


def are_plain_fields(column: list[Any]) -> bool:
    """Whether every one is bytes, and of no derived class, or None: then nothing has to be converted."""
    return set(map(type, column)) <= _PLAIN


def rows_by_partition(keys: list[bytes | None], partition_count: int) -> dict[int, list[int]]:
    """The rows of each partition that the keys choose, in order; -1 for those whose key is None."""
    rows: dict[int, list[int]] = {}
    for row, partition in enumerate(partitions_for_keys(keys, partition_count)):
        rows.setdefault(partition, []).append(row)
    return rows


def picked(column: list[Any], rows: list[int]) -> list[Any]:
    """The items of these rows, which are counted from 0. Raises IndexError."""
    if rows and min(rows) < 0:
        raise faults.no_such_rows(min(rows), min(rows) + 1, len(column))
    return [column[row] for row in rows]


class ColumnBuilder:
    """The records of a batch that is being filled, by one thread at a time: that is its owner's business."""

    __slots__ = ("bytes", "bytes_max", "headers", "keys", "timestamps", "values")

    def __init__(self) -> None:
        #: about, as its owner counts them
        self.bytes = 0
        #: up to here it takes records of a value alone; 0: it takes none
        self.bytes_max = 0
        self.values: list[bytes | None] = []
        #: None: no record has a key
        self.keys: list[bytes | None] | None = None
        #: None: no record has headers
        self.headers: list[EncodableHeaders] | None = None
        self.timestamps: list[int] = []

    def append(
        self, value: bytes | None, key: bytes | None, headers: EncodableHeaders | None, timestamp_ms: int
    ) -> int:
        """Its place among the records of the batch."""
        place = len(self.timestamps)
        self.timestamps.append(timestamp_ms)
        self.values.append(value)
        if self.keys is not None:
            self.keys.append(key)
        elif key is not None:
            self.keys = [None] * place
            self.keys.append(key)
        if self.headers is not None:
            self.headers.append(headers or ())
        elif headers:
            self.headers = [()] * place
            self.headers.append(headers)
        return place

    def extend(
        self,
        values: list[bytes | None],
        keys: list[bytes | None] | None,
        headers: list[EncodableHeaders] | None,
        timestamp_ms: int,
        start: int,
        end: int,
    ) -> int:
        """Rows from ``start`` to ``end``, exclusive; the place of the first. Raises IndexError."""
        for column in (values, keys, headers):
            if column is not None and not 0 <= start <= end <= len(column):
                raise faults.no_such_rows(start, end, len(column))
        place, count = len(self.timestamps), end - start
        self.timestamps.extend(repeat(timestamp_ms, count))
        self.values.extend(values[start:end])
        if keys is not None or self.keys is not None:
            if self.keys is None:
                self.keys = [None] * place
            self.keys.extend(repeat(None, count) if keys is None else keys[start:end])
        if headers is not None or self.headers is not None:
            if self.headers is None:
                self.headers = [()] * place
            self.headers.extend(repeat((), count) if headers is None else headers[start:end])
        return place

    def drop_fields(self) -> None:
        """Only when each record was made stays known: the rest is encoded by now, or of no use any more."""
        self.values, self.keys, self.headers = [], None, None


class Budget:
    """Bytes that may be used at once, and who waits for some."""

    __slots__ = ("bytes_max", "used", "waiting")

    def __init__(self) -> None:
        self.used = 0
        self.bytes_max = 0
        #: while it is not empty, nobody takes any without having waited
        self.waiting: Sized = ()


class Intake:
    """The batch that takes records of a value alone, of one topic: what a record needs to get into it.

    All of it is under ``lock``. Its owner says which batch it is (``batch``, ``columns``), and closes it by
    its ``bytes_max``; whatever does not fit is the owner's business.
    """

    __slots__ = ("_budget", "_lock", "batch", "bytes_left", "columns")

    def __init__(self, budget: Budget, lock: Lock) -> None:
        #: before it is another partition's turn
        self.bytes_left = -1
        #: what ``made`` is told of
        self.batch: Any = None
        #: None: there is none
        self.columns: ColumnBuilder | None = None
        self._budget = budget
        self._lock = lock

    def place(self, value: bytes, timestamp_ms: int, made: Callable[[Any, int], Made]) -> Made | None:
        """``made(batch, its place in it)``; None: it does not fit, and nothing was done."""
        size = RECORD_OVERHEAD_BYTES + len(value)
        budget = self._budget
        with self._lock:
            columns = self.columns
            if (
                columns is None
                or size > self.bytes_left
                or columns.bytes + size > columns.bytes_max
                or budget.used + size > budget.bytes_max
                or budget.waiting
            ):
                return None
            index = columns.append(value, None, None, timestamp_ms)
            self.bytes_left -= size
            columns.bytes += size
            budget.used += size
            batch = self.batch
        return made(batch, index)
