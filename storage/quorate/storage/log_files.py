"""The names in a partition's directory, and which of them may be removed.

00000000000000000000.log         batches, named by the first offset
00000000000000000000.index       sparse offset index, once the segment is sealed
00000000000000000000.timeindex   sparse time index, likewise
00000000000000004711.snapshot    producer state before offset 4711
leader-epoch-checkpoint          epoch -> first offset
log-checkpoint                   log start, recovery point, how the log was closed
damage                           present while the log is quarantined
*.tmp                            left by a crash; removed at start
"""

from __future__ import annotations

from typing import Final

from quorate.core.disk import Disk
from quorate.core.ids import Offset
from quorate.storage.checkpoint import TEMPORARY_SUFFIX
from quorate.storage.leader_epochs import EPOCH_CHECKPOINT_NAME
from quorate.storage.log_config import LogConfig
from quorate.storage.log_context import LogContext
from quorate.storage.segment import LOG_SUFFIX, Segment, segment_path

__all__ = [
    "LOG_CHECKPOINT_NAME",
    "SNAPSHOT_SUFFIX",
    "list_segments",
    "list_snapshots",
    "remove_all",
    "remove_temporary_files",
    "snapshot_path",
]

LOG_CHECKPOINT_NAME: Final = "log-checkpoint"
SNAPSHOT_SUFFIX: Final = ".snapshot"

_DIGITS: Final = 20


def _offsets(disk: Disk, directory: str, suffix: str) -> list[Offset]:
    """Offsets that files of this kind are named by, ascending; other names are left alone."""
    stems = (name.removesuffix(suffix) for name in disk.list(directory) if name.endswith(suffix))
    return sorted(Offset(int(stem)) for stem in stems if len(stem) == _DIGITS and stem.isdecimal())


def list_segments(disk: Disk, directory: str) -> list[Offset]:
    return _offsets(disk, directory, LOG_SUFFIX)


def list_snapshots(disk: Disk, directory: str) -> list[Offset]:
    return _offsets(disk, directory, SNAPSHOT_SUFFIX)


def snapshot_path(directory: str, offset: Offset) -> str:
    return segment_path(directory, offset, SNAPSHOT_SUFFIX)


def remove_all(context: LogContext, config: LogConfig, directory: str) -> None:
    """Every batch, index, snapshot and epoch of a log; the newest first, so that no gap appears."""
    disk = context.disk
    for base in reversed(list_segments(disk, directory)):
        Segment(context, config, directory, base).delete()
    for offset in list_snapshots(disk, directory):
        disk.unlink(snapshot_path(directory, offset))
    epochs = f"{directory}/{EPOCH_CHECKPOINT_NAME}"
    if disk.exists(epochs):
        disk.unlink(epochs)


def remove_temporary_files(disk: Disk, directory: str) -> None:
    for name in disk.list(directory):
        if name.endswith(TEMPORARY_SUFFIX):
            disk.unlink(f"{directory}/{name}")
