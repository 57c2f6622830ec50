"""Making a log shorter: at the end by truncation, at the start by retention, altogether by a reset.

Each is ordered so that a crash between any two steps leaves a log that opens without a gap: what is
going to be true is on the device before files go, the newest segment goes first when the end is
cut, and the oldest first when the start moves up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from quorate.core.disk import NameNotSynced
from quorate.core.ids import Offset
from quorate.core.logging import get_logger
from quorate.errors import CorruptBatch, OffsetOutOfRange
from quorate.storage.compaction_checkpoint import (
    NOT_COMPACTED,
    Compacted,
    CompactionCheckpoint,
    save_compaction,
)
from quorate.storage.log_files import remove_all
from quorate.storage.log_state import LogState
from quorate.storage.log_writer import LogWriter
from quorate.storage.producer_snapshots import keep_snapshot, remove_snapshots, replay_producers
from quorate.storage.producer_state import ProducerStates
from quorate.storage.quarantine import Damage, lift_damage
from quorate.storage.retention import count_deletable
from quorate.storage.segment import Segment
from quorate.storage.steps import run_in_turns
from quorate.storage.sync_state import SyncState

__all__ = ["LogTrimmer"]

log = get_logger(__name__)


class LogTrimmer:
    __slots__ = ("_state", "_sync_state", "_writer")

    def __init__(self, state: LogState, sync_state: SyncState, writer: LogWriter) -> None:
        self._state = state
        self._sync_state = sync_state
        self._writer = writer

    async def _cut_alone(self, cut: Callable[[Offset], Awaitable[None]], offset: Offset) -> None:
        """No other change to the files meanwhile, and no appends.

        Appends are refused at once, not from when the cut's turn comes: a follower that was made leader in
        between would append what is then cut off. A caller that gives up must not leave a log half cut:
        the work goes on without it.
        """
        self._state.cuts_under_way += 1
        self._state.cuts_begun += 1
        self._state.recent.forget()
        task = asyncio.create_task(self._run_alone(cut, offset), name="trim")
        task.add_done_callback(self._cut_is_done)
        await asyncio.shield(task)

    async def _run_alone(self, cut: Callable[[Offset], Awaitable[None]], offset: Offset) -> None:
        async with self._sync_state.files_lock:
            await cut(offset)

    def _cut_is_done(self, task: asyncio.Task[None]) -> None:
        self._state.cuts_under_way -= 1
        # So that nobody complains of an error that was never looked at: the log's state tells of it.
        if not task.cancelled():
            task.exception()

    # -- the end

    async def truncate_to(self, offset: Offset, *, is_complete: bool) -> None:
        await self._cut_alone(partial(self._truncate_to, is_complete=is_complete), offset)

    async def _truncate_to(self, offset: Offset, *, is_complete: bool) -> None:
        state = self._state
        state.check_writable()
        if offset < state.log_start_offset:
            raise OffsetOutOfRange(f"cannot truncate to {offset}, before the log's start", offset=offset)
        if not is_complete and self._lacks_what_is_behind(offset):
            log.warning("compacted_log_dropped", path=state.directory, cut_at=offset)
            await self._reset_to(state.log_start_offset)
            return
        try:
            if offset < state.log_end_offset:
                boundary = state.segment_of(offset).batch_start(offset)
                # Before the cut, since it may take a while. Nothing is appended meanwhile.
                producers = await run_in_turns(
                    replay_producers(state.context.disk, state.directory, tuple(state.segments), boundary)
                )
                await self._sync_state.lower_on_disk(boundary)
                state.check_writable()
                self._cut_at(boundary, producers)
                await self._sync_state.sync_cut()
            # Also when nothing was cut: an epoch without batches may stand at the end.
            state.epochs.truncate_from_end(state.log_end_offset)
            if not state.epochs.is_saved:
                state.epochs.save_cached()
        except OSError as error:
            raise state.storage_error("truncate", state.directory, error) from error
        except CorruptBatch as error:
            damage = Damage.found_by(error, path=state.directory, offset=offset)
            raise state.quarantine(damage) from error

    def _lacks_what_is_behind(self, offset: Offset) -> bool:
        """Records before the cut are missing for the sake of records behind it: neither would be left."""
        return offset < min(self._state.compaction.compacted.superseded_below, self._state.log_end_offset)

    def _cut_at(self, offset: Offset, producers: ProducerStates) -> None:
        """``offset`` is a batch boundary. Half done, it leaves nothing to write behind."""
        state = self._state
        self._sync_state.lower(offset)
        self._sync_state.note_names_changed()
        state.log_start_offset = min(state.log_start_offset, offset)
        try:
            while len(state.segments) > 1 and state.active.base_offset >= offset:
                state.active.delete()
                state.segments.pop()
            state.active.truncate(offset)
            self._writer.forget_first_append()
            remove_snapshots(state.context.disk, state.directory, above=offset)
            state.producers = producers
        except OSError as error:
            raise state.storage_failed("truncate", state.directory, error) from error

    # -- the start

    async def apply_retention(self, below: Offset) -> int:
        state = self._state
        async with self._sync_state.files_lock:
            state.check_writable()
            count = self._count_deletable(below)
            if count == 0:
                return 0
            if count == len(state.segments):
                self._writer.roll()
            await self._raise_log_start(max(state.log_start_offset, state.segments[count].base_offset))
            return count

    def expired_below(self, high_watermark: Offset) -> Offset:
        """Retention would have the log begin here, or where it begins already."""
        state = self._state
        state.check_writable()
        count = self._count_deletable(high_watermark)
        return max(state.log_start_offset, state.segments[count - 1].next_offset if count else Offset(0))

    def _count_deletable(self, below: Offset) -> int:
        state = self._state
        now_ms = state.context.retention_time.now_ms()
        try:
            return count_deletable(
                state.segments,
                state.config,
                now_ms=now_ms,
                below=below,
                log_start_offset=state.log_start_offset,
            )
        except OSError as error:
            raise state.storage_error("read the indexes of", state.directory, error) from error
        except CorruptBatch as error:
            damage = Damage.found_by(error, path=state.directory, offset=state.log_start_offset)
            raise state.quarantine(damage) from error

    async def advance_log_start(self, offset: Offset) -> None:
        state = self._state
        async with self._sync_state.files_lock:
            state.check_writable()
            if offset > state.log_end_offset:
                raise OffsetOutOfRange(
                    f"the log ends at {state.log_end_offset}, before {offset}", offset=offset
                )
            if offset > state.log_start_offset:
                await self._raise_log_start(offset)

    async def _raise_log_start(self, offset: Offset) -> None:
        state = self._state
        try:
            # On a full disk this makes room for the checkpoint, without which nothing may be deleted.
            for segment, following in zip(state.segments, state.segments[1:], strict=False):
                if following.base_offset <= offset:
                    segment.unlink_indexes()
            first_kept = state.segment_of(offset).base_offset
            if first_kept > state.segments[0].base_offset:
                await keep_snapshot(state.context.disk, state.directory, state.segments, first_kept)
            # Files go only when the device knows the new start. Not before that do readers: on a full
            # disk the log start stays where it was.
            await self._sync_state.write_checkpoint(log_start_offset=offset)
            state.log_start_offset = offset
            self._sync_state.note_names_changed()
            # Not to the log start as such: a segment may have begun there meanwhile, and no snapshot was kept
            # for that.
            while state.segments[0].base_offset < first_kept:
                state.segments.pop(0).delete()
            remove_snapshots(state.context.disk, state.directory, below=first_kept)
            # Up to the first batch that is still there, not to the log start within its segment.
            if state.epochs.truncate_from_start(first_kept):
                state.epochs.save_cached()
        except OSError as error:
            raise state.storage_error("delete segments of", state.directory, error) from error
        except CorruptBatch as error:
            damage = Damage.found_by(error, path=state.directory, offset=offset)
            raise state.quarantine(damage) from error

    # -- everything

    async def reset_to(self, offset: Offset, compacted: Compacted) -> None:
        await self._cut_alone(partial(self._reset_to, compacted=compacted), offset)

    async def _reset_to(self, offset: Offset, compacted: Compacted = NOT_COMPACTED) -> None:
        """The intention is on the device first; a crash in between is finished at the next start."""
        state = self._state
        state.check_open()
        try:
            await self._sync_state.write_checkpoint(reset_to=offset)
        except NameNotSynced as error:
            # The next start finishes the reset, and would drop what came now.
            raise state.storage_failed("reset", state.directory, error) from error
        except OSError as error:
            raise state.storage_error("reset", state.directory, error) from error
        try:
            await self._start_anew_at(offset, compacted)
        except OSError as error:
            # On a full disk too: the next start finishes the reset, and would drop what came now.
            raise state.storage_failed("reset", state.directory, error) from error

    async def _start_anew_at(self, offset: Offset, compacted: Compacted) -> None:
        state = self._state
        for segment in state.segments:
            segment.retire()
        remove_all(state.context, state.config, state.directory)
        state.segments[:] = [Segment.create(state.context, state.config, state.directory, offset)]
        state.epochs.clear()
        state.producers = ProducerStates()
        state.compaction = CompactionCheckpoint(compacted=compacted)
        state.log_start_offset = offset
        self._writer.forget_first_append()
        self._sync_state.restart_at(offset)
        await state.context.disk.fsync_directory(state.directory)
        if compacted != NOT_COMPACTED:
            # Before the log may get its first batch.
            disk, clock = state.context.disk, state.context.clock
            await save_compaction(disk, state.directory, state.compaction, clock=clock)
        await self._sync_state.write_checkpoint()
        # The mark of damage goes last: until here the log must not pass for a sound one.
        await state.settle_mark()
        await lift_damage(state.context.disk, state.directory)
        state.damage = None
