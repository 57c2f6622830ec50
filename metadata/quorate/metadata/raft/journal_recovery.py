"""Reading the journal at a start: what counts, what never did, and what must not be taken for either.

Problem. The end of the journal may be a write that never finished. It was never answered for, and has to
go. But a group that was synced, and answered for, and has rotted since, may look much the same; cutting it
as if it were the first kind would let this voter forget an entry that was committed with its help.

What tells them apart is one rule of the writer's: *a group is written only after the one before it is
synced*, and a file begun only after the one before it is. So at most the very last group of the very last
file can be unfinished, in whatever order the device writes its sectors, and everything before it was
durable:

- *torn*: the last group ends with the file before its stated length, or the rest of the file is zeros. Cut.
- *torn by a power loss*: the machine was started anew since the journal was last sound, and a whole sector
  of the last group lacks that was not written as zeros. Cut. Without this case a power loss of all voters
  at once could leave a majority of them in the next state, and no voter to catch up with.
- *damaged tail*: the last group fails its checks in any other way. It may have been answered for. It is cut
  and kept aside, and the voter neither votes nor counts until it has caught up with a leader's log.
- *shortened*: groups are gone that were synced once, as the journal's mark knows (``journal_mark``), with or
  without a torn rest of them. As for a damaged tail.
- *damage*: anything that fails a check before the last group. Whoever finds it refuses to start (rule 42).

Rejected: a checksum per entry. Power loss may then keep the second entry of an unsynced write and not the
first, which looks like damage in the middle. Rejected as well: to rely on a mark of how far the journal is
synced. It would have to be durable, which takes a second sync for every one of the journal's;
``journal_mark`` only accuses.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace
from typing import Final

from crc32c import crc32c

from quorate.core.disk import Disk
from quorate.metadata.raft.entries import NO_INDEX, Index
from quorate.metadata.raft.journal_format import (
    HEADER_BYTES,
    VERSION,
    Group,
    GroupHeader,
    MalformedGroup,
    decode_payload,
    find_header,
    has_missing_sector,
    parse_header,
)
from quorate.metadata.raft.journal_replay import ORIGIN, Replay
from quorate.metadata.raft.quorum_damage import quorum_damaged

__all__ = [
    "FIRST_GROUP",
    "Recovered",
    "SegmentFile",
    "Tail",
    "TailKind",
    "read_journal",
    "segment_name",
    "segment_numbers",
]

#: the number of a journal's first group
FIRST_GROUP: Final = 1

_SUFFIX: Final = ".journal"
_DIGITS: Final = 20


class TailKind(enum.Enum):
    #: never finished, so never answered for
    TORN = "torn"
    #: may have been answered for, like what came after it
    DAMAGED = "damaged"


@dataclass(frozen=True, slots=True)
class Tail:
    """What stands in the last file behind the last group that counts."""

    kind: TailKind
    path: str
    position: int
    content: bytes
    reason: str


@dataclass(slots=True)
class SegmentFile:
    #: of its first group, also its name
    first_number: int
    #: of all entries and snapshots that its groups speak of
    highest_index: Index = NO_INDEX
    #: of the groups that count
    size: int = 0


@dataclass(slots=True)
class Recovered:
    replay: Replay
    #: oldest first
    segments: list[SegmentFile] = field(default_factory=list)
    #: of the group that is written next
    next_number: int = FIRST_GROUP
    tail: Tail | None = None
    #: the last group's place in the last file, and its bytes; nothing where that file holds none
    last_group_position: int = 0
    last_group: bytes = b""
    #: that were synced once, and are gone or not sound any more
    groups_lost: int = 0


def segment_name(first_number: int) -> str:
    return f"{first_number:0{_DIGITS}d}{_SUFFIX}"


def segment_numbers(names: list[str]) -> list[int]:
    """Which of a directory's files are the journal's, by the number of their first group, ascending."""
    stems = (name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX))
    return sorted(int(stem) for stem in stems if len(stem) == _DIGITS and stem.isascii() and stem.isdigit())


def read_journal(disk: Disk, directory: str, *, lost_power: bool, synced: int) -> Recovered:
    """Changes nothing. Raises QuorumDamaged, and OSError where a file cannot be read.

    ``lost_power``: the machine may have been started anew since the journal was last found sound, so that
    part of the last group may lack. ``synced``: the number of a group that was durable once.
    """
    numbers = segment_numbers(disk.list(directory))
    first = numbers[0] if numbers else FIRST_GROUP
    recovered = Recovered(Replay(ORIGIN if first == FIRST_GROUP else None), next_number=first)
    for first_number in numbers:
        path = f"{directory}/{segment_name(first_number)}"
        if first_number != recovered.next_number:
            raise quorum_damaged(
                path, f"the journal lacks its groups {recovered.next_number} to {first_number - 1}"
            )
        scan = _SegmentScan(path, disk.read_file(path), SegmentFile(first_number), recovered)
        scan.run(is_last=first_number == numbers[-1], lost_power=lost_power)
    recovered.groups_lost = max(0, synced - recovered.next_number + 1)
    if recovered.groups_lost and recovered.tail is not None:
        recovered.tail = replace(recovered.tail, kind=TailKind.DAMAGED)
    return recovered


class _Unreadable(Exception):
    """No sound group lies at the position; ``is_cut_off`` if the file ends before the group does."""

    def __init__(self, reason: str, *, is_cut_off: bool = False) -> None:
        super().__init__(reason)
        self.is_cut_off = is_cut_off


class _SegmentScan:
    def __init__(self, path: str, content: bytes, segment: SegmentFile, recovered: Recovered) -> None:
        self._path = path
        self._content = content
        self._segment = segment
        self._recovered = recovered

    def run(self, *, is_last: bool, lost_power: bool) -> None:
        recovered = self._recovered
        recovered.segments.append(self._segment)
        recovered.last_group_position, recovered.last_group = 0, b""
        try:
            while self._segment.size < len(self._content):
                self._take_group()
        except _Unreadable as fault:
            if not is_last:
                raise self._damage(f"{fault}, and another file of the journal follows") from fault
            recovered.tail = self._judge_tail(fault, lost_power=lost_power)
        except MalformedGroup as fault:
            raise self._damage(str(fault)) from fault
        if self._segment.size == 0 and not is_last:
            raise self._damage("the file is empty, and another file of the journal follows")

    def _take_group(self) -> None:
        recovered, segment, start = self._recovered, self._segment, self._segment.size
        header, group = _read_group(self._content, start, recovered.next_number)
        recovered.replay.apply(group)
        recovered.next_number += 1
        segment.size += header.group_bytes
        segment.highest_index = max(segment.highest_index, group.highest_index)
        recovered.last_group_position = start
        recovered.last_group = self._content[start : segment.size]

    def _judge_tail(self, fault: _Unreadable, *, lost_power: bool) -> Tail:
        position = self._segment.size
        rest = self._content[position:]
        later = self._find_later_group()
        if later is not None:
            raise self._damage(f"{fault}, and a sound group follows at byte {later}") from fault
        kind, reason = TailKind.DAMAGED, str(fault)
        if rest.count(0) == len(rest):
            kind, reason = TailKind.TORN, "only zeros follow"
        elif fault.is_cut_off:
            kind = TailKind.TORN
        elif lost_power and has_missing_sector(self._content, position):
            kind, reason = TailKind.TORN, "a sector never reached the device before the power was lost"
        return Tail(kind, self._path, position, rest, reason)

    def _find_later_group(self) -> int | None:
        """Written after the sync of what stands here. At any position: lengths cannot be trusted any more."""
        position = self._segment.size + 1
        while (found := find_header(self._content, position)) is not None:
            position, header = found
            is_later = header.number > self._recovered.next_number
            if is_later and _has_sound_payload(self._content, position, header):
                return position
            position += 1
        return None

    def _damage(self, reason: str) -> Exception:
        return quorum_damaged(self._path, reason, position=self._segment.size)


def _read_group(content: bytes, position: int, number: int) -> tuple[GroupHeader, Group]:
    if position + HEADER_BYTES > len(content):
        raise _Unreadable("the file ends within a group's header", is_cut_off=True)
    header = parse_header(content, position)
    if header is None:
        raise _Unreadable("a group's header fails its checks")
    if header.version != VERSION:
        raise MalformedGroup(f"version {header.version} of the format is not known here")
    if header.number != number:
        raise MalformedGroup(f"group {header.number} stands where {number} was due")
    if position + header.group_bytes > len(content):
        raise _Unreadable("the file ends within a group", is_cut_off=True)
    if not _has_sound_payload(content, position, header):
        raise _Unreadable("a group fails its checksum")
    start = position + HEADER_BYTES
    return header, decode_payload(memoryview(content)[start : position + header.group_bytes])


def _has_sound_payload(content: bytes, position: int, header: GroupHeader) -> bool:
    start, end = position + HEADER_BYTES, position + header.group_bytes
    return end <= len(content) and crc32c(memoryview(content)[start:end]) == header.payload_crc
