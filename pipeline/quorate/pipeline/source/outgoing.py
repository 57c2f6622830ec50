"""Rows on their way out: which columns they have, and which topic and partition they go to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
import pyarrow.compute as pc  # type: ignore[import-untyped]
from pyspark.sql.types import StructType

from quorate.errors import InvalidConfig, InvalidRecord
from quorate.pipeline.source.write_options import WriteOptions

__all__ = ["Columns", "OutgoingRows"]

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

    def of(self, batch: pa.RecordBatch) -> Iterator[tuple[str, int | None, Columns]]:
        """Topic, partition (None: by the key, or as the columns say) and the columns.

        Rows that go to the same partition stay in their order. Where some rows name their partition and
        others have a key for that, who goes where is the producer's to say, so these stay together.
        """
        if not batch.num_rows:
            return
        for topic, of_topic in self._by_topic(batch):
            if self._is_mixed(of_topic):
                partitions = of_topic.column("partition").to_pylist()
                yield topic, None, {**self._sendable(of_topic), "partitions": partitions}
                continue
            for partition, rows in self._by_partition(of_topic):
                yield topic, partition, self._sendable(rows)

    def _is_mixed(self, batch: pa.RecordBatch) -> bool:
        return "partition" in self._columns and 0 < batch.column("partition").null_count < batch.num_rows

    def _by_topic(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        if self._options.topic is not None:
            yield self._options.topic, batch
            return
        for topic, rows in _groups(batch, "topic"):
            if topic is None:
                raise InvalidRecord(
                    "a row has no topic: its column topic is null, and the option topic not given"
                )
            yield topic, rows

    def _by_partition(self, batch: pa.RecordBatch) -> Iterator[tuple[int | None, pa.RecordBatch]]:
        if "partition" not in self._columns:
            yield None, batch
            return
        yield from _groups(batch, "partition")

    def _sendable(self, rows: pa.RecordBatch) -> Columns:
        columns: Columns = {"values": _byte_strings(rows.column("value"))}
        if "key" in self._columns:
            keys = rows.column("key")
            if keys.null_count < len(keys):
                columns["keys"] = _byte_strings(keys)
        if "headers" in self._columns:
            headers = rows.column("headers")
            if headers.null_count < len(headers):
                columns["headers"] = [_headers(each) for each in headers.to_pylist()]
        if self._options.keeps_timestamps:
            columns["timestamps"] = _milliseconds(rows.column("timestamp"))
        return columns


def _groups(batch: pa.RecordBatch, column: str) -> Iterator[tuple[Any, pa.RecordBatch]]:
    """The rows with each value of the column, in their order."""
    found = batch.column(column)
    values = pc.unique(found).to_pylist()
    if len(values) == 1:
        yield values[0], batch
        return
    for value in values:
        is_one = pc.is_null(found) if value is None else pc.equal(found, value)
        yield value, batch.filter(is_one)


def _byte_strings(column: pa.Array) -> list[bytes | None]:
    found: list[bytes | None] = column.cast(pa.binary()).to_pylist()
    return found


def _headers(found: list[dict[str, Any]] | None) -> list[tuple[str, bytes | None]]:
    if found is not None and None in found:
        raise InvalidRecord("a row has a header that is null: it has to have a key, and may have a value")
    return [(each["key"], each["value"]) for each in found or ()]


def _milliseconds(column: pa.Array) -> list[int]:
    if column.null_count:
        raise InvalidRecord("a row has no timestamp, and includeTimestamp asks for one in every row")
    found: list[int] = pc.floor_temporal(column, unit="millisecond").cast(pa.int64()).to_pylist()
    return [each // 1000 for each in found]
