"""The keys of a batch: what compaction goes by, and what a compacted topic demands of every record."""

from __future__ import annotations

from array import array
from typing import NamedTuple

from quorate.core.records.codec import decode_columns
from quorate.core.records.columns import BinaryColumn
from quorate.core.records.format import DECOMPRESSED_BYTES_MAX_DEFAULT, Buffer

__all__ = ["RecordKey", "decode_keys", "has_null_key"]


class RecordKey(NamedTuple):
    """What compaction has to know of a record."""

    offset: int
    key: bytes | None
    #: it has no value: it says that the key is gone
    is_tombstone: bool


def decode_keys(
    buffer: Buffer, position: int = 0, *, decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX_DEFAULT
) -> list[RecordKey]:
    """Of every record of the batch at `position`, which is checked as by `decode_batch`.

    Raises CorruptBatch, UnsupportedBatch or BatchTooLarge.
    """
    columns = decode_columns(buffer, position, decompressed_bytes_max=decompressed_bytes_max)
    offsets = array("q", columns.offset)
    tombstones = _nulls(columns.value, len(offsets))
    keys = _fields(columns.key, len(offsets))
    return [RecordKey(*row) for row in zip(offsets, keys, tombstones, strict=True)]


def has_null_key(buffer: Buffer, position: int = 0) -> bool:
    """Whether a record of the batch has no key; checked and raising as `decode_keys`.

    A compressed batch is unpacked for it, but no object is made for any record.
    """
    return decode_columns(buffer, position).key.validity is not None


def _fields(column: BinaryColumn, rows: int) -> list[bytes | None]:
    starts = array("i", column.offsets)
    fields: list[bytes | None] = [column.data[starts[row] : starts[row + 1]] for row in range(rows)]
    if column.validity is not None:
        for row, is_null in enumerate(_nulls(column, rows)):
            if is_null:
                fields[row] = None
    return fields


def _nulls(column: BinaryColumn, rows: int) -> list[bool]:
    bits = column.validity
    if bits is None:
        return [False] * rows
    return [not bits[row >> 3] >> (row & 7) & 1 for row in range(rows)]
