"""Record batches as they lie in the log, turned into the Arrow batches that Spark takes.

The codec decodes a whole batch into columns; no record ever is a Python object. The columns are those of
Spark's Kafka source, in its order: key, value, topic, partition, offset, timestamp, timestampType, headers.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
import pyarrow.compute as pc  # type: ignore[import-untyped]

from quorate.core.records import (
    DECOMPRESSED_BYTES_MAX_DEFAULT,
    TimestampType,
    batch_to_arrow,
    parse_header,
)
from quorate.errors import InvalidRecord, QuorateError
from quorate.pipeline.source.errors import located, noting
from quorate.pipeline.source.ranges import OffsetRange

__all__ = ["ArrowRows"]

#: Rows are handed to Spark in batches of about so many: each costs both sides a little.
_ROWS_MAX: Final = 16_384
_BYTES_MAX: Final = 8 << 20

#: A batch of the largest size that a broker accepts may have been compressed to a fraction of it.
_DECOMPRESSED_BYTES_MAX: Final = 4 * DECOMPRESSED_BYTES_MAX_DEFAULT

_TIMESTAMP: Final = pa.timestamp("us", tz="UTC")


class ArrowRows:
    """Makes the rows of one range. `schema` is what Spark wants, whichever columns that are."""

    def __init__(self, wanted: OffsetRange, schema: pa.Schema) -> None:
        self._range = wanted
        self._schema = schema
        self._has_headers = "headers" in schema.names
        #: columns that have the same value in every row, by name and value: made once, and sliced
        self._constants: dict[tuple[str, int | str], pa.Array] = {}
        #: of what is looked at, for messages
        self._offset = wanted.start

    def of_chunk(self, batches: bytes) -> Iterator[pa.RecordBatch]:
        """Whole record batches one after another; rows outside of the range are left out.

        Raises with topic, partition and offset.
        """
        with noting(lambda: f"{self._range.topic}-{self._range.partition} at offset {self._offset}"):
            try:
                yield from self._of_chunk(batches)
            except (QuorateError, pa.ArrowInvalid) as error:
                fault = (
                    error if isinstance(error, QuorateError) else InvalidRecord(f"it makes no row: {error}")
                )
                raise located(
                    fault, topic=self._range.topic, partition=self._range.partition, offset=self._offset
                ) from error

    def _of_chunk(self, batches: bytes) -> Iterator[pa.RecordBatch]:
        gathered: list[pa.RecordBatch] = []
        rows = size = 0
        gathered_type = TimestampType.CREATE_TIME
        position = 0
        while position < len(batches):
            header = parse_header(batches, position)
            start, position = position, position + header.size_in_bytes
            if header.is_control or header.next_offset <= self._range.start:
                continue
            if header.base_offset >= self._range.end:
                break
            self._offset = header.base_offset
            decoded = self._within(self._decoded(batches, start))
            if gathered and (
                header.timestamp_type != gathered_type
                or rows + decoded.num_rows > _ROWS_MAX
                or size + decoded.nbytes > _BYTES_MAX
            ):
                yield self._rows(gathered, gathered_type)
                gathered, rows, size = [], 0, 0
            if decoded.num_rows:
                gathered.append(decoded)
                gathered_type = header.timestamp_type
                rows += decoded.num_rows
                size += decoded.nbytes
        if gathered:
            yield self._rows(gathered, gathered_type)

    def _decoded(self, batches: bytes, start: int) -> pa.RecordBatch:
        return batch_to_arrow(
            batches, start, headers=self._has_headers, decompressed_bytes_max=_DECOMPRESSED_BYTES_MAX
        )

    def _within(self, decoded: pa.RecordBatch) -> pa.RecordBatch:
        offsets = decoded.column(0)
        count = len(offsets)
        if not count or (
            offsets[0].as_py() >= self._range.start and offsets[count - 1].as_py() < self._range.end
        ):
            return decoded
        # In a compacted log offsets have gaps, so the place of one is looked for.
        first = bisect_left(cast("Sequence[int]", _Offsets(offsets)), self._range.start)
        end = bisect_left(cast("Sequence[int]", _Offsets(offsets)), self._range.end)
        return decoded.slice(first, end - first)

    def _rows(self, gathered: list[pa.RecordBatch], timestamp_type: TimestampType) -> pa.RecordBatch:
        arrays = [self._column(field, gathered, timestamp_type) for field in self._schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _column(
        self, field: pa.Field, gathered: list[pa.RecordBatch], timestamp_type: TimestampType
    ) -> pa.Array:
        match field.name:
            case "topic":
                return self._constant("topic", self._range.topic, pa.string(), gathered)
            case "partition":
                return self._constant("partition", self._range.partition, pa.int32(), gathered)
            case "timestampType":
                return self._constant("timestampType", int(timestamp_type), pa.int32(), gathered)
            case "timestamp":
                return _joined(gathered, "timestamp").cast(_TIMESTAMP)
            case "headers":
                return _null_where_empty(_joined(gathered, "headers")).cast(field.type)
            case name:
                return _joined(gathered, name)

    def _constant(
        self, name: str, value: int | str, kind: pa.DataType, gathered: list[pa.RecordBatch]
    ) -> pa.Array:
        count = sum(each.num_rows for each in gathered)
        found = self._constants.get((name, value))
        if found is None or len(found) < count:
            rows = max(count, _ROWS_MAX)
            found = self._constants[name, value] = pa.repeat(pa.scalar(value, kind), rows)
        return found.slice(0, count)


class _Offsets:
    """A column of offsets as `bisect` wants it, without a list of all of them."""

    def __init__(self, column: pa.Array) -> None:
        self._column = column

    def __len__(self) -> int:
        return len(self._column)

    def __getitem__(self, index: int) -> int:
        return cast("int", self._column[index].as_py())


def _joined(gathered: list[pa.RecordBatch], name: str) -> Any:
    if len(gathered) == 1:
        return gathered[0].column(name)
    return pa.concat_arrays([each.column(name) for each in gathered])


def _null_where_empty(headers: pa.Array) -> pa.Array:
    """A record without headers has null, as with Spark's Kafka source."""
    return pc.if_else(pc.equal(pc.list_value_length(headers), 0), pa.scalar(None, headers.type), headers)
