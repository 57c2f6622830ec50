"""The errors of the codec, made in one place, so that both implementations say the same.

The compiled codec never words an error itself: a bad header goes to the pure parser, which takes
constant time to say what is wrong with it, and a bad record comes here as a `RecordFault`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from quorate.core.records.format import INT32_MAX
from quorate.errors import CorruptBatch, InvalidRecord

__all__ = [
    "RecordFault",
    "batch_overflow",
    "empty_batch",
    "impossible_count",
    "incomplete",
    "record_error",
    "trailing_bytes",
    "wrong_crc",
    "wrong_headers",
    "wrong_timestamp",
    "wrong_type",
]


class RecordFault(IntEnum):
    """What can be wrong with a record; `_compiled.pyx` knows these by number."""

    LENGTH = 1
    TRUNCATED = 2
    VARINT = 3
    OFFSET = 4
    TIMESTAMP = 5
    FIELD_LENGTH = 6
    HEADER_COUNT = 7
    HEADER_KEY = 8
    TRAILING = 9


_REASONS: Final[dict[RecordFault, str]] = {
    RecordFault.LENGTH: "its length is negative, or reaches beyond the batch",
    RecordFault.TRUNCATED: "it ends within a field",
    RecordFault.VARINT: "a varint is too long, or does not fit its type",
    RecordFault.OFFSET: "its offset delta is not above its predecessor's, or beyond the batch's last",
    RecordFault.TIMESTAMP: "its timestamp does not fit 64 bits",
    RecordFault.FIELD_LENGTH: "a field has a negative length other than -1",
    RecordFault.HEADER_COUNT: "its header count is negative, or more than its bytes can hold",
    RecordFault.HEADER_KEY: "a header key is null, or not UTF-8",
    RecordFault.TRAILING: "bytes follow its last field",
}


def record_error(fault: RecordFault | int, index: int, base_offset: int) -> CorruptBatch:
    """The error for the record number `index` of the batch at `base_offset`."""
    reason = _REASONS[RecordFault(fault)]
    return CorruptBatch(
        f"record {index} of the batch at offset {base_offset}: {reason}",
        base_offset=base_offset,
        record=index,
    )


def trailing_bytes(count: int, base_offset: int) -> CorruptBatch:
    return CorruptBatch(
        f"{count} bytes follow the last record of the batch at offset {base_offset}",
        base_offset=base_offset,
    )


def impossible_count(record_count: int, body_bytes: int, base_offset: int) -> CorruptBatch:
    return CorruptBatch(
        f"the batch at offset {base_offset} claims {record_count} records in {body_bytes} bytes",
        base_offset=base_offset,
    )


def wrong_crc(stated: int, computed: int, position: int, base_offset: int) -> CorruptBatch:
    return CorruptBatch(
        f"batch at position {position}, offset {base_offset}: "
        f"its CRC is stated as {stated:#010x}, but is {computed:#010x}",
        position=position,
        base_offset=base_offset,
    )


def incomplete(have: int, need: int, position: int) -> CorruptBatch:
    return CorruptBatch(f"batch at position {position}: {have} of {need} bytes", position=position)


def empty_batch() -> InvalidRecord:
    return InvalidRecord("a batch needs at least one record")


def wrong_type(what: str, found: object, index: int) -> InvalidRecord:
    """A field of record `index` cannot be written; text is the mistake everyone makes once."""
    kind = type(found).__name__
    hint = f"; encode text first: {what}.encode()" if isinstance(found, str) else ""
    return InvalidRecord(f"record {index}: {what} must be bytes or None, not {kind}{hint}", record=index)


def wrong_timestamp(found: object, index: int) -> InvalidRecord:
    return InvalidRecord(
        f"record {index}: a timestamp is a 64-bit count of milliseconds, and at most 2**63 - 1 "
        f"from the first record's; not {found!r}",
        record=index,
    )


def wrong_headers(found: object, index: int) -> InvalidRecord:
    return InvalidRecord(
        f"record {index}: headers are a sequence of (str, bytes or None); found {found!r:.200}", record=index
    )


def batch_overflow() -> InvalidRecord:
    return InvalidRecord(f"a batch of more than {INT32_MAX} bytes; the format ends there")


def no_such_rows(start: int, end: int, count: int) -> IndexError:
    """A mistake of the caller's, not of whoever made the records."""
    return IndexError(f"rows {start} to {end} of {count}")
