"""Records to a batch."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final

from crc32c import crc32c

from quorate.core.records import faults
from quorate.core.records._pure.varint import varint
from quorate.core.records.columns import as_fields, as_headers, as_timestamps, check_lengths
from quorate.core.records.compression import compress
from quorate.core.records.fields import BatchFields
from quorate.core.records.format import (
    ATTRIBUTES_POSITION,
    BATCH_LENGTH_MIN,
    CRC_POSITION,
    HEADER_STRUCT,
    INT32_MAX,
    INT64_MAX,
    INT64_MIN,
    MAGIC,
    Buffer,
    Compression,
    EncodableHeaders,
    EncodableRecord,
    Headers,
    TimestampType,
)

__all__ = ["encode_batch", "encode_values"]

_CRC: Final = Struct(">I")
_NULL: Final = varint(-1)


def encode_batch(
    records: Sequence[EncodableRecord],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    compression: Compression = Compression.NONE,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    append_timestamp_ms: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
    is_control: bool = False,
) -> bytes:
    """A batch of `records`, with consecutive offsets from `base_offset` on.

    A body that compression would not make smaller is stored as it is. Raises InvalidRecord.
    """
    fields = BatchFields(
        base_offset, leader_epoch, compression, timestamp_type, append_timestamp_ms,
        producer_id, producer_epoch, base_sequence, is_transactional, is_control,
    )  # fmt: skip
    records = tuple(records)
    return _encode(
        [record.timestamp for record in records],
        [record.key for record in records],
        [record.value for record in records],
        [record.headers for record in records],
        fields,
    )


def encode_values(
    values: Sequence[Buffer | None],
    *,
    timestamp_ms: int | None = None,
    timestamps: Sequence[int] | None = None,
    keys: Sequence[Buffer | None] | None = None,
    headers: Sequence[EncodableHeaders] | None = None,
    base_offset: int = 0,
    leader_epoch: int = -1,
    compression: Compression = Compression.NONE,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    append_timestamp_ms: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
    is_control: bool = False,
) -> bytes:
    """Like `encode_batch`, from columns: one call for many records and no object for any.

    All records carry `timestamp_ms`, or each its own of `timestamps`: exactly one of the two.
    """
    fields = BatchFields(
        base_offset, leader_epoch, compression, timestamp_type, append_timestamp_ms,
        producer_id, producer_epoch, base_sequence, is_transactional, is_control,
    )  # fmt: skip
    values = tuple(values)
    count = len(values)
    check_lengths(count, timestamp_ms, timestamps, keys, headers)
    if timestamps is None:
        assert timestamp_ms is not None  # check_lengths: it is one or the other
        timestamps = [timestamp_ms] * count
    return _encode(
        timestamps,
        [None] * count if keys is None else keys,
        values,
        [()] * count if headers is None else headers,
        fields,
    )


def _encode(
    timestamps: Sequence[int],
    keys: Sequence[Buffer | None],
    values: Sequence[Buffer | None],
    headers: Sequence[EncodableHeaders],
    fields: BatchFields,
) -> bytes:
    fields.check()
    if not values:
        raise faults.empty_batch()
    timestamps = as_timestamps(timestamps)
    rows = zip(
        timestamps, as_fields("key", keys), as_fields("value", values), as_headers(headers), strict=True
    )
    base_timestamp = timestamps[0]
    body = bytearray()
    for index, (timestamp, key, value, row_headers) in enumerate(rows):
        delta = timestamp - base_timestamp
        if not INT64_MIN <= delta <= INT64_MAX:
            raise faults.wrong_timestamp(timestamp, index)
        parts = [b"\x00", varint(delta), varint(index)]
        _put(parts, key)
        _put(parts, value)
        _put_headers(parts, row_headers)
        length = sum(map(len, parts))
        prefix = varint(length)
        if BATCH_LENGTH_MIN + len(body) + len(prefix) + length > INT32_MAX:
            raise faults.batch_overflow()
        body += prefix
        body += b"".join(parts)
    appended = fields.append_timestamp_ms
    max_timestamp = max(timestamps) if appended is None else appended
    return _seal(body, fields, len(values), base_timestamp, max_timestamp)


def _seal(body: Buffer, fields: BatchFields, count: int, base_timestamp: int, max_timestamp: int) -> bytes:
    compression = Compression(fields.compression)
    if compression != Compression.NONE:
        compressed = compress(compression, body)
        if len(compressed) < len(body):
            body = compressed
        else:
            compression = Compression.NONE
    batch = bytearray(
        HEADER_STRUCT.pack(
            fields.base_offset,
            BATCH_LENGTH_MIN + len(body),
            fields.leader_epoch,
            MAGIC,
            0,
            fields.attributes(compression),
            count - 1,
            base_timestamp,
            max_timestamp,
            fields.producer_id,
            fields.producer_epoch,
            fields.base_sequence,
            count,
        )
    )
    batch += body
    _CRC.pack_into(batch, CRC_POSITION, crc32c(memoryview(batch)[ATTRIBUTES_POSITION:]))
    return bytes(batch)


def _put(parts: list[bytes], field: bytes | None) -> None:
    """Append a nullable field: its length, then its bytes."""
    if field is None:
        parts.append(_NULL)
    else:
        parts += (varint(len(field)), field)


def _put_headers(parts: list[bytes], headers: Headers) -> None:
    parts.append(varint(len(headers)))
    for key, value in headers:
        _put(parts, key.encode())
        _put(parts, value)
