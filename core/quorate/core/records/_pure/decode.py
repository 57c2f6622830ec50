"""A batch to records."""

from __future__ import annotations

from array import array
from itertools import accumulate

from quorate.core.records import faults
from quorate.core.records._pure.header import BatchHeader, check_batch, parse_header
from quorate.core.records._pure.varint import VarintOverflow, read_varint, read_varlong
from quorate.core.records.columns import BinaryColumn, HeaderColumns, RecordColumns
from quorate.core.records.compression import decompress
from quorate.core.records.faults import RecordFault
from quorate.core.records.format import (
    DECOMPRESSED_BYTES_MAX_DEFAULT,
    HEADER_BYTES,
    INT64_MAX,
    INT64_MIN,
    RECORD_BYTES_MIN,
    Buffer,
    ConsumerRecord,
    Headers,
    Record,
    TimestampType,
)

__all__ = ["decode_batch", "decode_columns", "decode_consumer_records"]

_HEADER_BYTES_MIN = 2


class _Malformed(Exception):
    """What is wrong with the record being read; `decode_batch` knows which one it is."""

    def __init__(self, fault: RecordFault) -> None:
        self.fault = fault


def decode_batch(
    buffer: Buffer, position: int = 0, *, decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX_DEFAULT
) -> list[Record]:
    """All records of the batch at `position`, after every check there is.

    Bytes after the batch are not looked at. Raises CorruptBatch, UnsupportedBatch or BatchTooLarge.
    """
    header = check_batch(buffer, position)
    payload = _open_body(buffer, position, header, decompressed_bytes_max)
    append_time = header.timestamp_type == TimestampType.LOG_APPEND_TIME
    batch_timestamp = header.max_timestamp if append_time else None
    records: list[Record] = []
    at = 0
    last_delta = -1
    for index in range(header.record_count):
        try:
            record, at = _read_record(payload, at, header, batch_timestamp)
            offset_delta = record.offset - header.base_offset
            if not last_delta < offset_delta <= header.last_offset_delta:
                raise _Malformed(RecordFault.OFFSET)
        except _Malformed as error:
            raise faults.record_error(error.fault, index, header.base_offset) from None
        last_delta = offset_delta
        records.append(record)
    if at != len(payload):
        raise faults.trailing_bytes(len(payload) - at, header.base_offset)
    return records


def decode_consumer_records(
    buffer: Buffer,
    position: int = 0,
    *,
    topic: str,
    partition: int,
    from_offset: int = 0,
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX_DEFAULT,
) -> list[ConsumerRecord]:
    """Like `decode_batch`, as a consumer wants its records; those before `from_offset` are left out."""
    leader_epoch = parse_header(buffer, position).leader_epoch
    return [
        ConsumerRecord(topic, partition, offset, timestamp, key, value, headers, leader_epoch)
        for offset, timestamp, key, value, headers in decode_batch(
            buffer, position, decompressed_bytes_max=decompressed_bytes_max
        )
        if offset >= from_offset
    ]


def decode_columns(
    buffer: Buffer,
    position: int = 0,
    *,
    headers: bool = False,
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX_DEFAULT,
) -> RecordColumns:
    """Like `decode_batch`, into buffers laid out as Arrow's arrays."""
    records = decode_batch(buffer, position, decompressed_bytes_max=decompressed_bytes_max)
    return RecordColumns(
        len(records),
        array("q", [record.offset for record in records]).tobytes(),
        array("q", [record.timestamp for record in records]).tobytes(),
        _binary_column([record.key for record in records]),
        _binary_column([record.value for record in records]),
        _header_columns(records) if headers else None,
    )


def _binary_column(fields: list[bytes | None]) -> BinaryColumn:
    ends = accumulate((len(field or b"") for field in fields), initial=0)
    validity = None
    if None in fields:
        bits = bytearray((len(fields) + 7) // 8)
        for row, field in enumerate(fields):
            if field is not None:
                bits[row >> 3] |= 1 << (row & 7)
        validity = bytes(bits)
    return BinaryColumn(validity, array("i", ends).tobytes(), b"".join(field or b"" for field in fields))


def _header_columns(records: list[Record]) -> HeaderColumns:
    ends = accumulate((len(record.headers) for record in records), initial=0)
    pairs = [pair for record in records for pair in record.headers]
    return HeaderColumns(
        array("i", ends).tobytes(),
        _binary_column([key.encode() for key, _ in pairs]),
        _binary_column([value for _, value in pairs]),
    )


def _open_body(buffer: Buffer, position: int, header: BatchHeader, bytes_max: int) -> bytes:
    """The body, decompressed. From here on the record count is known to be possible."""
    body = memoryview(buffer).cast("B")[position + HEADER_BYTES : position + header.size_in_bytes]
    # A batch that compaction emptied has no body, whatever its attributes say.
    payload = bytes(decompress(header.compression, body, bytes_max=bytes_max)) if body else b""
    if header.record_count * RECORD_BYTES_MIN > len(payload):
        raise faults.impossible_count(header.record_count, len(payload), header.base_offset)
    return payload


def _read_record(
    payload: bytes, at: int, header: BatchHeader, batch_timestamp: int | None
) -> tuple[Record, int]:
    try:
        length, start = read_varint(payload, at)
    except VarintOverflow:
        raise _Malformed(RecordFault.VARINT) from None
    except IndexError:
        raise _Malformed(RecordFault.LENGTH) from None
    end = start + length
    if length < 0 or end > len(payload):
        raise _Malformed(RecordFault.LENGTH)
    try:
        return _read_fields(payload[start:end], header, batch_timestamp), end
    except VarintOverflow:
        raise _Malformed(RecordFault.VARINT) from None
    except IndexError:
        raise _Malformed(RecordFault.TRUNCATED) from None


def _read_fields(record: bytes, header: BatchHeader, batch_timestamp: int | None) -> Record:
    """A record's fields; IndexError if they need more bytes than there are."""
    timestamp_delta, at = read_varlong(record, 1)  # after the attributes, which nothing uses
    offset_delta, at = read_varint(record, at)
    timestamp = header.base_timestamp + timestamp_delta
    if not INT64_MIN <= timestamp <= INT64_MAX:
        raise _Malformed(RecordFault.TIMESTAMP)
    if batch_timestamp is not None:
        timestamp = batch_timestamp
    key, at = _read_field(record, at)
    value, at = _read_field(record, at)
    headers: Headers = ()
    count, at = read_varint(record, at)
    if count:
        headers, at = _read_headers(record, at, count)
    if at != len(record):
        raise _Malformed(RecordFault.TRAILING)
    return Record(header.base_offset + offset_delta, timestamp, key, value, headers)


def _read_field(record: bytes, at: int) -> tuple[bytes | None, int]:
    length, at = read_varint(record, at)
    if length < 0:
        if length != -1:
            raise _Malformed(RecordFault.FIELD_LENGTH)
        return None, at
    end = at + length
    if end > len(record):
        raise IndexError
    return record[at:end], end


def _read_headers(record: bytes, at: int, count: int) -> tuple[Headers, int]:
    if not 0 <= count <= (len(record) - at) // _HEADER_BYTES_MIN:
        raise _Malformed(RecordFault.HEADER_COUNT)
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        key, at = _read_field(record, at)
        value, at = _read_field(record, at)
        try:
            if key is None:
                raise _Malformed(RecordFault.HEADER_KEY)
            headers.append((key.decode(), value))
        except UnicodeDecodeError:
            raise _Malformed(RecordFault.HEADER_KEY) from None
    return tuple(headers), at
