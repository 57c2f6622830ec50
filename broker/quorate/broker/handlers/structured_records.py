"""Structured records to a batch, and batches to structured records.

For clients that have nothing but generated stubs. Whoever minds the cost per record sends batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from quorate.core.ids import Offset, TimestampMs
from quorate.core.records import Record, decode_batch, encode_batch, parse_header, split_batches
from quorate.errors import CorruptBatch, InvalidRecord, QuorateError
from quorate.v1 import records_pb2

__all__ = ["DecodedRecords", "decode_records", "encode_records"]

#: For clients without a codec the broker makes an object of every record, on its event loop: a batch that
#: unpacks to more than this is for clients that decode it themselves.
_DECOMPRESSED_BYTES_MAX: Final = 16 << 20


def encode_records(records: Sequence[records_pb2.Record], *, received_ms: TimestampMs) -> bytes:
    """One batch. Compression is left to clients that encode: it is their CPU to spend."""
    return encode_batch([_to_encodable(record, received_ms) for record in records])


def _to_encodable(record: records_pb2.Record, received_ms: TimestampMs) -> Record:
    if record.HasField("offset"):
        raise InvalidRecord("a record that is produced has no offset: the broker assigns it")
    return Record(
        offset=0,
        timestamp=record.timestamp_ms if record.HasField("timestamp_ms") else received_ms,
        key=record.key if record.HasField("key") else None,
        value=record.value if record.HasField("value") else None,
        headers=tuple(
            (header.key, header.value if header.HasField("value") else None) for header in record.headers
        ),
    )


class DecodedRecords(NamedTuple):
    records: list[records_pb2.Record]
    #: where to go on: beyond all that was looked at
    next_offset: Offset
    #: bytes of the records in an answer
    size: int


def decode_records(batches: bytes, *, from_offset: Offset, bytes_max: int) -> DecodedRecords:
    """Records from ``from_offset`` on.

    Stops before ``bytes_max`` is exceeded, in the middle of a batch if need be, because a small
    batch may decompress to a large one; but never before the first record.
    """
    records: list[records_pb2.Record] = []
    next_offset, size = from_offset, 0
    for batch in split_batches(batches):
        header = parse_header(batch)
        for record in _decode(batch, header.base_offset):
            if record.offset < from_offset:
                continue
            message = _to_message(record)
            message_size = message.ByteSize()
            if records and size + message_size > bytes_max:
                return DecodedRecords(records, Offset(record.offset), size)
            records.append(message)
            size += message_size
        next_offset = Offset(header.next_offset)
    return DecodedRecords(records, next_offset, size)


def _decode(batch: memoryview, base_offset: int) -> list[Record]:
    try:
        return decode_batch(batch, decompressed_bytes_max=_DECOMPRESSED_BYTES_MAX)
    except QuorateError as error:
        # The checksum is right, so the producer sent it like this. Say where, for whoever has to skip it.
        raise CorruptBatch(
            f"the batch at offset {base_offset} cannot be decoded into records: {error.message}",
            base_offset=base_offset,
        ) from error


def _to_message(record: Record) -> records_pb2.Record:
    return records_pb2.Record(
        offset=record.offset,
        timestamp_ms=record.timestamp,
        key=record.key,
        value=record.value,
        headers=[records_pb2.Header(key=key, value=value) for key, value in record.headers],
    )
