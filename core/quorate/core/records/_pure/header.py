"""Headers: parse, check, walk and stamp whole batches without looking at their records."""

from __future__ import annotations

from typing import Final, NamedTuple

from crc32c import crc32c

from quorate.core.ids import LeaderEpoch, Offset, ProducerEpoch, ProducerId, TimestampMs
from quorate.core.records import faults
from quorate.core.records.format import (
    ATTRIBUTES_POSITION,
    BASE_OFFSET_MAX,
    BATCH_LENGTH_MIN,
    COMPRESSION_MASK,
    CONTROL_BIT,
    HEADER_BYTES,
    HEADER_STRUCT,
    INT32_MAX,
    LEGACY_MESSAGE_BYTES_MIN,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    NO_SEQUENCE,
    RECORD_BYTES_MIN,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchFault,
    Buffer,
    Compression,
    FaultKind,
    TimestampType,
)
from quorate.errors import CorruptBatch, UnsupportedBatch

__all__ = [
    "BatchHeader",
    "ScanResult",
    "check_batch",
    "parse_header",
    "patch_header",
    "scan_batches",
    "stamped_prefix",
]


class BatchHeader:
    """The header of one batch. Its fields have the names and the values of the wire."""

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "batch_length",
        "crc",
        "last_offset_delta",
        "leader_epoch",
        "magic",
        "max_timestamp",
        "producer_epoch",
        "producer_id",
        "record_count",
    )

    def __init__(
        self,
        base_offset: Offset,
        batch_length: int,
        leader_epoch: LeaderEpoch,
        magic: int,
        crc: int,
        attributes: int,
        last_offset_delta: int,
        base_timestamp: TimestampMs,
        max_timestamp: TimestampMs,
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
        base_sequence: int,
        record_count: int,
    ) -> None:
        self.base_offset: Final = base_offset
        #: bytes of the batch after this field
        self.batch_length: Final = batch_length
        self.leader_epoch: Final = leader_epoch
        self.magic: Final = magic
        self.crc: Final = crc
        self.attributes: Final = attributes
        self.last_offset_delta: Final = last_offset_delta
        self.base_timestamp: Final = base_timestamp
        self.max_timestamp: Final = max_timestamp
        self.producer_id: Final = producer_id
        self.producer_epoch: Final = producer_epoch
        self.base_sequence: Final = base_sequence
        self.record_count: Final = record_count

    @property
    def last_offset(self) -> Offset:
        """Inclusive. After compaction no record may be left there, yet the batch covers it."""
        return Offset(self.base_offset + self.last_offset_delta)

    @property
    def next_offset(self) -> Offset:
        return Offset(self.base_offset + self.last_offset_delta + 1)

    @property
    def size_in_bytes(self) -> int:
        """Of the whole batch: the next one starts that many bytes further on."""
        return LOG_OVERHEAD_BYTES + self.batch_length

    @property
    def compression(self) -> Compression:
        return Compression(self.attributes & COMPRESSION_MASK)

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType((self.attributes & TIMESTAMP_TYPE_BIT) != 0)

    @property
    def is_transactional(self) -> bool:
        return (self.attributes & TRANSACTIONAL_BIT) != 0

    @property
    def is_control(self) -> bool:
        return (self.attributes & CONTROL_BIT) != 0

    @property
    def last_sequence(self) -> int:
        """The last record's sequence number; after 2**31 - 1 comes 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & INT32_MAX

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BatchHeader):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]  # compared in tests and checks, never looked up

    def __repr__(self) -> str:
        return (
            f"BatchHeader(base_offset={self.base_offset}, batch_length={self.batch_length}, "
            f"leader_epoch={self.leader_epoch}, magic={self.magic}, crc={self.crc:#010x}, "
            f"attributes={self.attributes:#06x}, last_offset_delta={self.last_offset_delta}, "
            f"base_timestamp={self.base_timestamp}, max_timestamp={self.max_timestamp}, "
            f"producer_id={self.producer_id}, producer_epoch={self.producer_epoch}, "
            f"base_sequence={self.base_sequence}, record_count={self.record_count})"
        )


class ScanResult(NamedTuple):
    headers: list[BatchHeader]
    #: the position after the last good batch
    end: int
    #: None if the scan ended exactly at the end of the buffer
    fault: BatchFault | None


def parse_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header of the batch at `position`, with every field in its range; the CRC is not checked.

    Raises CorruptBatch, or UnsupportedBatch for a batch of an older format or unknown compression.
    """
    if position < 0:
        raise ValueError(f"position is {position}")
    have = _size(buffer) - position
    if have < HEADER_BYTES:
        raise faults.incomplete(max(have, 0), HEADER_BYTES, position)
    header = BatchHeader(*HEADER_STRUCT.unpack_from(buffer, position))
    _check_fields(header, position)
    return header


def check_batch(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Like `parse_header`; in addition the whole batch is there, and matches its CRC."""
    header = parse_header(buffer, position)
    have = _size(buffer) - position
    if have < header.size_in_bytes:
        raise faults.incomplete(have, header.size_in_bytes, position)
    _check_crc(memoryview(buffer).cast("B"), position, header)
    return header


def scan_batches(buffer: Buffer, position: int = 0) -> ScanResult:
    """Walk from batch to batch, checking each, until the end of the buffer or the first fault."""
    if position < 0:
        raise ValueError(f"position is {position}")
    view = memoryview(buffer).cast("B")
    size = len(view)
    headers: list[BatchHeader] = []
    while position < size:
        have = size - position
        if have < HEADER_BYTES:
            return ScanResult(headers, position, _torn(have, HEADER_BYTES, position))
        try:
            header = parse_header(view, position)
            if have < header.size_in_bytes:
                return ScanResult(headers, position, _torn(have, header.size_in_bytes, position))
            _check_crc(view, position, header)
        except (CorruptBatch, UnsupportedBatch) as error:
            return ScanResult(headers, position, BatchFault(FaultKind.CORRUPT, error.message))
        headers.append(header)
        position += header.size_in_bytes
    return ScanResult(headers, position, None)


def patch_header(
    buffer: bytearray | memoryview, position: int, *, base_offset: int, leader_epoch: int
) -> None:
    """Stamp a batch in place, as a leader does on append; the CRC covers neither field."""
    view = memoryview(buffer).cast("B")
    if view.readonly:
        raise BufferError("a batch is stamped in place: its buffer must be writable")
    if position < 0 or len(view) - position < HEADER_BYTES:
        raise ValueError(f"no header at position {position} of {len(view)} bytes")
    # Both are made before either is written: a value out of range leaves the batch as it was.
    offset_field = base_offset.to_bytes(8, "big", signed=True)
    epoch_field = leader_epoch.to_bytes(4, "big", signed=True)
    view[position : position + len(offset_field)] = offset_field
    epoch_at = position + LOG_OVERHEAD_BYTES
    view[epoch_at : epoch_at + len(epoch_field)] = epoch_field


def stamped_prefix(header: BatchHeader, *, base_offset: int, leader_epoch: int) -> bytes:
    """The first 16 bytes of the batch, stamped anew: written with ``batch[16:]`` nothing is copied."""
    fields = (base_offset, 8), (header.batch_length, 4), (leader_epoch, 4)
    return b"".join(value.to_bytes(size, "big", signed=True) for value, size in fields)


def _size(buffer: Buffer) -> int:
    return buffer.nbytes if isinstance(buffer, memoryview) else len(buffer)


def _torn(have: int, need: int, position: int) -> BatchFault:
    return BatchFault(FaultKind.INCOMPLETE, faults.incomplete(have, need, position).message)


def _check_crc(view: memoryview, position: int, header: BatchHeader) -> None:
    covered = view[position + ATTRIBUTES_POSITION : position + header.size_in_bytes]
    computed = crc32c(covered)
    if computed != header.crc:
        raise faults.wrong_crc(header.crc, computed, position, header.base_offset)


def _check_fields(header: BatchHeader, position: int) -> None:
    """Nothing after this has to ask whether a field of the header makes sense by itself."""
    reason = _wrong_field(header)
    if reason is not None:
        raise CorruptBatch(f"batch at position {position}: {reason}", position=position)
    code = header.attributes & COMPRESSION_MASK
    if header.magic != MAGIC:
        reason = f"magic {header.magic}: formats before 2 are not supported"
    elif code > Compression.ZSTD:
        reason = f"compression {code} is not known"
    else:
        return
    raise UnsupportedBatch(f"batch at position {position}: {reason}", position=position)


def _wrong_field(header: BatchHeader) -> str | None:
    if header.magic != MAGIC:
        legacy = header.magic in (0, 1) and header.batch_length >= LEGACY_MESSAGE_BYTES_MIN
        return None if legacy else f"magic {header.magic} with length {header.batch_length}"
    if header.batch_length < BATCH_LENGTH_MIN:
        return f"length {header.batch_length}, below {BATCH_LENGTH_MIN}"
    if not 0 <= header.base_offset <= BASE_OFFSET_MAX:
        return f"base offset {header.base_offset}"
    if header.last_offset_delta < 0:
        return f"last offset delta {header.last_offset_delta}"
    if header.producer_id < -1 or header.producer_epoch < -1 or header.base_sequence < -1:
        return (
            f"producer id {header.producer_id}, epoch {header.producer_epoch}, "
            f"sequence {header.base_sequence}"
        )
    if not 0 <= header.record_count <= header.last_offset_delta + 1:
        return f"{header.record_count} records, last offset delta {header.last_offset_delta}"
    return _impossible_count(header)


def _impossible_count(header: BatchHeader) -> str | None:
    """More records than the body can hold? A compressed body shows that only when it is unpacked."""
    body_bytes = header.batch_length - BATCH_LENGTH_MIN
    if header.attributes & COMPRESSION_MASK == Compression.NONE:
        possible = header.record_count * RECORD_BYTES_MIN <= body_bytes
    else:
        possible = header.record_count == 0 or body_bytes > 0
    return None if possible else f"{header.record_count} records in {body_bytes} bytes"
