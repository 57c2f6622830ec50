"""Rows on their way out: which columns they have, and which topic and partition they go to.

Each keeps its number in the task, from 0, however rows are put together: nothing else says of a row that
cannot be written which one it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
import pyarrow.compute as pc  # type: ignore[import-untyped]
from pyspark.sql.types import StructType

from quorate.errors import InvalidConfig, InvalidRecord, QuorateError
from quorate.pipeline.source.errors import at_row
from quorate.pipeline.source.write_options import WriteOptions

__all__ = ["Columns", "OutgoingRows", "Place"]

_BYTES: Final = ("binary", "string")
#: what each column may be; others are none of our business, as for Spark's Kafka sink
_ACCEPTED: Final = {
    "value": _BYTES,
    "key": _BYTES,
    "headers": ("array<struct<key:string,value:binary>>",),
    "topic": ("string",),
    "partition": ("int",),
    "timestamp": ("timestamp",),
}

#: as `send_many` takes them, and perhaps `timestamps` and `partitions`, which it has no columns for
Columns = dict[str, Any]


class _Numbers(NamedTuple):
    """Of some rows, in their order: which ones of the task they are."""

    #: of the first one of the Arrow batch that they were picked from
    first_row: int
    #: which ones of that batch they are; None: all
    picked: pa.Array | None = None

    def of(self, index: int) -> int:
        return self.first_row + (index if self.picked is None else int(self.picked[index].as_py()))

    def where(self, mask: pa.Array) -> _Numbers:
        # A mask is null where the column is, and that picks nothing.
        picked = pc.indices_nonzero(mask) if self.picked is None else self.picked.filter(mask)
        return _Numbers(self.first_row, picked)


class _Rows(NamedTuple):
    batch: pa.RecordBatch
    numbers: _Numbers

    def column(self, name: str) -> pa.Array:
        return self.batch.column(name)

    def where(self, mask: pa.Array) -> _Rows:
        return _Rows(self.batch.filter(mask), self.numbers.where(mask))


class Place(NamedTuple):
    """Where some rows go, and which ones they are. Kept until they are written: nothing of what they hold."""

    topic: str
    #: None: by the key, or as the next field says
    partition: int | None
    numbers: _Numbers
    #: of each row, where they differ
    partitions: list[int | None] | None = None

    def told(self, error: QuorateError, index: int) -> QuorateError:
        """The error of one of them, with its place."""
        partition = self.partition if self.partitions is None else self.partitions[index]
        return at_row(
            error, topic=self.topic, partition=_said_by(error, partition), row=self.numbers.of(index)
        )

    def told_of_any(self, error: QuorateError, count: int) -> QuorateError:
        """The error of one of them, and it is not known of which; ``count``: how many they are."""
        return at_row(
            error,
            topic=self.topic,
            partition=_said_by(error, self.partition),
            row=self.numbers.of(0),
            last_row=self.numbers.of(count - 1),
        )


class OutgoingRows:
    """Raises InvalidConfig where the columns are not those that can be written."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self._options = options
        types = {field.name: field.dataType.simpleString() for field in schema.fields}
        for name, accepted in _ACCEPTED.items():
            if name in types and types[name] not in accepted and self._is_used(name):
                raise InvalidConfig(
                    f"column {name} is {types[name]}; it has to be {' or '.join(accepted)}", key=name
                )
        if "value" not in types:
            raise InvalidConfig("there is no column value, which holds what is written", key="value")
        if options.topic is None and "topic" not in types:
            raise InvalidConfig(
                "neither the option topic nor a column topic says where to write", key="topic"
            )
        if options.keeps_timestamps and "timestamp" not in types:
            raise InvalidConfig(
                "option includeTimestamp: there is no column timestamp", key="includeTimestamp"
            )
        self._columns = frozenset(types)

    def _is_used(self, name: str) -> bool:
        if name == "timestamp":
            return self._options.keeps_timestamps
        return not (name == "topic" and self._options.topic is not None)

    def of(self, batch: pa.RecordBatch, *, first_row: int) -> Iterator[tuple[Place, Columns]]:
        """``first_row``: the number of its first row in the task. Raises with topic, partition and row.

        Rows that go to the same partition stay in their order. Where some rows name their partition and
        others have a key for that, who goes where is the producer's to say, so these stay together.
        """
        if not batch.num_rows:
            return
        for topic, of_topic in self._by_topic(_Rows(batch, _Numbers(first_row))):
            if self._is_mixed(of_topic.batch):
                partitions = of_topic.column("partition").to_pylist()
                place = Place(topic, None, of_topic.numbers, partitions)
                yield place, {**self._sendable(of_topic, place), "partitions": partitions}
                continue
            for partition, rows in self._by_partition(of_topic):
                place = Place(topic, partition, rows.numbers)
                yield place, self._sendable(rows, place)

    def _is_mixed(self, batch: pa.RecordBatch) -> bool:
        return "partition" in self._columns and 0 < batch.column("partition").null_count < batch.num_rows

    def _by_topic(self, rows: _Rows) -> Iterator[tuple[str, _Rows]]:
        if self._options.topic is not None:
            yield self._options.topic, rows
            return
        for topic, of_topic in _groups(rows, "topic"):
            if topic is None:
                refused = InvalidRecord(
                    "a row has no topic: its column topic is null, and the option topic not given"
                )
                raise at_row(refused, topic=None, partition=None, row=of_topic.numbers.of(0))
            yield topic, of_topic

    def _by_partition(self, rows: _Rows) -> Iterator[tuple[int | None, _Rows]]:
        if "partition" not in self._columns:
            yield None, rows
            return
        yield from _groups(rows, "partition")

    def _sendable(self, rows: _Rows, place: Place) -> Columns:
        columns: Columns = {"values": _byte_strings(rows.column("value"))}
        if "key" in self._columns:
            keys = rows.column("key")
            if keys.null_count < len(keys):
                columns["keys"] = _byte_strings(keys)
        if "headers" in self._columns:
            headers = rows.column("headers")
            if headers.null_count < len(headers):
                columns["headers"] = [
                    _headers(each, place, index) for index, each in enumerate(headers.to_pylist())
                ]
        if self._options.keeps_timestamps:
            columns["timestamps"] = _milliseconds(rows.column("timestamp"), place)
        return columns


def _said_by(error: QuorateError, partition: int | None) -> int | None:
    """An error knows it where the key has decided."""
    said = error.facts.get("partition")
    return said if isinstance(said, int) else partition


def _groups(rows: _Rows, column: str) -> Iterator[tuple[Any, _Rows]]:
    """The rows with each value of the column, in their order."""
    found = rows.column(column)
    values = pc.unique(found).to_pylist()
    if len(values) == 1:
        yield values[0], rows
        return
    for value in values:
        is_one = pc.is_null(found) if value is None else pc.equal(found, value)
        yield value, rows.where(is_one)


def _byte_strings(column: pa.Array) -> list[bytes | None]:
    found: list[bytes | None] = column.cast(pa.binary()).to_pylist()
    return found


def _headers(found: list[dict[str, Any]] | None, place: Place, index: int) -> list[tuple[str, bytes | None]]:
    headers = []
    for each in found or ():
        if each is None:
            why = "a row has a header that is null: it has to have a key, and may have a value"
            raise place.told(InvalidRecord(why), index)
        if each["key"] is None:
            raise place.told(InvalidRecord("a row has a header without a key"), index)
        headers.append((each["key"], each["value"]))
    return headers


def _milliseconds(column: pa.Array, place: Place) -> list[int]:
    if column.null_count:
        why = "a row has no timestamp, and includeTimestamp asks for one in every row"
        raise place.told(InvalidRecord(why), pc.index(column.is_null(), value=True).as_py())
    found: list[int] = pc.floor_temporal(column, unit="millisecond").cast(pa.int64()).to_pylist()
    return [each // 1000 for each in found]
