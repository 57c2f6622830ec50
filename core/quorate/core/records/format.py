"""The layout of Kafka's RecordBatch v2, and the values both codecs speak in.

A batch is a header of 61 bytes and a body; all integers of the header are big-endian::

    at  bytes  field                 covered by the CRC
     0      8  base offset           no: the leader assigns it when it appends
     8      4  batch length          no: bytes after this field
    12      4  partition leader epoch  no: the leader assigns it
    16      1  magic, always 2       no
    17      4  CRC-32C               of everything after this field
    21      2  attributes            yes, and all that follows
    23      4  last offset delta
    27      8  base timestamp
    35      8  max timestamp
    43      8  producer id
    51      2  producer epoch
    53      4  base sequence
    57      4  record count
    61         records, compressed as a whole if the attributes say so

A record, with zigzag varints (``varlong`` up to ten bytes, ``varint`` up to five)::

    varint length of what follows | int8 attributes, unused | varlong timestamp delta
    varint offset delta | varint key length, -1 null | key | varint value length, -1 null | value
    varint header count | for each: varint length, UTF-8 key, varint length, -1 null, value
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, IntEnum
from struct import Struct
from typing import Final, NamedTuple, Protocol

__all__ = [
    "ATTRIBUTES_POSITION",
    "BASE_OFFSET_MAX",
    "BATCH_LENGTH_MIN",
    "BATCH_LENGTH_POSITION",
    "COMPRESSION_MASK",
    "CONTROL_BIT",
    "CRC_POSITION",
    "DECOMPRESSED_BYTES_MAX_DEFAULT",
    "HEADER_BYTES",
    "HEADER_STRUCT",
    "INT32_MAX",
    "INT64_MAX",
    "INT64_MIN",
    "LEADER_EPOCH_END",
    "LEGACY_MESSAGE_BYTES_MIN",
    "LOG_OVERHEAD_BYTES",
    "MAGIC",
    "MAGIC_POSITION",
    "NO_SEQUENCE",
    "RECORD_BYTES_MIN",
    "RECORD_OVERHEAD_BYTES",
    "TIMESTAMP_TYPE_BIT",
    "TRANSACTIONAL_BIT",
    "BatchFault",
    "Buffer",
    "Compression",
    "ConsumerRecord",
    "EncodableHeaders",
    "EncodableRecord",
    "FaultKind",
    "Headers",
    "Record",
    "TimestampType",
    "stated_bytes",
]

#: What the codec reads from, without copying it. A memoryview has to be contiguous.
Buffer = bytes | bytearray | memoryview

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
INT64_MIN: Final = -(2**63)

MAGIC: Final = 2
BATCH_LENGTH_POSITION: Final = 8
#: base offset and batch length: what the batch length does not count
LOG_OVERHEAD_BYTES: Final = 12
#: end of the part that a leader stamps on append: base offset, batch length, leader epoch
LEADER_EPOCH_END: Final = 16
MAGIC_POSITION: Final = 16
CRC_POSITION: Final = 17
#: the CRC covers the batch from here
ATTRIBUTES_POSITION: Final = 21
HEADER_BYTES: Final = 61
HEADER_STRUCT: Final = Struct(">qiibIhiqqqhii")

#: the smallest value of the batch length field: a header without records
BATCH_LENGTH_MIN: Final = HEADER_BYTES - LOG_OVERHEAD_BYTES
#: length, attributes, timestamp delta, offset delta, key length, value length, header count
RECORD_BYTES_MIN: Final = 7
#: what a record takes in a batch beside its key, value and headers, about
RECORD_OVERHEAD_BYTES: Final = 16
#: a message of Kafka's formats before version 2, without key and value
LEGACY_MESSAGE_BYTES_MIN: Final = 14
#: so that base offset + last offset delta + 1 is an offset
BASE_OFFSET_MAX: Final = INT64_MAX - INT32_MAX - 1

COMPRESSION_MASK: Final = 0x07
TIMESTAMP_TYPE_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20

#: "none" in the fields of producers: id, epoch and sequence
NO_SEQUENCE: Final = -1

#: A decoder that is not told otherwise decompresses no further than this. Python objects for
#: records and headers may take 32 times the bytes they were made of, so keep it modest.
DECOMPRESSED_BYTES_MAX_DEFAULT: Final = 64 * 1024 * 1024


class Compression(IntEnum):
    """How the body of a batch is compressed: the low three bits of the attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class TimestampType(IntEnum):
    """Whose clock a record's timestamp is from: the producer's, or the log's on append."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


#: A header key may repeat, and order counts: pairs, not a mapping.
Headers = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """One record as it is read. To be written, its offset counts for nothing: batches assign it."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class ConsumerRecord(NamedTuple):
    """One record as a consumer gets it: a `Record`, and where it is from."""

    topic: str
    partition: int
    offset: int
    #: milliseconds since 1970, UTC
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    #: the epoch of the leader that appended it: what a position is checked by (rule 66)
    leader_epoch: int


#: The same before it is written: any sequence will do, and any buffer of bytes
EncodableHeaders = Sequence[tuple[str, Buffer | None]]


class EncodableRecord(Protocol):
    """What can be written: a `Record`, or anything with these attributes."""

    @property
    def timestamp(self) -> int: ...
    @property
    def key(self) -> Buffer | None: ...
    @property
    def value(self) -> Buffer | None: ...
    @property
    def headers(self) -> EncodableHeaders: ...


class FaultKind(Enum):
    """Why a scan stopped before the end of its buffer."""

    #: fewer bytes than a header, or than the header states: a torn tail, or only a part was read
    INCOMPLETE = "incomplete"
    #: bytes that are all there and wrong: no header, or a checksum that does not match
    CORRUPT = "corrupt"


class BatchFault(NamedTuple):
    kind: FaultKind
    reason: str


def stated_bytes(prefix: Buffer) -> int:
    """The size of the batch that begins with ``prefix``, by the length it states; nothing is checked.

    Never less than a header: whoever reads that much can see what is wrong with a smaller length.
    """
    length = prefix[BATCH_LENGTH_POSITION:LOG_OVERHEAD_BYTES]
    return max(HEADER_BYTES, LOG_OVERHEAD_BYTES + int.from_bytes(length, "big", signed=True))
