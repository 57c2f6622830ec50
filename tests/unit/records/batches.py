"""Batches written byte by byte, without the codec, so that they can be wrong in every way."""

from __future__ import annotations

from struct import Struct, pack
from typing import Final

from crc32c import crc32c

__all__ = ["TIMESTAMP", "raw_batch", "raw_record", "raw_varint"]

TIMESTAMP: Final = 1_700_000_000_000
_HEADER: Final = Struct(">qiibIhiqqqhii")


def raw_varint(value: int) -> bytes:
    rest = value * 2 if value >= 0 else -value * 2 - 1
    encoded = b""
    while rest > 127:
        encoded += bytes([rest % 128 + 128])
        rest //= 128
    return encoded + bytes([rest])


def raw_record(
    *,
    timestamp_delta: bytes = b"\x00",
    offset_delta: bytes = b"\x00",
    key: bytes = b"\x01",
    value: bytes = b"\x02v",
    headers: bytes = b"\x00",
    trailing: bytes = b"",
    length: bytes | None = None,
) -> bytes:
    """A record from the bytes of its fields, lengths included; the default is a good one."""
    body = b"\x00" + timestamp_delta + offset_delta + key + value + headers + trailing
    return (raw_varint(len(body)) if length is None else length) + body


def raw_batch(
    body: bytes = b"",
    *,
    base_offset: int = 0,
    batch_length: int | None = None,
    leader_epoch: int = -1,
    magic: int = 2,
    attributes: int = 0,
    last_offset_delta: int | None = None,
    base_timestamp: int = TIMESTAMP,
    max_timestamp: int = TIMESTAMP,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    record_count: int = 1,
) -> bytes:
    """A batch with a CRC that matches, whatever the fields say."""
    header = _HEADER.pack(
        base_offset,
        49 + len(body) if batch_length is None else batch_length,
        leader_epoch,
        magic,
        0,
        attributes,
        record_count - 1 if last_offset_delta is None else last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    )
    covered = header[21:] + body
    return header[:17] + pack(">I", crc32c(covered)) + covered
