"""Columns of records: what batches are made from, and what Arrow takes them as."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from operator import index as as_int
from typing import NamedTuple, cast

from quorate.core.records import faults
from quorate.core.records.format import INT64_MAX, INT64_MIN, Buffer, EncodableHeaders, Headers
from quorate.errors import InvalidRecord

__all__ = [
    "BinaryColumn",
    "HeaderColumns",
    "RecordColumns",
    "as_fields",
    "as_headers",
    "as_timestamps",
    "check_lengths",
]


class BinaryColumn(NamedTuple):
    """Nullable byte strings in Arrow's layout; integers are in the machine's byte order."""

    #: one bit for each row, set if it is not null; None if no row is
    validity: bytes | None
    #: int32, one more than rows
    offsets: bytes
    data: bytes


class HeaderColumns(NamedTuple):
    """Lists of (key, value), in Arrow's layout."""

    #: int32, one more than rows: where each row's headers start among all
    offsets: bytes
    key: BinaryColumn
    value: BinaryColumn


class RecordColumns(NamedTuple):
    """The records of one batch."""

    record_count: int
    #: int64
    offset: bytes
    #: int64, milliseconds since 1970
    timestamp: bytes
    key: BinaryColumn
    value: BinaryColumn
    #: None if they were not asked for
    headers: HeaderColumns | None


def check_lengths(
    count: int,
    timestamp_ms: int | None,
    timestamps: Sized | None,
    keys: Sized | None,
    headers: Sized | None,
) -> None:
    """The columns of a batch have to be equally long."""
    if (timestamp_ms is None) == (timestamps is None):
        raise InvalidRecord("give either timestamp_ms or timestamps")
    for name, column in (("timestamps", timestamps), ("keys", keys), ("headers", headers)):
        if column is not None and len(column) != count:
            raise InvalidRecord(f"{len(column)} {name} for {count} values")


def as_timestamps(column: Sequence[int]) -> list[int]:
    return [_as_timestamp(found, row) for row, found in enumerate(column)]


def as_fields(what: str, column: Sequence[Buffer | None]) -> list[bytes | None]:
    return [_as_field(what, found, row) for row, found in enumerate(column)]


def as_headers(column: Sequence[EncodableHeaders]) -> list[Headers]:
    return [_as_headers(found, row) if found != () else () for row, found in enumerate(column)]


def _as_timestamp(found: int, row: int) -> int:
    try:
        timestamp = as_int(found)
    except TypeError:
        raise faults.wrong_timestamp(found, row) from None
    if not INT64_MIN <= timestamp <= INT64_MAX:
        raise faults.wrong_timestamp(found, row)
    return timestamp


def _as_field(what: str, found: Buffer | None, row: int) -> bytes | None:
    # By type(): isinstance believes an object that only claims a class, and C would read its memory.
    kind = type(found)
    if found is None or issubclass(kind, bytes):
        return cast("bytes | None", found)
    if not issubclass(kind, bytearray | memoryview):
        raise faults.wrong_type(what, found, row)
    return bytes(found)


def _as_headers(found: EncodableHeaders, row: int) -> Headers:
    if not issubclass(type(found), tuple | list):
        raise faults.wrong_headers(found, row)
    return tuple([_as_header(header, row) for header in found])


def _as_header(found: tuple[str, Buffer | None], row: int) -> tuple[str, bytes | None]:
    if not (issubclass(type(found), tuple) and len(found) == 2 and issubclass(type(found[0]), str)):
        raise faults.wrong_headers(found, row)
    try:
        found[0].encode()
    except UnicodeEncodeError:
        raise faults.wrong_headers(found, row) from None
    return found[0], _as_field("header value", found[1], row)
