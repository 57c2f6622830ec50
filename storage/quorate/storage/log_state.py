"""What the parts of one log share: its segments, epochs and producers, and whether it may be used.

The parts are ``LogWriter``, ``LogReader``, ``LogTrimmer`` and ``SyncState``; ``PartitionLog`` puts
them together. They all run on one event loop, so the state needs no lock.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right

from quorate.core.disk import lacks_descriptors
from quorate.core.ids import Offset
from quorate.core.logging import get_logger
from quorate.errors import (
    DiskFull,
    LogBusy,
    LogClosed,
    LogDamaged,
    StorageError,
    StorageFailed,
)
from quorate.storage.compaction_checkpoint import CompactionCheckpoint
from quorate.storage.descriptors import too_many_open_files, with_descriptors
from quorate.storage.leader_epochs import EPOCH_CHECKPOINT_NAME, LeaderEpochCache
from quorate.storage.log_config import LogConfig
from quorate.storage.log_context import LogContext, is_disk_full
from quorate.storage.producer_state import ProducerStates
from quorate.storage.quarantine import Damage, save_damage, sync_damage
from quorate.storage.recent_batches import RecentTail
from quorate.storage.segment import Segment

__all__ = ["LogState"]

log = get_logger(__name__)


class LogState:
    __slots__ = (
        "compaction",
        "config",
        "context",
        "cuts_begun",
        "cuts_under_way",
        "damage",
        "directory",
        "epochs",
        "is_closed",
        "log_start_offset",
        "marking",
        "producers",
        "recent",
        "segments",
        "write_failure",
    )

    def __init__(self, context: LogContext, config: LogConfig, directory: str) -> None:
        self.context = context
        self.config = config
        self.directory = directory
        #: by base offset, without gaps; the last one is appended to; empty only while opening
        self.segments: list[Segment] = []
        self.epochs = LeaderEpochCache(context.disk, f"{directory}/{EPOCH_CHECKPOINT_NAME}")
        self.producers = ProducerStates()
        self.recent = RecentTail(context.recent)
        #: inclusive: the first offset that may be read
        self.log_start_offset = Offset(0)
        #: why the log is quarantined; nothing is read or written while it is (rule 44)
        self.damage: Damage | None = None
        #: brings the mark of it to the device; ``settle_mark`` waits for it
        self.marking: asyncio.Task[None] | None = None
        #: why nothing is appended any more, although what is there can be read
        self.write_failure: str | None = None
        #: truncations and resets that were asked for and are not done. Until then nothing is appended: it
        #: would be cut off, or come before the cut is on the device
        self.cuts_under_way = 0
        #: how many there were since the start: what somebody has read of the log before may not be true after
        self.cuts_begun = 0
        #: how far the log is compacted; the file says the same
        self.compaction = CompactionCheckpoint()
        self.is_closed = False

    @property
    def active(self) -> Segment:
        return self.segments[-1]

    @property
    def log_end_offset(self) -> Offset:
        """Exclusive: the next offset to be written."""
        return self.segments[-1].next_offset if self.segments else self.log_start_offset

    def reconfigure(self, config: LogConfig) -> None:
        self.config = config
        for segment in self.segments:
            segment.config = config

    def segment_of(self, offset: Offset) -> Segment:
        """The segment that holds the offset, or would hold it next."""
        index = bisect_right(self.segments, offset, key=_base_offset) - 1
        assert index >= 0, "offsets before the log start are refused earlier"
        return self.segments[index]

    def check_open(self) -> None:
        if self.is_closed:
            raise LogClosed(f"the log in {self.directory} is closed", path=self.directory)

    def check_readable(self) -> None:
        if self.is_closed or self.damage is not None:
            self.check_open()
            assert self.damage is not None
            raise _damage_error(self.damage)

    def check_writable(self) -> None:
        if self.is_closed or self.damage is not None or self.write_failure is not None:
            self.check_readable()
            raise StorageFailed(
                f"the log in {self.directory} takes no writes until the node restarts: {self.write_failure}",
                path=self.directory,
            )

    @property
    def failure(self) -> LogDamaged | None:
        """What a caller is told while the log is quarantined."""
        return None if self.damage is None else _damage_error(self.damage)

    def check_appendable(self) -> None:
        if self.is_closed or self.damage is not None or self.write_failure is not None or self.cuts_under_way:
            self.check_writable()
            raise LogBusy(f"the log in {self.directory} is being truncated", path=self.directory)

    def quarantine(self, damage: Damage, *, is_marked: bool = False) -> LogDamaged:
        """From now on nothing of this log is served; the mark outlives a restart, and soon a power loss.

        ``is_marked``: a process before has written it, and perhaps not synced.
        """
        self.damage = damage
        log.error(
            "log_damaged",
            path=damage.path,
            position=damage.position,
            offset=damage.offset,
            reason=damage.reason,
        )
        must_save = self._save_mark(damage, is_marked=is_marked)
        if self.marking is None or self.marking.done():
            marking = self._bring_mark_to_device(damage, must_save=must_save)
            self.marking = asyncio.create_task(marking, name="mark-of-damage")
        return _damage_error(damage)

    def _save_mark(self, damage: Damage, *, is_marked: bool) -> bool:
        """Whether that is still to be done, for want of descriptors.

        Also a mark that is there: if a process failed to sync it, syncing again would do nothing (rule 45).
        """
        try:
            save_damage(self.context.disk, self.directory, damage)
        except OSError as error:
            if lacks_descriptors(error):
                return not is_marked
            if not (is_marked and is_disk_full(error)):
                self.context.note_storage_error("mark damage in", self.directory, error)
        return False

    async def _bring_mark_to_device(self, damage: Damage, *, must_save: bool) -> None:
        """Without a descriptor the disk is not even asked: that is tried again, for a while.

        A process that is killed until then forgets what was read: no more than if it had not been read.
        """
        disk, directory = self.context.disk, self.directory

        async def bring() -> None:
            nonlocal must_save
            if must_save:
                save_damage(disk, directory, damage)
                must_save = False
            await sync_damage(disk, directory)

        try:
            await with_descriptors(bring, self.context.clock, doing="mark damage in", path=directory)
        except FileNotFoundError:
            # It could not be written, which is on record; or the whole log is being deleted.
            return
        except OSError as error:
            doing = "mark damage in" if must_save else "sync the mark of damage in"
            self.context.note_storage_error(doing, directory, error)

    async def settle_mark(self) -> None:
        """Before the mark is lifted, or the log let go of; without descriptors that takes some seconds."""
        if self.marking is not None:
            await asyncio.wait([self.marking])

    def storage_error(self, doing: str, path: str, error: OSError) -> StorageError:
        """The typed error for a change to the files that did not happen."""
        if is_disk_full(error):
            # Undone and harmless: no storage error in the sense of rule 31.
            return DiskFull(f"no space left to {doing} {path}; free some, or add a disk", path=path)
        if lacks_descriptors(error):
            return too_many_open_files(doing, path)
        return self.storage_failed(doing, path, error)

    def storage_failed(self, doing: str, path: str, error: OSError) -> StorageFailed:
        """As ``storage_error`` where the change may have been half done: no more writes."""
        if not lacks_descriptors(error):
            # Else the files are as a process leaves them that dies just here, and a start goes on from that.
            self.context.note_storage_error(doing, path, error)
        self.write_failure = self.write_failure or f"cannot {doing} {path}: {error}"
        return StorageFailed(f"cannot {doing} {path}: {error}", path=path)

    def validate(self) -> None:
        self.epochs.validate()
        self.producers.validate()
        assert self.segments
        assert self.segments[0].base_offset <= self.log_start_offset
        assert self.log_start_offset <= self.log_end_offset
        for earlier, later in zip(self.segments, self.segments[1:], strict=False):
            assert earlier.next_offset == later.base_offset
            assert earlier.size > 0
        assert self.compaction.first_dirty_offset <= self.log_end_offset


def _base_offset(segment: Segment) -> Offset:
    return segment.base_offset


def _damage_error(damage: Damage) -> LogDamaged:
    return LogDamaged(
        f"the log is damaged and not served: {damage}",
        path=damage.path,
        position=damage.position,
        offset=damage.offset,
        reason=damage.reason,
    )
