"""What disks and operators do to a voter's journal while it does not run, where its format decides.

Damage to any file at any place is ``quorate.chaos.faults.damage``'s.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from quorate.chaos.faults.damage import FileKind, files_of, overwrite
from quorate.core.os_disk import OsDisk
from quorate.metadata.raft.entries import Entry, EntryKind, Index, Term
from quorate.metadata.raft.journal_format import encode_group, parse_header
from quorate.metadata.raft.journal_mark import read_synced_mark

__all__ = [
    "cut_tail",
    "flip_bit_in_last_group",
    "flip_bit_in_the_middle",
    "tear_write",
    "unfinished_snapshots",
]

_BYTES_LEFT: Final = 5
_UNFINISHED_SUFFIX: Final = ".snapshot.tmp"


def tear_write(directory: str) -> str:
    """Leave the beginning of a group, as a process that dies while it writes does; returns the file."""
    path = _journal_files(directory)[-1]
    number = _last_number(path) + 1
    entry = Entry(Index(number), Term(number), EntryKind.COMMAND, b"never acknowledged")
    header, payload = encode_group(number, None, [entry])
    with open(path, "ab") as file:
        file.write(header + payload[: len(payload) // 2])
    return path


def cut_tail(directory: str) -> None:
    """The last group that is known to be synced is gone but for a few bytes, and all that came after it."""
    synced = read_synced_mark(OsDisk(), directory)
    for path in reversed(_journal_files(directory)):
        positions = {number: position for position, number in _groups(path)}
        if synced in positions:
            os.truncate(path, positions[synced] + _BYTES_LEFT)
            return
        # Begun after it.
        os.unlink(path)
    raise AssertionError(f"group {synced} is marked as synced, and in no file of {directory}")


def flip_bit_in_last_group(directory: str) -> str:
    """In its last byte but one, so that it cannot be the header of anything."""
    path = _journal_files(directory)[-1]
    _flip(path, os.path.getsize(path) - 2)
    return path


def flip_bit_in_the_middle(directory: str) -> str:
    """Sound groups follow, so nobody can say that the write was cut off."""
    path = _journal_files(directory)[0]
    _flip(path, os.path.getsize(path) // 2)
    return path


def unfinished_snapshots(directory: str) -> list[str]:
    return [name for name in os.listdir(directory) if name.endswith(_UNFINISHED_SUFFIX)]


def _journal_files(directory: str) -> list[str]:
    """The oldest first; those without content hold no group."""
    return files_of(directory, FileKind.JOURNAL)


def _last_number(path: str) -> int:
    return [number for _, number in _groups(path)][-1]


def _groups(path: str) -> Iterator[tuple[int, int]]:
    """Where each begins, and its number."""
    with open(path, "rb") as file:
        content = file.read()
    position = 0
    while position < len(content):
        header = parse_header(content, position)
        assert header is not None, f"{path} is not sound at byte {position}"
        yield position, header.number
        position += header.group_bytes


def _flip(path: str, position: int) -> None:
    overwrite(path, position, lambda old: bytes([old[0] ^ 0x10]), 1)
