"""The names in a partition's directory, and which of them may be removed.

00000000000000000000.log         batches, named by the first offset
00000000000000000000.index       sparse offset index, once the segment is sealed
00000000000000000000.timeindex   sparse time index, likewise
00000000000000004711.snapshot    producer state before offset 4711
leader-epoch-checkpoint          epoch -> first offset
log-checkpoint                   log start, recovery point, how the log was closed
compaction-checkpoint            how far the log is compacted, if it ever was
synced-before-it-counts          present from the first sync on that a record of this log had to wait for
damage                           present while the log is quarantined
*.tmp                            left by a crash; removed at start
<first>-<end>.cleaned            what compaction is writing; removed at start
<first>-<end>.swap               what compaction has written, to replace the segments between the two offsets;
                                 a start finishes that (``segment_swap``)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from quorate.core.disk import Disk
from quorate.core.ids import Offset
from quorate.storage.checkpoint import TEMPORARY_SUFFIX
from quorate.storage.leader_epochs import EPOCH_CHECKPOINT_NAME
from quorate.storage.log_config import LogConfig
from quorate.storage.log_context import LogContext
from quorate.storage.segment import LOG_SUFFIX, Segment, segment_path

__all__ = [
    "CLEANED_SUFFIX",
    "COMPACTION_CHECKPOINT_NAME",
    "LOG_CHECKPOINT_NAME",
    "SNAPSHOT_SUFFIX",
    "SWAP_SUFFIX",
    "SYNCED_NAME",
    "Span",
    "list_offsets",
    "list_segments",
    "list_snapshots",
    "list_swaps",
    "remove_all",
    "remove_temporary_files",
    "snapshot_path",
]

COMPACTION_CHECKPOINT_NAME: Final = "compaction-checkpoint"
LOG_CHECKPOINT_NAME: Final = "log-checkpoint"
SYNCED_NAME: Final = "synced-before-it-counts"
CLEANED_SUFFIX: Final = ".cleaned"
SNAPSHOT_SUFFIX: Final = ".snapshot"
SWAP_SUFFIX: Final = ".swap"

_DIGITS: Final = 20


class Span(NamedTuple):
    """The offsets of neighbouring segments that one takes the place of. A file's name tells both ends.

    So a start knows which segments were replaced, and need not read the one that replaces them.
    """

    base_offset: Offset
    #: exclusive
    end_offset: Offset

    def path(self, directory: str, suffix: str) -> str:
        return f"{directory}/{self.base_offset:020d}-{self.end_offset:020d}{suffix}"


def _stems(disk: Disk, directory: str, suffix: str) -> Iterator[str]:
    return (name.removesuffix(suffix) for name in disk.list(directory) if name.endswith(suffix))


def _is_offset(text: str) -> bool:
    return len(text) == _DIGITS and text.isdecimal()


def list_offsets(disk: Disk, directory: str, suffix: str) -> list[Offset]:
    """Offsets that files of this kind are named by, ascending; other names are left alone."""
    return sorted(Offset(int(stem)) for stem in _stems(disk, directory, suffix) if _is_offset(stem))


def list_segments(disk: Disk, directory: str) -> list[Offset]:
    return list_offsets(disk, directory, LOG_SUFFIX)


def list_snapshots(disk: Disk, directory: str) -> list[Offset]:
    return list_offsets(disk, directory, SNAPSHOT_SUFFIX)


def list_swaps(disk: Disk, directory: str) -> list[Span]:
    """Cleaned segments that are to replace others, by their offsets."""
    ends = (stem.split("-") for stem in _stems(disk, directory, SWAP_SUFFIX))
    return sorted(
        Span(Offset(int(pair[0])), Offset(int(pair[1])))
        for pair in ends
        if len(pair) == 2 and all(map(_is_offset, pair))
    )


def snapshot_path(directory: str, offset: Offset) -> str:
    return segment_path(directory, offset, SNAPSHOT_SUFFIX)


def remove_all(context: LogContext, config: LogConfig, directory: str) -> None:
    """Every batch, index, snapshot and epoch of a log; the newest first, so that no gap appears."""
    disk = context.disk
    # Before the segments: one that came back alone would be taken for what is to replace the next ones here.
    for span in list_swaps(disk, directory):
        disk.unlink(span.path(directory, SWAP_SUFFIX))
    for base in reversed(list_segments(disk, directory)):
        Segment(context, config, directory, base).delete()
    for offset in list_snapshots(disk, directory):
        disk.unlink(snapshot_path(directory, offset))
    for name in (EPOCH_CHECKPOINT_NAME, COMPACTION_CHECKPOINT_NAME):
        if disk.exists(f"{directory}/{name}"):
            disk.unlink(f"{directory}/{name}")


def remove_temporary_files(disk: Disk, directory: str) -> None:
    for name in disk.list(directory):
        if name.endswith((TEMPORARY_SUFFIX, CLEANED_SUFFIX)):
            disk.unlink(f"{directory}/{name}")
