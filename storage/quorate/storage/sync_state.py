"""What of a log is on the device, and the checkpoint that says so.

The recovery point on disk never promises more than was synced (rule 46). It is lowered there
before a truncation: otherwise a power loss after the truncation would make the next start skip
batches that were written since and never synced.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, NamedTuple

from quorate.core.disk import NameNotSynced, lacks_descriptors
from quorate.core.ids import Offset
from quorate.core.logging import get_logger
from quorate.errors import StorageError
from quorate.storage.checkpoint import write_durably
from quorate.storage.descriptors import too_many_open_files
from quorate.storage.group_commit import GroupCommit
from quorate.storage.log_files import LOG_CHECKPOINT_NAME, SYNCED_NAME
from quorate.storage.log_state import LogState
from quorate.storage.producer_snapshots import encode_snapshot, sync_snapshot, write_snapshot
from quorate.storage.producer_state import ProducerStates
from quorate.storage.segment import Segment
from quorate.storage.steps import run_in_turns

__all__ = ["SyncState"]

log = get_logger(__name__)

#: of a log; a topic that syncs before it acknowledges needs one or two
_WRITTEN_FILES_MAX: Final = 8


class _SnapshotDue(NamedTuple):
    end_offset: Offset
    producers: ProducerStates
    #: as they were then: a cut since may have taken the batches that it speaks of
    cuts_begun: int


class SyncState:
    __slots__ = (
        "_checkpointed",
        "_commits",
        "_directory_changed",
        "_is_checkpoint_in_doubt",
        "_is_let_go",
        "_is_marked",
        "_sealed_unsynced",
        "_snapshot_due",
        "_state",
        "files_lock",
    )

    def __init__(self, state: LogState, *, recovery_point: Offset) -> None:
        self._state = state
        self._commits = GroupCommit(self._sync, lambda: state.log_end_offset, synced_offset=recovery_point)
        #: the recovery point that the checkpoint on disk names
        self._checkpointed = recovery_point
        #: it has been replaced, and nobody knows by which of the two a power loss would be followed
        self._is_checkpoint_in_doubt = False
        #: ``mark`` was called in this process
        self._is_marked = False
        self._is_let_go = False
        self._sealed_unsynced: list[Segment] = []
        #: of many producers; an older one would only be another that shortens the replay less
        self._snapshot_due: _SnapshotDue | None = None
        #: names were made or removed since the directory was synced
        self._directory_changed = True
        #: one at a time: whatever rewrites the checkpoint or removes files
        self.files_lock = asyncio.Lock()

    @property
    def recovery_point(self) -> Offset:
        """Everything below is on the device (exclusive)."""
        return self._commits.synced_offset

    @property
    def checkpointed(self) -> Offset:
        """The recovery point on disk (exclusive), at least: a start trusts segments below it."""
        return self._checkpointed

    @property
    def is_checkpoint_due(self) -> bool:
        """Would the next start scan a sealed segment? Synced or not: flushing alone moves nothing on disk."""
        return self._is_checkpoint_in_doubt or self._state.active.base_offset > self._checkpointed

    @property
    def is_snapshot_due(self) -> bool:
        return self._snapshot_due is not None

    def note_sealed(self, *segments: Segment) -> None:
        self._sealed_unsynced += segments
        for segment in self._sealed_unsynced[:-_WRITTEN_FILES_MAX]:
            segment.let_go_of_written_file()
        self._directory_changed = True

    def note_snapshot_due(self) -> None:
        """Of the producers as they are now.

        None of what is about to be cut off: the cut is counted when it is asked for, and comes after this.
        """
        state = self._state
        if state.cuts_under_way:
            self._snapshot_due = None
            return
        self._snapshot_due = _SnapshotDue(state.log_end_offset, state.producers.copy(), state.cuts_begun)

    async def write_snapshot_due(self) -> None:
        due, self._snapshot_due = self._snapshot_due, None
        if due is None:
            return
        state = self._state
        encoded = await run_in_turns(encode_snapshot(due.producers))
        async with self.files_lock:
            if state.is_closed or state.cuts_begun != due.cuts_begun:
                return  # there may be other batches before that offset by now
            try:
                await write_snapshot(state.context.disk, state.directory, encoded, due.end_offset)
            except OSError as error:
                # The batches tell the same, or a snapshot that was kept before they went.
                log.warning("producer_snapshot_not_written", path=state.directory, error=str(error))

    def mark(self) -> None:
        """Records of this log count for being on the device: a start has to know that (``opening``).

        In the page cache: a loss of power, which takes it away, is enough of a reason by itself.
        """
        if not self._is_marked:
            state = self._state
            state.context.disk.open(f"{state.directory}/{SYNCED_NAME}", create=True).close()
            self._is_marked = True

    def note_names_changed(self) -> None:
        self._directory_changed = True

    async def flush(self) -> None:
        """Returns once everything appended before the call is on the device."""
        await self._commits.wait_for(self._state.log_end_offset)

    async def flush_sealed(self) -> None:
        """Sealed segments with their indexes, also if all their batches were synced while they were active.

        A start trusts the indexes of what lies below the recovery point; an older index that a power
        loss brings back has a good checksum and does not know the newest records.
        """
        await self._commits.settle()
        while self._sealed_unsynced:
            await self._commits.run_once()

    async def flush_all(self) -> None:
        """As ``flush``, without regard to what is thought to be on the device already."""
        end_offset = self._state.log_end_offset
        await self._sync()
        self._commits.restart_at(end_offset)

    async def sync_cut(self) -> None:
        """The end of the log was cut off: on the device too, before anything is written there.

        Otherwise a power loss could undo the cut and keep some of what was written over it: old
        batches between new ones, in a chain without a flaw.
        """
        try:
            await self._state.active.sync()
            await self._state.epochs.sync()
            await self._state.context.disk.fsync_directory(self._state.directory)
        except OSError as error:
            if lacks_descriptors(error):
                # Nothing failed on the device, but nothing may be written before the cut is there.
                raise self._state.storage_failed("sync", self._state.directory, error) from error
            raise self.sync_failed(error) from error

    def let_go(self) -> None:
        """No sync begins any more: whoever waited for the last one may delete the files."""
        self._is_let_go = True

    async def settle(self) -> None:
        """Wait for a sync under way, whatever its outcome."""
        await self._commits.settle()

    async def _sync(self) -> None:
        if self._is_let_go:
            # A file that is deleted and not found would pass for a device that failed.
            self._state.check_open()
        # They stay in the list until they are on the device: a checkpoint may be written meanwhile.
        sealed = list(self._sealed_unsynced)
        directory_changed, self._directory_changed = self._directory_changed, False
        try:
            for segment in [*sealed, self._state.active]:
                await self._sync_segment(segment)
            for segment in sealed:
                await sync_snapshot(self._state.context.disk, self._state.directory, segment.next_offset)
            await self._state.epochs.sync()
            if directory_changed:
                await self._state.context.disk.fsync_directory(self._state.directory)
        except OSError as error:
            self._directory_changed |= directory_changed
            raise self.sync_failed(error) from error
        for segment in sealed:
            # Once each: what was cut, filled and sealed again meanwhile is there a second time, and unsynced.
            if segment in self._sealed_unsynced:
                self._sealed_unsynced.remove(segment)

    async def _sync_segment(self, segment: Segment) -> None:
        try:
            await segment.sync()
        except FileNotFoundError:
            # Retention or a truncation may have deleted it while another one was being synced.
            if segment in self._state.segments:
                raise

    def sync_failed(self, error: OSError) -> StorageError:
        """Never retried: the kernel has forgotten which pages were not written (rule 45).

        Except where nothing was asked of the device, for want of a descriptor to ask it through.
        """
        state = self._state
        if not lacks_descriptors(error):
            state.write_failure = f"sync failed: {error}"
            state.context.note_storage_error("sync", state.directory, error)
            # Not the sync itself, then, but the way to it: as little is known of what is on the device.
            state.context.on_fatal(f"cannot sync {state.directory}: {error}")
        return too_many_open_files("sync", state.directory)

    def lower(self, offset: Offset) -> None:
        """What comes at and after ``offset`` is not on the device any more."""
        self._commits.lower(offset)

    async def lower_on_disk(self, offset: Offset) -> None:
        """Before the log is cut at ``offset``; a log start in the batch that goes is lowered with it."""
        self.lower(offset)
        log_start_offset = min(self._state.log_start_offset, offset)
        if (
            self._is_checkpoint_in_doubt
            or self._checkpointed > offset
            or log_start_offset != self._state.log_start_offset
        ):
            await self.write_checkpoint(log_start_offset=log_start_offset)

    def restart_at(self, offset: Offset) -> None:
        """The log was emptied and starts at ``offset``."""
        self._sealed_unsynced.clear()
        self._commits.restart_at(offset)

    async def write_checkpoint(
        self,
        *,
        clean_end: tuple[Offset, int] | None = None,
        log_start_offset: Offset | None = None,
        reset_to: Offset | None = None,
    ) -> None:
        """The caller holds ``files_lock``, or is alone with the log.

        ``log_start_offset`` is given where the checkpoint has to tell of it before the log does.
        """
        # Never past a sealed segment whose indexes are not on the device.
        unsynced = (segment.base_offset for segment in self._sealed_unsynced)
        recovery_point = min([self.recovery_point, *unsynced])
        if log_start_offset is None:
            log_start_offset = self._state.log_start_offset
        checkpoint: dict[str, Any] = {
            "clean_end": clean_end,
            "log_start_offset": log_start_offset,
            "recovery_point": recovery_point,
            "reset_to": reset_to,
        }
        path = f"{self._state.directory}/{LOG_CHECKPOINT_NAME}"
        context = self._state.context
        try:
            await write_durably(context.disk, path, checkpoint, clock=context.clock)
        except NameNotSynced:
            self._is_checkpoint_in_doubt = True
            self._checkpointed = min(self._checkpointed, recovery_point)
            raise
        self._checkpointed = recovery_point
        self._is_checkpoint_in_doubt = False
