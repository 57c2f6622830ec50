"""Compaction: of every key the latest record stays, and what it has replaced goes (rule 48).

A pass reads the log twice. First the part that is *dirty*, new since the last pass, to learn the newest
offset of each key. Then everything from the start to the end of that part, one group of segments after
another, to write what stays of it into a new segment, which takes the place of the group
(``segment_swap``).

What may be looked at: sealed segments, below the high watermark and below the recovery point on disk. So
nothing goes because of a record that may still be cut off, or that a power loss can take. It ends where the
memory for keys is used up, too; the next pass goes on from there.

    log start <= first_dirty_offset <= end of the pass <= high watermark, recovery point, active segment

All that waits lets appends, reads and cuts go on. Files are changed only under ``files_lock``, after a look
whether the log is still the one that was read: a segment that retention has deleted ends its group, a cut
ends the pass.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Final

from quorate.core.ids import Offset, TimestampMs
from quorate.core.logging import get_logger
from quorate.core.records import BatchHeader, RecordKey
from quorate.errors import CorruptBatch
from quorate.storage.batch_cleaner import RECORDS_PER_STEP, BatchCleaner, keys_in
from quorate.storage.cleaned_segment import CleanedSegment
from quorate.storage.compaction_checkpoint import Compacted, CompactionCheckpoint, save_compaction
from quorate.storage.log_files import Span
from quorate.storage.log_state import LogState
from quorate.storage.offset_map import OffsetMap
from quorate.storage.producer_snapshots import replay_producers
from quorate.storage.quarantine import Damage
from quorate.storage.segment import RELATIVE_OFFSET_MAX, Segment
from quorate.storage.segment_swap import swap_in
from quorate.storage.steps import Steps, run_in_turns
from quorate.storage.sync_state import SyncState

__all__ = ["CompactionReport", "LogCompactor"]

log = get_logger(__name__)

#: as many take some milliseconds to read, check and write
_BYTES_PER_STEP: Final = 256 << 10


@dataclass(slots=True)
class CompactionReport:
    """What a pass has done."""

    #: everything below is compacted (exclusive)
    first_dirty_offset: Offset
    #: there was memory for all keys: nothing that could be cleaned is left
    is_complete: bool
    segments_before: int = 0
    segments_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    records_removed: int = 0


class _Overtaken(Exception):
    """The log was cut, closed or found damaged meanwhile. It never leaves this module."""


class LogCompactor:
    __slots__ = ("_is_running", "_state", "_sync_state")

    def __init__(self, state: LogState, sync_state: SyncState) -> None:
        self._state = state
        self._sync_state = sync_state
        #: one at a time: two would write to the same file
        self._is_running = False

    async def compact(self, below: Offset) -> CompactionReport | None:
        """One pass, if one is due. None: it was not, or something else happened to the log meanwhile."""
        state = self._state
        state.check_writable()
        if not self._may_begin():
            return None
        now_ms = state.context.retention_time.now_ms()
        with self._guarded():
            end_offset = self._cleanable_end(below, now_ms)
            if end_offset is None:
                return None
            one_pass = _Pass(state, self._sync_state, end_offset=end_offset, now_ms=now_ms)
            self._is_running = True
            try:
                return await one_pass.run()
            except _Overtaken:
                return None
            finally:
                one_pass.when_swapped(self._ended)

    def _may_begin(self) -> bool:
        """Not in the middle of a cut: what is sealed now may take appends again before it is cleaned."""
        return not self._is_running and not self._state.cuts_under_way

    def _ended(self) -> None:
        self._is_running = False

    def note_complete(self) -> None:
        """On the device with whatever is noted next: until then a start says again that it is unknown."""
        state = self._state
        state.compaction = state.compaction.complete_at(state.log_end_offset)

    async def note_superseded(self, below: Offset) -> None:
        """By the leader's compaction, in what is copied next; on the device when this returns."""
        state = self._state
        async with self._sync_state.files_lock:
            state.check_writable()
            noted = state.compaction.copied_from(Compacted(superseded_below=below))
            try:
                await save_compaction(state.context.disk, state.directory, noted, clock=state.context.clock)
            except OSError as error:
                raise state.storage_error("note compaction in", state.directory, error) from error
            state.compaction = noted

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Bytes that make no sense are damage; a change that did not happen is told as the disk tells it."""
        state = self._state
        try:
            yield
        except OSError as error:
            raise state.storage_error("compact", state.directory, error) from error
        except CorruptBatch as error:
            damage = Damage.found_by(error, path=state.directory, offset=state.log_start_offset)
            raise state.quarantine(damage) from error

    def _cleanable_end(self, below: Offset, now_ms: TimestampMs) -> Offset | None:
        """Up to where (exclusive) a pass may go; None if none is worth it."""
        state, config = self._state, self._state.config
        cleanable = self._cleanable(min(below, self._sync_state.checkpointed), now_ms)
        first_dirty_offset = state.compaction.first_dirty_offset
        if not cleanable or cleanable[-1].next_offset < first_dirty_offset:
            return None
        dirty_bytes = sum(segment.size for segment in cleanable if segment.next_offset > first_dirty_offset)
        is_dirty = dirty_bytes > 0 and dirty_bytes >= config.min_cleanable_dirty_ratio * sum(
            segment.size for segment in cleanable
        )
        if is_dirty or _expired_tombstones_end(state, now_ms) > cleanable[0].base_offset:
            return cleanable[-1].next_offset
        return None

    def _cleanable(self, limit: Offset, now_ms: TimestampMs) -> list[Segment]:
        lag_ms = self._state.config.min_compaction_lag_ms
        cleanable: list[Segment] = []
        for segment in self._state.segments[:-1]:
            if segment.next_offset > limit or (lag_ms and now_ms - segment.max_timestamp < lag_ms):
                break
            cleanable.append(segment)
        return cleanable


def _expired_tombstones_end(state: LogState, now_ms: TimestampMs) -> Offset:
    return state.compaction.expired_tombstones_end(
        now_ms=now_ms, delete_retention_ms=state.config.delete_retention_ms
    )


class _Pass:
    def __init__(
        self, state: LogState, sync_state: SyncState, *, end_offset: Offset, now_ms: TimestampMs
    ) -> None:
        self._state = state
        self._sync_state = sync_state
        self._cuts_begun = state.cuts_begun
        self._now_ms = now_ms
        self._newest = OffsetMap(bytes_max=state.context.dedupe_buffer_bytes)
        self._first_dirty_offset = max(state.compaction.first_dirty_offset, state.segments[0].base_offset)
        self._tombstones_end = _expired_tombstones_end(state, now_ms)
        #: exclusive; lowered if there is no memory for all keys
        self._end_offset = max(end_offset, self._first_dirty_offset)
        self._report = CompactionReport(self._end_offset, is_complete=True)
        #: bytes and records since others had their turn
        self._bytes_done = 0
        self._records_done = 0
        #: the latest, which may outlive the pass
        self._swap: asyncio.Task[None] | None = None

    async def run(self) -> CompactionReport:
        state, report = self._state, self._report
        await self._in_turns(self._learn_newest())
        report.first_dirty_offset = self._end_offset
        remembered = await self._remembered_batches()
        await self._save(
            lambda known: known.begun(end_offset=self._end_offset, tombstones_end=self._tombstones_end)
        )
        cleaner = BatchCleaner(
            self._newest,
            first_dirty_offset=self._first_dirty_offset,
            end_offset=self._end_offset,
            tombstones_end=self._tombstones_end,
            remembered=remembered,
        )
        await self._clean_all(cleaner)
        await self._save(
            lambda known: known.finished(
                end_offset=self._end_offset,
                tombstones_end=self._tombstones_end,
                has_new_tombstones=cleaner.has_new_tombstones,
                now_ms=self._now_ms,
            )
        )
        report.records_removed = cleaner.records_removed
        log.info("log_compacted", path=state.directory, **asdict(report))
        return report

    def when_swapped(self, then: Callable[[], None]) -> None:
        """``then`` is called at once, unless who asked for the pass has given up in the middle of a swap."""
        if self._swap is None or self._swap.done():
            then()
        else:
            self._swap.add_done_callback(lambda _: then())

    # -- what is newest

    def _learn_newest(self) -> Steps[None]:
        """Of the dirty part, as far as there is memory for its keys."""
        for segment in self._segments_from(self._first_dirty_offset):
            self._check_still_there(segment)
            position = segment.position_of(max(self._first_dirty_offset, segment.base_offset))
            for header, batch in segment.batches(position):
                if header.base_offset >= self._end_offset:
                    return
                self._check_epoch(header, segment)
                if not self._newest.has_room_for(header.record_count):
                    self._end_offset = header.base_offset
                    self._report.is_complete = False
                    return
                keys = keys_in(header, batch)
                for first in range(0, len(keys), RECORDS_PER_STEP):
                    step = keys[first : first + RECORDS_PER_STEP]
                    self._put(step)
                    yield from self._take_turns(records=len(step))
                yield from self._take_turns(bytes_done=len(batch))

    def _put(self, records: list[RecordKey]) -> None:
        for record in records:
            if record.key is not None:
                self._newest.put(record.key, record.offset)

    def _segments_from(self, offset: Offset) -> list[Segment]:
        """Those of the pass that reach beyond the offset."""
        return [
            segment
            for segment in self._state.segments[:-1]
            if segment.next_offset > offset and segment.base_offset < self._end_offset
        ]

    def _check_epoch(self, header: BatchHeader, segment: Segment) -> None:
        """The checksum does not cover it, and whatever is made of the batch gets a new one."""
        if header.leader_epoch != self._state.epochs.epoch_at(header.base_offset):
            # Retention takes the epochs together with the batches.
            self._check_still_there(segment)
            raise CorruptBatch(
                f"leader epoch {header.leader_epoch} of the batch at offset {header.base_offset} is not the "
                "one on record",
                path=segment.path,
                position=segment.position_of(header.base_offset),
            )

    async def _remembered_batches(self) -> set[Offset]:
        """Those by which producers are known where the pass ends, which is the earliest where anyone asks."""
        state = self._state
        async with self._sync_state.files_lock:
            self._check_undisturbed()
            producers = await run_in_turns(
                replay_producers(state.context.disk, state.directory, tuple(state.segments), self._end_offset)
            )
        return producers.remembered_offsets()

    # -- what stays

    async def _clean_all(self, cleaner: BatchCleaner) -> None:
        """The earlier ones first, each on the device before the next (``segment_swap``)."""
        offset = self._state.segments[0].base_offset
        while group := self._next_group(offset):
            # Not only between steps: whoever waited for the last swap may have been waiting to close the log.
            self._check_undisturbed()
            offset = group[-1].next_offset
            await self._clean_group(group, cleaner)

    def _next_group(self, offset: Offset) -> list[Segment]:
        """Neighbours that fit one segment as they are. What was cleaned before is small, and is joined."""
        group: list[Segment] = []
        size = 0
        for segment in self._segments_from(offset):
            size += segment.size
            is_full = size > self._state.config.segment_bytes
            if group and (is_full or segment.next_offset - 1 - group[0].base_offset > RELATIVE_OFFSET_MAX):
                break
            group.append(segment)
        return group

    async def _clean_group(self, group: list[Segment], cleaner: BatchCleaner) -> None:
        state, report = self._state, self._report
        size_before = sum(segment.size for segment in group)
        span = Span(group[0].base_offset, group[-1].next_offset)
        cleaned = CleanedSegment(state.context, state.config, state.directory, span)
        removed_before = cleaner.records_removed
        try:
            await self._in_turns(self._write_cleaned(group, cleaned, cleaner))
            is_same = cleaner.records_removed == removed_before and cleaned.segment.size == size_before
            is_needed = not is_same or len(group) > 1
            if is_needed:
                await cleaned.finish()
        except Exception:
            # A process that is ending leaves it to the next one.
            cleaned.discard()
            raise
        if is_needed:
            await self._swap_in(group, cleaned)
        else:
            # As a rule, a part of the log that was cleaned before.
            cleaned.discard()
        report.segments_before += len(group)
        report.segments_after += 1
        report.bytes_before += size_before
        report.bytes_after += cleaned.segment.size

    def _write_cleaned(
        self, group: list[Segment], cleaned: CleanedSegment, cleaner: BatchCleaner
    ) -> Steps[None]:
        for segment in group:
            self._check_still_there(segment)
            for header, batch in segment.batches():
                self._check_epoch(header, segment)
                left = yield from cleaner.clean(header, batch)
                if left is None:
                    cleaned.drop(header)
                else:
                    cleaned.keep(header, left)
                yield from self._take_turns(records=header.record_count, bytes_done=len(batch))

    async def _swap_in(self, group: list[Segment], cleaned: CleanedSegment) -> None:
        """To the end, also if nobody waits for it any more: so the file belongs to the task from here on."""
        self._swap = asyncio.create_task(self._swap_alone(group, cleaned), name="swap-in")
        self._swap.add_done_callback(_look_at_error)
        await asyncio.shield(self._swap)

    async def _swap_alone(self, group: list[Segment], cleaned: CleanedSegment) -> None:
        async with self._sync_state.files_lock:
            try:
                self._check_undisturbed()
                for segment in group:
                    self._check_still_there(segment)
                # Readers get what the files have, and not what they had.
                self._state.recent.forget()
                await swap_in(self._state, group, cleaned.segment, cleaned.span)
            except Exception:
                cleaned.discard()
                raise

    # -- beside others

    async def _in_turns(self, steps: Steps[None]) -> None:
        for _ in steps:
            await asyncio.sleep(0)
            self._check_undisturbed()

    def _take_turns(self, *, records: int = 0, bytes_done: int = 0) -> Steps[None]:
        self._records_done += records
        self._bytes_done += bytes_done
        if self._records_done >= RECORDS_PER_STEP or self._bytes_done >= _BYTES_PER_STEP:
            self._records_done = self._bytes_done = 0
            yield

    def _check_undisturbed(self) -> None:
        """What was learned of the log is still true, and its files may be changed."""
        state = self._state
        if state.is_closed or state.cuts_begun != self._cuts_begun:
            raise _Overtaken
        state.check_writable()

    def _check_still_there(self, segment: Segment) -> None:
        """Retention may have deleted it. Those that are there have no gap between them."""
        if segment not in self._state.segments:
            raise _Overtaken

    async def _save(self, change: Callable[[CompactionCheckpoint], CompactionCheckpoint]) -> None:
        state = self._state
        async with self._sync_state.files_lock:
            self._check_undisturbed()
            # Not before the lock is held: a follower may note what its leader has compacted.
            checkpoint = change(state.compaction)
            if checkpoint == state.compaction:
                return
            await save_compaction(state.context.disk, state.directory, checkpoint, clock=state.context.clock)
            state.compaction = checkpoint


def _look_at_error(task: asyncio.Task[None]) -> None:
    """So that nobody complains of one that was never looked at: the log's state tells of it."""
    if not task.cancelled():
        task.exception()
