"""Batches that lose records, or all of them, and stay in their place: what compaction makes.

Whatever says where a batch lies and who wrote it stays: offsets, leader epoch, producer, timestamps. So the
log around it needs to know nothing, and neither does a reader: batches follow each other without a gap,
each covers the offsets that it always covered, and records keep theirs. This is Kafka's layout too, which
however leaves a gap where a batch has lost all of its records and nobody asks for its producer.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final

from crc32c import crc32c

from quorate.core.records._pure.varint import read_varint
from quorate.core.records.codec import BatchHeader
from quorate.core.records.compression import compress, decompress
from quorate.core.records.format import (
    ATTRIBUTES_POSITION,
    BATCH_LENGTH_MIN,
    COMPRESSION_MASK,
    CRC_POSITION,
    DECOMPRESSED_BYTES_MAX_DEFAULT,
    HEADER_BYTES,
    HEADER_STRUCT,
    INT32_MAX,
    MAGIC,
    NO_SEQUENCE,
    Buffer,
    Compression,
)

__all__ = ["FILLED_OFFSETS_MAX", "emptied", "filler", "is_filler", "thinned"]

#: as many offsets one batch can cover
FILLED_OFFSETS_MAX: Final = INT32_MAX + 1

_CRC: Final = Struct(">I")
_NO_TIMESTAMP: Final = -1


def thinned(
    header: BatchHeader,
    batch: Buffer,
    kept: Sequence[bool],
    *,
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX_DEFAULT,
) -> bytes:
    """The batch with only those of its records that are ``kept``, compressed as it was.

    To be called with a batch whose records were decoded before: nothing is checked here.
    """
    assert len(kept) == header.record_count
    body = memoryview(batch)[HEADER_BYTES : header.size_in_bytes]
    payload = bytes(decompress(header.compression, body, bytes_max=decompressed_bytes_max))
    records = b"".join(_kept_records(payload, kept))
    compressed = compress(header.compression, records)
    if len(compressed) < len(records):
        return _remade(header, compressed, header.attributes, sum(kept))
    # As the encoder does it: a body that does not get smaller is stored as it is.
    return _remade(header, records, header.attributes & ~COMPRESSION_MASK, sum(kept))


def _kept_records(payload: bytes, kept: Sequence[bool]) -> list[bytes]:
    records: list[bytes] = []
    at = 0
    for is_kept in kept:
        length, start = read_varint(payload, at)
        end = start + length
        if is_kept:
            records.append(payload[at:end])
        at = end
    assert at == len(payload)
    return records


def emptied(header: BatchHeader) -> bytes:
    """The batch without its records: it still tells what its producer has written last."""
    return _remade(header, b"", header.attributes & ~COMPRESSION_MASK, 0)


def filler(*, base_offset: int, last_offset: int, leader_epoch: int, max_timestamp: int) -> bytes:
    """An empty batch of nobody, in the place of any number of batches of one leader epoch.

    ``last_offset`` is inclusive. ``max_timestamp`` is the largest of theirs: so the segment does not age.
    """
    assert 0 <= last_offset - base_offset < FILLED_OFFSETS_MAX
    nobody = (NO_SEQUENCE, NO_SEQUENCE, NO_SEQUENCE)
    return _sealed(
        (base_offset, leader_epoch),
        (Compression.NONE, last_offset - base_offset, _NO_TIMESTAMP, max_timestamp, *nobody, 0),
        b"",
    )


def is_filler(header: BatchHeader) -> bool:
    """It has no records, and no producer is known by it: it may be cut, joined with others, or replaced."""
    return header.record_count == 0 and header.producer_id == NO_SEQUENCE and not header.is_control


def _remade(header: BatchHeader, body: bytes, attributes: int, record_count: int) -> bytes:
    producer = (header.producer_id, header.producer_epoch, header.base_sequence)
    timestamps = (header.base_timestamp, header.max_timestamp)
    return _sealed(
        (header.base_offset, header.leader_epoch),
        (attributes, header.last_offset_delta, *timestamps, *producer, record_count),
        body,
    )


def _sealed(place: tuple[int, int], covered: tuple[int, ...], body: bytes) -> bytes:
    """``covered`` are the fields of the header that the checksum covers, in their order."""
    base_offset, leader_epoch = place
    length = BATCH_LENGTH_MIN + len(body)
    batch = bytearray(HEADER_STRUCT.pack(base_offset, length, leader_epoch, MAGIC, 0, *covered))
    batch += body
    _CRC.pack_into(batch, CRC_POSITION, crc32c(memoryview(batch)[ATTRIBUTES_POSITION:]))
    return bytes(batch)
