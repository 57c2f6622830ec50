"""Mutations of the log: what a disk may lose, and what a log may believe (rules 5, 6, 44 to 50)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, Final

from quorate.chaos.models.log import log_checkers as check
from quorate.chaos.models.log.copied_producers_story import (
    many_who_fill_in_old_data_are_remembered_by_their_leader,
    the_newest_that_were_copied_are_remembered,
)
from quorate.chaos.models.log.deleted_producers_story import (
    a_snapshot_that_is_needed_is_not_replaced_by_one_that_may_be_lost,
    a_start_deletes_nothing_before_the_device_has_the_snapshot,
    a_start_deletes_nothing_that_no_snapshot_tells_of,
    nothing_is_cut_or_quarantined_for_what_has_expired,
    what_was_sealed_while_the_log_start_rose_stays,
)
from quorate.chaos.mutations.hunts import StoryHunt
from quorate.chaos.mutations.mutation import Mutation, mutation, mutations_in
from quorate.chaos.sim.patch import Patch
from quorate.core.disk import Bytes, Disk
from quorate.core.ids import Offset, ProducerId
from quorate.core.records import BatchFault, BatchHeader, FaultKind, ScanResult, parse_header
from quorate.errors import QuorateError
from quorate.storage import (
    index,
    leader_epochs,
    log_reader,
    log_state,
    log_trimmer,
    log_writer,
    opening,
    producer_snapshots,
    producer_state,
    recovery,
    retention,
)
from quorate.storage.append_group import AppendGroup
from quorate.storage.checkpoint import write_body_cached
from quorate.storage.file_writes import sync_file
from quorate.storage.group_commit import GroupCommit
from quorate.storage.log_files import snapshot_path
from quorate.storage.log_trimmer import LogTrimmer
from quorate.storage.log_writer import LogWriter
from quorate.storage.producer_snapshots import remove_snapshots
from quorate.storage.producer_state import ProducerStates
from quorate.storage.recent_batches import RecentTail
from quorate.storage.recovery import LogScanner
from quorate.storage.retention_time import RetentionTime
from quorate.storage.segment import Segment
from quorate.storage.sync_state import SyncState

__all__ = ["MUTATIONS"]


def _story(checker: Callable[[], Awaitable[None] | None]) -> StoryHunt:
    return StoryHunt("lives of a log", checker)


def scan_without_checksums(batches: bytes, position: int = 0) -> ScanResult:
    headers: list[BatchHeader] = []
    while position < len(batches):
        try:
            header = parse_header(batches, position)
        except QuorateError as error:
            return ScanResult(headers, position, BatchFault(FaultKind.CORRUPT, str(error)))
        if position + header.size_in_bytes > len(batches):
            return ScanResult(headers, position, BatchFault(FaultKind.INCOMPLETE, "cut off"))
        headers.append(header)
        position += header.size_in_bytes
    return ScanResult(headers, position, None)


@mutation(44, hunt=_story(check.check_damage_above_the_recovery_point))
def recovery_checks_no_checksum(patch: Patch) -> None:
    def scan_chunk(self: LogScanner, segment: Segment, chunk: memoryview) -> str | None:
        result = scan_without_checksums(bytes(chunk))
        for header in result.headers:
            if header.base_offset != segment.next_offset:
                return "base offset"
            if header.leader_epoch != self._epochs.epoch_at(segment.next_offset):
                return "epoch"
            segment.add_batch(
                last_offset=header.last_offset,
                size_in_bytes=header.size_in_bytes,
                max_timestamp=header.max_timestamp,
            )
        is_wrong = result.fault is not None and result.fault.kind is FaultKind.CORRUPT
        return "header" if is_wrong else None

    patch.setattr(LogScanner, "_scan_chunk", scan_chunk)


@mutation(44, 5, hunt=_story(check.check_damage_above_the_recovery_point))
def recovery_accepts_any_epoch(patch: Patch) -> None:
    original = LogScanner._reason_against

    def reason_against(self: LogScanner, header: BatchHeader, due: Offset) -> str | None:
        self._epochs_are_complete = False
        return original(self, header, due)

    patch.setattr(LogScanner, "_reason_against", reason_against)


@mutation(44, hunt=_story(check.check_damage_above_the_recovery_point))
def recovery_takes_every_short_batch_for_torn(patch: Patch) -> None:
    patch.setattr(recovery, "_complete_elsewhere", lambda *_: False)


@mutation(44, hunt=_story(check.check_damage_above_the_recovery_point))
def recovery_cuts_at_any_fault(patch: Patch) -> None:
    patch.setattr(opening, "cut_is_allowed", lambda *_, **__: True)


@mutation(44, 46, hunt=_story(check.check_damage_below_the_recovery_point))
def recovery_ignores_the_recovery_point(patch: Patch) -> None:
    patch.setattr(opening, "cut_is_allowed", lambda fault, **_: fault.torn)
    patch.setattr(opening._Opening, "_apply_log_checkpoint", _without_recovery_point)


async def _without_recovery_point(
    self: opening._Opening,
    checkpoint: dict[str, Any] | None,
    _original: Callable[..., Any] = opening._Opening._apply_log_checkpoint,
) -> object:
    result = await _original(self, checkpoint)
    self.report.recovery_point = Offset(0)
    return result


@mutation(44, hunt=_story(check.check_mark_of_damage_after_a_power_loss))
def mark_of_damage_is_not_synced(patch: Patch) -> None:
    async def sync(*_: object) -> None: ...

    patch.setattr(log_state, "sync_damage", sync)


@mutation(44, hunt=_story(check.check_reads))
def reads_check_no_checksum(patch: Patch) -> None:
    patch.setattr(log_reader, "scan_batches", scan_without_checksums)


@mutation(44, 5, hunt=_story(check.check_reads))
def reads_check_neither_offsets_nor_epochs(patch: Patch) -> None:
    patch.setattr(log_reader.LogReader, "_check_chain", lambda *_: None)


@mutation(8, hunt=_story(check.check_reads_after_a_cut))
def what_was_cut_off_is_still_read_from_memory(patch: Patch) -> None:
    patch.setattr(RecentTail, "forget", lambda self: None)


@mutation(44, hunt=_story(check.check_batches_on_receipt))
def batches_of_clients_are_not_checked(patch: Patch) -> None:
    patch.setattr(log_writer, "check_batch", parse_header)


@mutation(44, hunt=_story(check.check_batches_on_receipt))
def batches_of_leaders_are_not_checked(patch: Patch) -> None:
    patch.setattr(log_writer, "scan_batches", scan_without_checksums)


@mutation(44, hunt=_story(check.check_index_files))
def index_files_are_believed(patch: Patch) -> None:
    def unseal(content: bytes, entry_bytes: int) -> memoryview:
        count = (len(content) - 12) // entry_bytes
        return memoryview(content)[: count * entry_bytes]

    patch.setattr(index, "_unseal", unseal)


@mutation(44, hunt=_story(check.check_torn_bytes_are_cut))
def torn_bytes_of_a_failed_append_stay(patch: Patch) -> None:
    patch.setattr(Segment, "cut_file", lambda self: None)


@mutation(49, hunt=_story(check.check_failed_append_is_undone))
def producers_are_not_undone(patch: Patch) -> None:
    patch.setattr(AppendGroup, "undo", lambda self: None)


@mutation(49, hunt=_story(check.check_producers_after_a_truncation))
def producers_of_what_was_cut_off_are_remembered(patch: Patch) -> None:
    """What they send again is answered with an offset at which it no longer is."""
    original = LogTrimmer._cut_at
    patch.setattr(
        LogTrimmer, "_cut_at", lambda self, offset, _: original(self, offset, self._state.producers)
    )


@mutation(50, hunt=_story(check.check_duplicates_are_told_from_gaps))
def only_two_batches_of_a_producer_are_remembered(patch: Patch) -> None:
    """Five are on their way at a time, and any of them may be sent again."""
    patch.setattr(producer_state, "BATCHES_REMEMBERED", 2)


@mutation(50, hunt=_story(check.check_many_producers_are_remembered_while_they_may_repeat))
def producers_make_room_while_they_may_repeat(patch: Patch) -> None:
    """What one of them sends again is written again."""
    patch.setattr(producer_state, "PRODUCER_REMEMBERED_MS_MIN", 0)


@mutation(50, hunt=_story(many_who_fill_in_old_data_are_remembered_by_their_leader))
def leader_believes_the_times_of_producers_that_it_saw(patch: Patch) -> None:
    """Records that are filled in are of long ago, and may be sent again all the same."""
    patch.setattr(ProducerStates, "apply_appended", ProducerStates.apply)


@mutation(50, hunt=_story(the_newest_that_were_copied_are_remembered))
def producers_that_were_copied_make_room_by_their_times(patch: Patch) -> None:
    """However new in the log their batches are."""

    def beyond_room(self: ProducerStates, young: set[ProducerId]) -> list[ProducerId]:
        return list(self._entries.keys() - young) if len(self._entries) > producer_state.PRODUCERS_MAX else []

    patch.setattr(ProducerStates, "_copied_beyond_room", beyond_room)


@mutation(49, hunt=_story(check.check_snapshot_that_was_due_before_a_truncation))
def snapshot_that_is_due_outlives_a_truncation(patch: Patch) -> None:
    """A start believes it, whatever lies before its offset."""
    original = SyncState.write_snapshot_due

    async def write(self: SyncState) -> None:
        if self._snapshot_due is not None:
            self._snapshot_due = self._snapshot_due._replace(cuts_begun=self._state.cuts_begun)
        await original(self)

    patch.setattr(SyncState, "write_snapshot_due", write)


@mutation(49, hunt=_story(check.check_snapshot_that_would_be_due_during_a_cut))
def snapshot_is_due_of_what_is_about_to_be_cut_off(patch: Patch) -> None:
    """A cut counts from when it is asked for: what is noted between that and the cut passes for newer."""
    original = SyncState.note_snapshot_due

    def note(self: SyncState) -> None:
        cuts, self._state.cuts_under_way = self._state.cuts_under_way, 0
        original(self)
        self._state.cuts_under_way = cuts

    patch.setattr(SyncState, "note_snapshot_due", note)


@mutation(49, hunt=_story(a_start_deletes_nothing_that_no_snapshot_tells_of))
def start_deletes_what_no_snapshot_tells_of(patch: Patch) -> None:
    """All that lies before the log start, as if it were known that it had been about to go."""

    async def drop(self: opening._Opening) -> None:
        segments = self.state.segments
        while len(segments) > 1 and segments[1].base_offset <= self.state.log_start_offset:
            segments.pop(0).delete()

    patch.setattr(opening._Opening, "_drop_segments_before_log_start", drop)


@mutation(49, hunt=_story(a_start_deletes_nothing_before_the_device_has_the_snapshot))
def start_deletes_before_the_device_has_the_snapshot(patch: Patch) -> None:
    """A process that was killed has left it in the page cache."""

    async def sync(*_: object) -> None: ...

    patch.setattr(opening, "sync_snapshot", sync)


@mutation(49, hunt=_story(a_start_deletes_nothing_before_the_device_has_the_snapshot))
def start_deletes_before_the_device_has_the_snapshot_that_it_made(patch: Patch) -> None:
    """Of producers of whom nothing but the segments told."""

    async def write(disk: Disk, directory: str, encoded: bytes, end_offset: Offset) -> None:
        write_body_cached(disk, snapshot_path(directory, end_offset), encoded)

    patch.setattr(opening, "write_snapshot", write)


@mutation(44, hunt=_story(nothing_is_cut_or_quarantined_for_what_has_expired))
def log_is_cut_for_what_has_expired(patch: Patch) -> None:
    """Segments before the log start are scanned like others, and all behind a fault in them goes."""

    async def let_go(_: opening._Opening) -> bool:
        return True

    patch.setattr(opening._Opening, "_let_go_of_expired", let_go)


@mutation(49, hunt=_story(what_was_sealed_while_the_log_start_rose_stays))
def log_start_takes_what_was_sealed_while_it_rose(patch: Patch) -> None:
    """The snapshot that was kept lies before it."""
    original = LogTrimmer._raise_log_start

    async def raise_log_start(self: LogTrimmer, offset: Offset) -> None:
        await original(self, offset)
        state = self._state
        while len(state.segments) > 1 and state.segments[1].base_offset <= offset:
            state.segments.pop(0).delete()
        remove_snapshots(state.context.disk, state.directory, below=state.segments[0].base_offset)

    patch.setattr(LogTrimmer, "_raise_log_start", raise_log_start)


@mutation(49, hunt=_story(a_snapshot_that_is_needed_is_not_replaced_by_one_that_may_be_lost))
def snapshot_is_replaced_before_the_new_one_is_synced(patch: Patch) -> None:
    """It is the same, and a power loss leaves its name alone."""

    async def write(disk: Disk, path: str, body: bytes) -> None:
        write_body_cached(disk, path, body)
        await sync_file(disk, path)

    patch.setattr(producer_snapshots, "write_body_synced", write)


@mutation(45, hunt=_story(check.check_failed_sync))
def failed_sync_is_swallowed(patch: Patch) -> None:
    original = Segment.sync

    async def sync(self: Segment) -> None:
        with contextlib.suppress(OSError):
            await original(self)

    patch.setattr(Segment, "sync", sync)


@mutation(45, hunt=_story(check.check_power_loss))
def flush_does_not_sync(patch: Patch) -> None:
    async def sync(self: Segment) -> None:
        pass

    patch.setattr(Segment, "sync", sync)


@mutation(45, hunt=_story(check.check_power_loss_after_a_roll))
def names_are_not_synced(patch: Patch) -> None:
    original = SyncState._sync

    async def sync(self: SyncState) -> None:
        self._directory_changed = False
        await original(self)

    patch.setattr(SyncState, "_sync", sync)


@mutation(46, hunt=_story(check.check_truncation_and_power_loss))
def recovery_point_is_not_lowered_before_a_truncation(patch: Patch) -> None:
    async def lower_on_disk(self: SyncState, offset: Offset) -> None:
        self.lower(offset)

    patch.setattr(SyncState, "lower_on_disk", lower_on_disk)


@mutation(46, hunt=_story(check.check_truncation_and_power_loss))
def truncation_is_not_synced(patch: Patch) -> None:
    async def sync_cut(self: SyncState) -> None:
        pass

    patch.setattr(SyncState, "sync_cut", sync_cut)


@mutation(46, hunt=_story(check.check_truncation_during_sync))
def running_sync_does_not_hear_of_a_truncation(patch: Patch) -> None:
    def lower(self: GroupCommit, offset: Offset) -> None:
        self.synced_offset = min(self.synced_offset, offset)

    patch.setattr(GroupCommit, "lower", lower)


@mutation(46, 45, hunt=_story(check.check_flush_covers_what_was_before_it))
def sync_claims_what_was_appended_while_it_ran(patch: Patch) -> None:
    async def run(self: GroupCommit) -> None:
        try:
            await self._sync()
        finally:
            self._running = None
        self.synced_offset = self._end_offset()

    patch.setattr(GroupCommit, "_run", run)


@mutation(46, 45, hunt=_story(check.check_segment_sealed_again_during_sync))
def sync_forgets_what_was_sealed_again_while_it_ran(patch: Patch) -> None:
    original = SyncState._sync

    async def sync(self: SyncState) -> None:
        sealed = list(self._sealed_unsynced)
        await original(self)
        self._sealed_unsynced = [each for each in self._sealed_unsynced if each not in sealed]

    patch.setattr(SyncState, "_sync", sync)


@mutation(5, hunt=_story(check.check_follower_epochs))
def epoch_is_saved_after_its_first_batch(patch: Patch) -> None:
    save, write = LogWriter._save_epochs, LogWriter._write

    def write_and_save(self: LogWriter, group: AppendGroup, batches: Bytes) -> None:
        write(self, group, batches)
        save(self)

    patch.setattr(LogWriter, "_save_epochs", lambda self: None)
    patch.setattr(LogWriter, "_write", write_and_save)


@mutation(5, hunt=_story(check.check_follower_epochs))
def epoch_that_was_taken_back_stays_on_disk(patch: Patch) -> None:
    patch.setattr(leader_epochs.LeaderEpochCache, "replace", _replace_and_pretend_that_it_was_saved)


def _replace_and_pretend_that_it_was_saved(
    self: leader_epochs.LeaderEpochCache,
    entries: list[leader_epochs.EpochStart],
    _original: Callable[..., None] = leader_epochs.LeaderEpochCache.replace,
) -> None:
    _original(self, entries)
    self.is_saved = True


@mutation(6, hunt=_story(check.check_leader_epoch_is_on_record_before_its_first_batch))
def leader_epoch_is_not_saved(patch: Patch) -> None:
    patch.setattr(LogWriter, "_save_epochs", lambda self: None)


@mutation(46, hunt=_story(check.check_no_append_before_a_cut_that_was_asked_for))
def cut_refuses_appends_only_from_its_turn_on(patch: Patch) -> None:
    async def cut_alone(self: LogTrimmer, cut: Callable[[Offset], Awaitable[None]], offset: Offset) -> None:
        async with self._sync_state.files_lock:
            await asyncio.sleep(0)
            await cut(offset)

    patch.setattr(LogTrimmer, "_cut_alone", cut_alone)


@mutation(48, hunt=_story(check.check_retention_when_the_wall_clock_jumps))
def retention_believes_any_clock(patch: Patch) -> None:
    """Everything goes when the wall clock of a broker is set wrong (as in Kafka)."""
    patch.setattr(RetentionTime, "now_ms", lambda self: self._clock.wall_ms())


@mutation(48, hunt=_story(check.check_retention_below_high_watermark))
def retention_ignores_the_high_watermark(patch: Patch) -> None:
    original = retention.count_deletable

    def count(segments: Any, config: Any, **facts: Any) -> int:
        return original(segments, config, **{**facts, "below": Offset(1 << 62)})

    patch.setattr(log_trimmer, "count_deletable", count)


@mutation(48, hunt=_story(check.check_log_start_before_deletion))
def segments_are_deleted_before_the_log_start_is_raised(patch: Patch) -> None:
    original = LogTrimmer._raise_log_start

    async def raise_log_start(self: LogTrimmer, offset: Offset) -> None:
        segments = self._state.segments
        while len(segments) > 1 and segments[1].base_offset <= offset:
            segments.pop(0).delete()
        await original(self, offset)

    patch.setattr(LogTrimmer, "_raise_log_start", raise_log_start)


MUTATIONS: Final[tuple[Mutation, ...]] = mutations_in(globals())
