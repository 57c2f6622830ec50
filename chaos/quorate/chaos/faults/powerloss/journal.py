"""The undo journal that the shim writes, and which of its entries no sync has made void."""

from __future__ import annotations

import enum
import os
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

__all__ = ["Entry", "Kind", "parse_journal", "unsynced"]

_HEADING_BYTES: Final = 8
_MAGIC: Final = 0x4C535750
_FIXED: Final = struct.Struct("<IIQQQQII")


class Kind(enum.IntEnum):
    """As in undo_journal.h, which says what each of them means."""

    CHANGE = 1
    SYNC = 2
    BORN = 3
    MAKE = 4
    REMOVE = 5
    RENAME = 6


@dataclass(frozen=True, slots=True)
class Entry:
    #: its place in the journal: the order of all entries
    number: int
    kind: Kind
    #: of a file whose content changed, or of a directory in which a name did
    inode: int
    where: int
    size: int
    held: int
    first: bytes
    second: bytes

    @property
    def name(self) -> str:
        return os.fsdecode(self.first)

    @property
    def new_name(self) -> str:
        return os.fsdecode(self.second)

    @property
    def synced_by(self) -> int:
        """The inode whose sync makes it durable. A rename arrives in the directory of its new name."""
        return self.where if self.kind is Kind.RENAME else self.inode


def parse_journal(content: bytes) -> list[Entry]:
    """Up to the last that is complete: the process may have been killed while it wrote the next one."""
    entries = []
    position = _HEADING_BYTES
    while position + _FIXED.size <= len(content):
        magic, kind, inode, where, size, held, payload_bytes, first_bytes = _FIXED.unpack_from(
            content, position
        )
        begin = position + _FIXED.size
        end = begin + payload_bytes
        if magic != _MAGIC or end > len(content):
            break
        first, second = content[begin : begin + first_bytes], content[begin + first_bytes : end]
        entries.append(Entry(position, Kind(kind), inode, where, size, held, first, second))
        position = end
    return entries


def unsynced(entries: Iterable[Entry]) -> list[Entry]:
    """The changes that a power loss takes back, in the order in which they were made."""
    # By inode: what is older is void, because it was synced or is about an earlier owner of the number.
    void_before: dict[int, int] = {}
    changes = []
    for entry in entries:
        if entry.kind is Kind.SYNC:
            void_before[entry.inode] = max(entry.where, void_before.get(entry.inode, 0))
        elif entry.kind is Kind.BORN:
            void_before[entry.inode] = entry.number
        else:
            changes.append(entry)
    return [entry for entry in changes if entry.number >= void_before.get(entry.synced_by, 0)]
