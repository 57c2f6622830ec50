"""How entries lie in the journal's files.

A *group* is what one sync makes durable: all entries that were waiting, written by one call, under one
checksum. It is whole or it does not count; there is no smaller unit.

    header   magic, version, flags, length of the payload, number of the group, CRC-32C of the payload,
             CRC-32C of the header itself
    payload  the snapshot that the journal restarts after (zeros: none), how many entries;
             of each entry its length, index, term, kind and data; the end mark

- Groups are numbered without gaps over all files, so that a file that is missing, or that stands in
  another's place, does not go unnoticed.
- The header has a checksum of its own: a flipped bit in the length is told from a write that was cut off.
- The first byte and the last are never zero, and a flag says whether 512 zeros stand in the payload. A
  sector of the group that reads as zeros was therefore never written, unless the flag is set
  (``has_missing_sector``).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from crc32c import crc32c

from quorate.metadata.raft.entries import Entry, EntryKind, Index, SnapshotId, Term

__all__ = [
    "HEADER_BYTES",
    "VERSION",
    "Group",
    "GroupHeader",
    "MalformedGroup",
    "decode_payload",
    "encode_group",
    "find_header",
    "has_missing_sector",
    "parse_header",
]

_MAGIC: Final = b"\xa5Q"
#: of the format; a journal of a later one is refused as a whole, not taken for damage and cut
VERSION: Final = 1
_END_MARK: Final = b"\xe5"
#: what a device writes as a whole or not at all; larger ones are multiples of it
_SECTOR_BYTES: Final = 512
_SECTOR_OF_ZEROS: Final = bytes(_SECTOR_BYTES)
_HOLDS_ZERO_SECTORS: Final = 1

#: magic, version, flags, payload length, number, payload CRC
_HEADER: Final = struct.Struct(">2sBBIQI")
_CHECKSUM: Final = struct.Struct(">I")
#: index and term of the snapshot, number of entries
_PREAMBLE: Final = struct.Struct(">QQI")
#: length of the data, index, term, kind
_ENTRY: Final = struct.Struct(">IQQB")

HEADER_BYTES: Final = _HEADER.size + _CHECKSUM.size


class MalformedGroup(Exception):
    """Bytes that match their checksum and make no sense: a newer format, or a bug."""


@dataclass(frozen=True, slots=True)
class Group:
    #: the journal restarts after it, unless it agrees with it (see ``journal_replay``)
    restart_after: SnapshotId | None
    #: gap-free; from the first of them on they replace what the journal holds
    entries: tuple[Entry, ...]

    @property
    def highest_index(self) -> Index:
        if self.entries:
            return self.entries[-1].index
        assert self.restart_after is not None
        return self.restart_after.index


@dataclass(frozen=True, slots=True)
class GroupHeader:
    version: int
    number: int
    payload_bytes: int
    payload_crc: int
    #: so that a sector of zeros proves nothing
    holds_zero_sectors: bool

    @property
    def group_bytes(self) -> int:
        return HEADER_BYTES + self.payload_bytes


def encode_group(
    number: int, restart_after: SnapshotId | None, entries: Sequence[Entry]
) -> tuple[bytes, bytes]:
    """Header and payload, to be written by one call."""
    assert entries or restart_after is not None, "an empty group says nothing"
    base_index, base_term = (0, 0) if restart_after is None else (restart_after.index, restart_after.term)
    parts = [_PREAMBLE.pack(base_index, base_term, len(entries))]
    for entry in entries:
        parts.append(_ENTRY.pack(len(entry.data), entry.index, entry.term, entry.kind))
        parts.append(entry.data)
    parts.append(_END_MARK)
    payload = b"".join(parts)
    flags = _HOLDS_ZERO_SECTORS if _SECTOR_OF_ZEROS in payload else 0
    header = _HEADER.pack(_MAGIC, VERSION, flags, len(payload), number, crc32c(payload))
    return header + _CHECKSUM.pack(crc32c(header)), payload


def parse_header(content: bytes, position: int) -> GroupHeader | None:
    """None where no sound header lies; the caller has made sure that there are enough bytes."""
    checked = content[position : position + _HEADER.size]
    (checksum,) = _CHECKSUM.unpack_from(content, position + _HEADER.size)
    if crc32c(checked) != checksum:
        return None
    magic, version, flags, payload_bytes, number, payload_crc = _HEADER.unpack(checked)
    if magic != _MAGIC:
        return None
    return GroupHeader(version, number, payload_bytes, payload_crc, bool(flags & _HOLDS_ZERO_SECTORS))


def find_header(content: bytes, position: int) -> tuple[int, GroupHeader] | None:
    """The first sound header at or after ``position``, whatever lies before it."""
    while (position := content.find(_MAGIC, position)) >= 0 and position + HEADER_BYTES <= len(content):
        header = parse_header(content, position)
        if header is not None:
            return position, header
        position += 1
    return None


def decode_payload(payload: memoryview) -> Group:
    """Of a payload whose checksum is right."""
    try:
        base_index, base_term, count = _PREAMBLE.unpack_from(payload)
        position = _PREAMBLE.size
        entries = []
        for _ in range(count):
            length, index, term, kind = _ENTRY.unpack_from(payload, position)
            start = position + _ENTRY.size
            position = start + length
            entries.append(Entry(Index(index), Term(term), EntryKind(kind), bytes(payload[start:position])))
    except (struct.error, ValueError) as error:
        raise MalformedGroup(f"group cannot be read: {error}") from error
    if bytes(payload[position:]) != _END_MARK:
        raise MalformedGroup("group does not end where its entries end")
    restart_after = SnapshotId(Index(base_index), Term(base_term)) if base_index else None
    if not entries and restart_after is None:
        raise MalformedGroup("group is empty")
    return Group(restart_after, tuple(entries))


def has_missing_sector(content: bytes, position: int) -> bool:
    """Of the file's last group, which fails its checks: does a sector lack that was not written as zeros?

    That is what a power loss leaves of a write that was not synced: sectors reach the device in any order,
    and one that did not reads as zeros. A flipped bit leaves no such sector.
    """
    header = parse_header(content, position)
    if header is None:
        # The flag cannot be trusted. But sectors with a part of the header in them are never all zeros.
        end, last_start = len(content), position + HEADER_BYTES
    elif header.holds_zero_sectors:
        return False
    else:
        end = last_start = position + header.group_bytes
    start = position
    while start < last_start:
        stop = min(end, (start // _SECTOR_BYTES + 1) * _SECTOR_BYTES)
        if content.count(0, start, stop) == stop - start:
            return True
        start = stop
    return False
