"""A batch as an Arrow record batch, in one call and without a Python object for any record."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from quorate.core.records.codec import decode_columns
from quorate.core.records.columns import BinaryColumn, HeaderColumns
from quorate.core.records.format import DECOMPRESSED_BYTES_MAX_DEFAULT, Buffer
from quorate.errors import MissingExtra

if TYPE_CHECKING:
    import pyarrow  # type: ignore[import-untyped]  # it ships no types

__all__ = ["arrow_schema", "batch_to_arrow"]


def batch_to_arrow(
    buffer: Buffer,
    position: int = 0,
    *,
    headers: bool = False,
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX_DEFAULT,
) -> pyarrow.RecordBatch:
    """The batch at `position` with the columns of `arrow_schema`; checked as by `decode_batch`.

    Raises CorruptBatch, UnsupportedBatch or BatchTooLarge; MissingExtra without pyarrow.
    """
    pa = _pyarrow()
    columns = decode_columns(buffer, position, headers=headers, decompressed_bytes_max=decompressed_bytes_max)
    count = columns.record_count
    schema = arrow_schema(headers=headers)
    arrays = [
        pa.Array.from_buffers(schema.field(0).type, count, [None, pa.py_buffer(columns.offset)]),
        pa.Array.from_buffers(schema.field(1).type, count, [None, pa.py_buffer(columns.timestamp)]),
        _binary_array(pa.binary(), columns.key, count),
        _binary_array(pa.binary(), columns.value, count),
    ]
    if columns.headers is not None:
        arrays.append(_header_array(schema.field(4).type, columns.headers, count))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


@cache
def arrow_schema(*, headers: bool = False) -> pyarrow.Schema:
    """offset, timestamp, key, value; if asked for, headers: a list of (key, value) in each row."""
    pa = _pyarrow()
    fields = [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("ms", tz="UTC"), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
    ]
    if headers:
        pair = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])
        pairs = pa.list_(pa.field("item", pair, nullable=False))
        fields.append(pa.field("headers", pairs, nullable=False))
    return pa.schema(fields)


@cache
def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise MissingExtra("Arrow needs pyarrow: pip install 'quorate[arrow]'", extra="arrow") from error
    return pyarrow


def _binary_array(kind: pyarrow.DataType, column: BinaryColumn, rows: int) -> pyarrow.Array:
    pa = _pyarrow()
    validity = None if column.validity is None else pa.py_buffer(column.validity)
    buffers = [validity, pa.py_buffer(column.offsets), pa.py_buffer(column.data)]
    return pa.Array.from_buffers(kind, rows, buffers)


def _header_array(kind: pyarrow.DataType, columns: HeaderColumns, rows: int) -> pyarrow.Array:
    pa = _pyarrow()
    count = len(columns.key.offsets) // 4 - 1
    pairs = pa.StructArray.from_arrays(
        [
            _binary_array(pa.string(), columns.key, count),
            _binary_array(pa.binary(), columns.value, count),
        ],
        fields=list(kind.value_type),
    )
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(columns.offsets)], children=[pairs])
