"""One partition's log: an ordered, append-only sequence of record batches in segment files.

No network, no tasks of its own but the group commit, time only from the Clock, files only through
the Disk. One log is used by one event loop, and no method awaits between checking the log's state
and changing it, so there is nothing to lock on the hot path.

Offsets, all exclusive as ends:

    log_start_offset <= log_end_offset         what may be read
    recovery_point   <= log_end_offset         what is known to be on the device

Appending is one write to the page cache, and it either happens whole or not at all: a write that
fails is cut off again before the error is answered. What must be on the device before it counts
goes through ``flush``.

Order on disk, so that a crash between any two steps leaves a log that opens:

- a new leader epoch is on record before the first batch that carries it;
- the recovery point is lowered on the device before a truncation;
- the log start is raised on the device before segments are deleted.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Sequence
from typing import Any, Final

import structlog

from quorate.core.disk import Bytes
from quorate.core.ids import LeaderEpoch, Offset, TimestampMs
from quorate.core.records import BatchHeader, check_batch, scan_batches
from quorate.errors import (
    BatchTooLarge,
    CorruptBatch,
    DiskFull,
    FencedLeaderEpoch,
    LogClosed,
    LogDamaged,
    OffsetOutOfRange,
    QuorateError,
    StorageError,
    StorageFailed,
    UnknownLeaderEpoch,
)
from quorate.storage.append_group import Appended, AppendGroup
from quorate.storage.checkpoint import write_cached, write_durably
from quorate.storage.group_commit import GroupCommit
from quorate.storage.leader_epochs import EpochEnd
from quorate.storage.log_config import LogConfig
from quorate.storage.log_context import LogContext
from quorate.storage.log_files import DAMAGE_NAME, LOG_CHECKPOINT_NAME, list_snapshots, snapshot_path
from quorate.storage.log_reader import DamageFound, LogRead, LogReader, TimestampedOffset
from quorate.storage.opening import LogState, load_producers, load_state, remove_all, save_damage
from quorate.storage.recovery import BATCH_BYTES_MAX, Damage, StartKind
from quorate.storage.retention import count_deletable
from quorate.storage.segment import FileRegion, Segment

__all__ = ["Appended", "LogRead", "PartitionLog", "TimestampedOffset"]

log = structlog.get_logger(__name__)

#: a relative offset in an index has 32 bits, one of them to spare
_RELATIVE_OFFSET_MAX: Final = (1 << 31) - 1
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class PartitionLog:
    __slots__ = (
        "_checkpointed_recovery_point",
        "_commits",
        "_config",
        "_context",
        "_directory_changed",
        "_epochs",
        "_files_lock",
        "_first_append_ms",
        "_is_closed",
        "_producers",
        "_reader",
        "_sealed_unsynced",
        "_segments",
        "_write_failure",
        "damage",
        "directory",
        "log_end_offset",
        "log_start_offset",
        "opening_report",
    )

    def __init__(self, context: LogContext, config: LogConfig, directory: str, state: LogState) -> None:
        """For ``open``; ``state`` is taken over."""
        self._context = context
        self._config = config
        self.directory = directory
        self.opening_report = state.report
        #: why the log is quarantined; nothing is read or written while it is (rule 44)
        self.damage: Damage | None = state.damage
        self.log_start_offset = state.log_start_offset
        self.log_end_offset = state.log_end_offset
        self._segments = state.segments
        self._epochs = state.epochs
        self._producers = state.producers
        self._reader = LogReader(self._segments, self._epochs)
        #: when the active segment got its first batch, None while that is not known
        self._first_append_ms: TimestampMs | None = None
        #: sealed since the last sync began
        self._sealed_unsynced: list[Segment] = []
        #: files were made or removed since the directory was synced
        self._directory_changed = True
        self._commits = GroupCommit(
            self._sync, lambda: self.log_end_offset, synced_offset=state.recovery_point
        )
        self._checkpointed_recovery_point = state.recovery_point
        #: one at a time: whatever rewrites the log checkpoint or removes files
        self._files_lock = asyncio.Lock()
        self._write_failure: str | None = None
        self._is_closed = False

    # -- opening and closing

    @classmethod
    async def open(
        cls, context: LogContext, config: LogConfig, directory: str, *, start: StartKind
    ) -> PartitionLog:
        """Open the log in an existing directory, which may be empty, and recover it if need be.

        A damaged log opens too: ``damage`` says what is wrong, and every use but ``reset_to`` is
        refused. Errors of the disk while opening are StorageFailed.
        """
        try:
            state = load_state(context, config, directory, start)
            opened = cls(context, config, directory, state)
            if opened.damage is not None:
                opened._quarantine(opened.damage)
            elif state.report.start is not StartKind.CLEAN:
                # What was recovered from the page cache must not depend on it any more (rule 30).
                opened._sealed_unsynced = state.segments[:-1]
                await opened._sync()
                opened._commits.synced_offset = opened.log_end_offset
                await opened._write_checkpoint()
        except OSError as error:
            context.note_storage_error("open", directory, error)
            raise StorageFailed(f"cannot open the log in {directory}: {error}", path=directory) from error
        return opened

    async def close(self) -> bool:
        """Sync everything, and leave what a clean start needs. False if that was not possible."""
        if self._is_closed:
            return True
        is_clean = self.damage is None and self._write_failure is None
        try:
            if is_clean:
                await self.flush()
                async with self._files_lock:
                    await self._write_clean_end()
        except (OSError, QuorateError) as error:
            log.error("log_close_failed", directory=self.directory, error=str(error))
            is_clean = False
        await self.abandon()
        return is_clean

    async def abandon(self) -> None:
        """Let go of the files without leaving anything behind; the next start recovers."""
        self._is_closed = True
        await self._commits.settle()
        for segment in self._segments:
            segment.retire()

    async def _write_clean_end(self) -> None:
        active = self._segments[-1]
        if active.has_indexes_in_memory:
            active.persist_indexes()
        self._save_snapshot()
        await self._write_checkpoint(clean_end=[active.next_offset, active.size])

    # -- state

    @property
    def recovery_point(self) -> Offset:
        """Everything below is on the device (exclusive)."""
        return self._commits.synced_offset

    @property
    def size_in_bytes(self) -> int:
        return sum(segment.size for segment in self._segments)

    @property
    def segment_count(self) -> int:
        return len(self._segments)

    @property
    def latest_leader_epoch(self) -> LeaderEpoch:
        return self._epochs.latest

    def end_of_epoch(self, epoch: LeaderEpoch) -> EpochEnd | None:
        """Where an epoch ends in this log: the answer to a diverging follower (rule 8)."""
        return self._epochs.end_of(epoch, log_end_offset=self.log_end_offset)

    def _check_readable(self) -> None:
        if self._is_closed:
            raise LogClosed(f"the log in {self.directory} is closed", path=self.directory)
        if self.damage is not None:
            raise _quarantined(self.damage)

    def _check_writable(self) -> None:
        self._check_readable()
        if self._write_failure is not None:
            raise StorageFailed(
                f"the log in {self.directory} takes no writes until the node restarts: {self._write_failure}",
                path=self.directory,
            )

    # -- appending

    async def become_leader(self, leader_epoch: LeaderEpoch) -> None:
        """Put the epoch on record before any batch of it exists (rule 6), and on the device."""
        self._check_writable()
        if leader_epoch < self._epochs.latest:
            raise self._wrong_epoch(leader_epoch)
        try:
            if self._epochs.assign(leader_epoch, self.log_end_offset):
                self._epochs.save_cached()
            await self._epochs.sync()
        except OSError as error:
            raise self._sync_failed(error) from error

    def append_as_leader(self, batch: Bytes, *, leader_epoch: LeaderEpoch) -> Appended:
        """Append one batch from a client; it gets its offsets and the epoch."""
        outcome = self.append_all_as_leader((batch,), leader_epoch=leader_epoch)[0]
        if isinstance(outcome, QuorateError):
            raise outcome
        return outcome

    def append_all_as_leader(
        self, batches: Sequence[Bytes], *, leader_epoch: LeaderEpoch
    ) -> list[Appended | QuorateError]:
        """Append batches of several requests with one write; each has an outcome of its own."""
        self._check_writable()
        if leader_epoch != self._epochs.latest:
            raise self._wrong_epoch(leader_epoch)
        self._activate()
        outcomes: list[Appended | QuorateError] = []
        group = self._new_group()
        for batch in batches:
            outcome: Appended | QuorateError
            try:
                header = self._check_client_batch(batch)
                if self._must_roll(group, header):
                    self._write_members(group, outcomes)
                    group = self._new_group()
                    self._roll()
                outcome = self._stage(group, header, batch, leader_epoch)
                if outcome.base_offset >= self.log_end_offset:
                    group.members.append(len(outcomes))
            except QuorateError as error:
                outcome = error
            outcomes.append(outcome)
        self._write_members(group, outcomes)
        return outcomes

    def _new_group(self) -> AppendGroup:
        return AppendGroup(self._producers, self.log_end_offset)

    def _check_client_batch(self, batch: Bytes) -> BatchHeader:
        if len(batch) > self._config.max_message_bytes:
            raise BatchTooLarge(
                f"the batch has {len(batch)} bytes, max.message.bytes is {self._config.max_message_bytes}",
                max_message_bytes=self._config.max_message_bytes,
            )
        header = check_batch(batch)
        if header.size_in_bytes != len(batch):
            raise CorruptBatch(f"{len(batch) - header.size_in_bytes} bytes follow the batch")
        if header.record_count != header.last_offset_delta + 1:
            # Offsets are assigned by this count; a client that lies about it would leave gaps.
            raise CorruptBatch(
                f"the batch has {header.record_count} records and a last offset delta of "
                f"{header.last_offset_delta}"
            )
        return header

    def _stage(
        self, group: AppendGroup, header: BatchHeader, batch: Bytes, leader_epoch: LeaderEpoch
    ) -> Appended:
        if header.producer_id >= 0:
            original = self._producers.check(header)
            if original is not None:
                return Appended(
                    original.base_offset, original.last_offset, original.max_timestamp, is_duplicate=True
                )
        return group.stage_stamped(header, batch, leader_epoch)

    def append_as_follower(self, batches: Bytes) -> None:
        """Append batches as the leader has them: offsets and epochs stay, and must follow the log's."""
        self._check_writable()
        self._activate()
        result = scan_batches(batches)
        if result.fault is not None:
            raise CorruptBatch(f"batch from the leader at byte {result.end}: {result.fault.reason}")
        group, start, end = self._new_group(), 0, 0
        for header in result.headers:
            self._check_follows(header, group.next_offset)
            if self._must_roll(group, header):
                self._write_slice(group, batches, start, end)
                group, start = self._new_group(), end
                self._roll()
            group.stage(header)
            end += header.size_in_bytes
        self._write_slice(group, batches, start, end)

    def _check_follows(self, header: BatchHeader, due: Offset) -> None:
        if header.base_offset != due:
            raise CorruptBatch(f"the leader sent base offset {header.base_offset}, {due} was due")
        if header.size_in_bytes > BATCH_BYTES_MAX:
            raise BatchTooLarge(f"the leader sent a batch of {header.size_in_bytes} bytes")
        epoch = LeaderEpoch(header.leader_epoch)
        if epoch == self._epochs.latest:
            return
        before = self._epochs.epoch_at(Offset(due - 1))
        if epoch < before:
            raise CorruptBatch(f"the leader sent epoch {epoch} behind a batch of epoch {before}")
        if self._epochs.assign(epoch, due):
            self._save_epochs()

    def _write_slice(self, group: AppendGroup, batches: Bytes, start: int, end: int) -> None:
        if start == end:
            return
        group.buffers.append(memoryview(batches)[start:end])
        try:
            self._write(group)
        except StorageError:
            # Epochs were put on record for batches that did not make it.
            self._epochs.truncate_from_end(self.log_end_offset)
            raise

    def _write_members(self, group: AppendGroup, outcomes: list[Appended | QuorateError]) -> None:
        """Write the group; if that fails, its members' outcome is the error."""
        if not group.buffers:
            return
        try:
            self._write(group)
        except StorageError as error:
            for index in group.members:
                outcomes[index] = error

    def _write(self, group: AppendGroup) -> None:
        active = self._segments[-1]
        try:
            group.write_to(active)
        except OSError as error:
            group.undo()
            raise self._write_failed(error) from error
        if self._first_append_ms is None:
            self._first_append_ms = self._context.clock.wall_ms()
        self.log_end_offset = group.next_offset

    def _write_failed(self, error: OSError) -> StorageError:
        """Nothing torn may stay: cut the file back to the last whole batch."""
        active = self._segments[-1]
        try:
            active.cut_file()
        except OSError as second:
            self._write_failure = f"a failed write could not be undone: {second}"
            self._context.note_storage_error("truncate", active.path, second)
        return self._storage_error("write", active.path, error)

    def _storage_error(self, doing: str, path: str, error: OSError) -> StorageError:
        if error.errno in _NO_ROOM:
            # Undone and harmless: no storage error in the sense of rule 31.
            return DiskFull(f"no space left for {path}; free some, or add a disk", path=path)
        self._context.note_storage_error(doing, path, error)
        self._write_failure = self._write_failure or f"{doing} {path}: {error}"
        return StorageFailed(f"cannot {doing} {path}: {error}", path=path)

    def _save_epochs(self) -> None:
        try:
            self._epochs.save_cached()
        except OSError as error:
            self._epochs.truncate_from_end(self.log_end_offset)
            raise self._storage_error("checkpoint epochs of", self.directory, error) from error

    def _wrong_epoch(self, leader_epoch: LeaderEpoch) -> QuorateError:
        kind = FencedLeaderEpoch if leader_epoch < self._epochs.latest else UnknownLeaderEpoch
        return kind(
            f"append with leader epoch {leader_epoch}, the log is at {self._epochs.latest}",
            leader_epoch=leader_epoch,
            current_leader_epoch=self._epochs.latest,
        )

    # -- segments

    def _activate(self) -> None:
        """Open the last segment for appending, the first time it is needed."""
        active = self._segments[-1]
        if active.is_active:
            return
        try:
            active.activate()
            self._first_append_ms = next(
                (TimestampMs(header.max_timestamp) for _, header in active.walk(0)), None
            )
        except OSError as error:
            raise self._storage_error("open", active.path, error) from error
        except CorruptBatch as error:
            raise self._quarantine(Damage(active.path, 0, active.base_offset, str(error))) from error

    def _must_roll(self, group: AppendGroup, header: BatchHeader) -> bool:
        active = self._segments[-1]
        filled = active.size + group.size
        if filled == 0:
            return False
        if filled + header.size_in_bytes > self._config.segment_bytes:
            return True
        if group.next_offset + header.last_offset_delta - active.base_offset > _RELATIVE_OFFSET_MAX:
            return True
        first = self._first_append_ms
        return first is not None and self._context.clock.wall_ms() - first >= self._config.segment_ms

    def _roll(self) -> None:
        """Seal the active segment and start the next one. If that fails, nothing has changed."""
        active = self._segments[-1]
        try:
            active.persist_indexes()
            self._save_snapshot()
            new = Segment.create(self._context, self._config, self.directory, self.log_end_offset)
        except OSError as error:
            raise self._storage_error("roll", active.path, error) from error
        active.retire()
        self._segments.append(new)
        self._sealed_unsynced.append(active)
        self._directory_changed = True
        self._first_append_ms = None

    def _save_snapshot(self) -> None:
        path = snapshot_path(self.directory, self.log_end_offset)
        write_cached(self._context.disk, path, self._producers.to_state())

    # -- durability

    async def flush(self) -> None:
        """Returns once everything appended before the call is on the device."""
        self._check_writable()
        await self._commits.wait_for(self.log_end_offset)

    async def checkpoint(self) -> None:
        """Sync sealed segments and move the recovery point on disk past them (rule 46)."""
        if not self._sealed_unsynced:
            return
        await self.flush()
        async with self._files_lock:
            try:
                await self._write_checkpoint()
            except OSError as error:
                raise self._storage_error("checkpoint", self.directory, error) from error

    async def _sync(self) -> None:
        sealed, self._sealed_unsynced = self._sealed_unsynced, []
        directory_changed, self._directory_changed = self._directory_changed, False
        try:
            for segment in [*sealed, self._segments[-1]]:
                await self._sync_segment(segment)
            await self._epochs.sync()
            if directory_changed:
                await self._context.disk.fsync_directory(self.directory)
        except OSError as error:
            raise self._sync_failed(error) from error

    async def _sync_segment(self, segment: Segment) -> None:
        try:
            await segment.sync()
        except FileNotFoundError:
            # Retention or a truncation may have deleted it while another one was being synced.
            if segment in self._segments:
                raise

    def _sync_failed(self, error: OSError) -> StorageFailed:
        """Never retried: the kernel has forgotten which pages were not written (rule 45)."""
        self._write_failure = f"sync failed: {error}"
        self._context.note_storage_error("sync", self.directory, error)
        self._context.on_fatal(f"sync failed in {self.directory}: {error}")

    async def _write_checkpoint(
        self, *, clean_end: list[int] | None = None, reset_to: Offset | None = None
    ) -> None:
        recovery_point = self.recovery_point
        state: dict[str, Any] = {
            "clean_end": clean_end,
            "log_start_offset": self.log_start_offset,
            "recovery_point": recovery_point,
            "reset_to": reset_to,
        }
        await write_durably(self._context.disk, f"{self.directory}/{LOG_CHECKPOINT_NAME}", state)
        self._checkpointed_recovery_point = recovery_point

    # -- reading

    def read(self, offset: Offset, *, bytes_max: int, end_offset: Offset | None = None) -> LogRead:
        """Whole batches from the one that holds ``offset``, verified, below ``end_offset``.

        The first batch may begin before ``offset``; it is returned even if larger than
        ``bytes_max``. Empty when there is nothing between ``offset`` and ``end_offset``.
        """
        end = self._check_range(offset, end_offset)
        if offset >= end:
            return LogRead(b"", offset)
        try:
            return self._reader.read(offset, bytes_max=bytes_max, end_offset=end)
        except (DamageFound, OSError) as error:
            raise self._read_failed(error) from error

    def locate(
        self, offset: Offset, *, bytes_max: int, end_offset: Offset | None = None
    ) -> FileRegion | None:
        """As ``read``, but where the batches lie instead of their bytes, and not verified."""
        end = self._check_range(offset, end_offset)
        if offset >= end:
            return None
        try:
            return self._reader.locate(offset, bytes_max=bytes_max, end_offset=end)
        except (DamageFound, OSError) as error:
            raise self._read_failed(error) from error

    def find_timestamp(self, timestamp: TimestampMs) -> TimestampedOffset | None:
        """The first record at or after a point in time, from the log start on."""
        self._check_readable()
        try:
            found = self._reader.find_timestamp(timestamp, from_offset=self.log_start_offset)
        except (DamageFound, OSError) as error:
            raise self._read_failed(error) from error
        return found

    def _check_range(self, offset: Offset, end_offset: Offset | None) -> Offset:
        self._check_readable()
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRange(
                f"offset {offset} is not within {self.log_start_offset} and {self.log_end_offset}",
                offset=offset,
                log_start_offset=self.log_start_offset,
                log_end_offset=self.log_end_offset,
            )
        return self.log_end_offset if end_offset is None else min(end_offset, self.log_end_offset)

    def _read_failed(self, error: DamageFound | OSError) -> StorageError:
        if isinstance(error, DamageFound):
            return self._quarantine(error.damage)
        self._context.note_storage_error("read", self.directory, error)
        return StorageFailed(f"cannot read the log in {self.directory}: {error}", path=self.directory)

    def _quarantine(self, damage: Damage) -> LogDamaged:
        """Nothing of this log is served any more; the mark outlives a restart (rule 44)."""
        self.damage = damage
        log.error(
            "log_damaged",
            path=damage.path,
            position=damage.position,
            offset=damage.offset,
            reason=damage.reason,
        )
        save_damage(self._context, self.directory, damage)
        return _quarantined(damage)

    # -- truncation, retention, reset

    async def truncate_to(self, offset: Offset) -> None:
        """Drop every batch that ends at or behind ``offset``; for followers that diverged (rule 8)."""
        async with self._files_lock:
            self._check_writable()
            if offset < self.log_start_offset:
                raise OffsetOutOfRange(f"cannot truncate to {offset}, before the log's start", offset=offset)
            try:
                if offset < self.log_end_offset:
                    boundary = self._reader.batch_start(offset)
                    await self._lower_recovery_point(boundary)
                    self._check_writable()
                    self._cut_at(boundary)
                # Also when nothing was cut: an epoch without batches may stand at the end.
                if self._epochs.truncate_from_end(self.log_end_offset):
                    self._save_epochs()
            except OSError as error:
                raise self._storage_error("truncate", self.directory, error) from error
            except CorruptBatch as error:
                raise self._quarantine(Damage(self.directory, 0, offset, str(error))) from error

    async def _lower_recovery_point(self, offset: Offset) -> None:
        """On the device first: else a power loss after the truncation would skip what comes next."""
        self._commits.lower(offset)
        if self._checkpointed_recovery_point > offset:
            await self._write_checkpoint()

    def _cut_at(self, offset: Offset) -> None:
        """``offset`` is a batch boundary. The newest segment goes first, so that no gap appears."""
        self._commits.lower(offset)
        while len(self._segments) > 1 and self._segments[-1].base_offset >= offset:
            self._segments.pop().delete()
        self._segments[-1].truncate(offset)
        self.log_end_offset = offset
        self._directory_changed = True
        self._first_append_ms = None
        self._remove_snapshots(above=offset)
        self._producers = load_producers(self._context, self.directory, self._segments, offset)

    async def apply_retention(self, *, high_watermark: Offset) -> int:
        """Delete segments past their retention; returns how many."""
        self._check_writable()
        async with self._files_lock:
            now_ms = self._context.clock.wall_ms()
            count = count_deletable(
                self._segments, self._config, now_ms=now_ms, high_watermark=high_watermark
            )
            if count == 0:
                return 0
            if count == len(self._segments):
                self._roll()
            await self._raise_log_start(self._segments[count].base_offset)
            return count

    async def advance_log_start(self, offset: Offset) -> None:
        """Records before ``offset`` may be forgotten; whole segments of them are deleted."""
        async with self._files_lock:
            self._check_writable()
            if offset > self.log_end_offset:
                raise OffsetOutOfRange(
                    f"the log ends at {self.log_end_offset}, before {offset}", offset=offset
                )
            if offset > self.log_start_offset:
                await self._raise_log_start(offset)

    async def _raise_log_start(self, offset: Offset) -> None:
        # Readers are refused at once; files go only when the device knows the new start.
        self.log_start_offset = offset
        try:
            await self._write_checkpoint()
            while len(self._segments) > 1 and self._segments[1].base_offset <= offset:
                self._segments.pop(0).delete()
                self._directory_changed = True
            first = self._segments[0].base_offset
            self._remove_snapshots(below=first)
            if self._epochs.truncate_from_start(first):
                self._save_epochs()
        except OSError as error:
            raise self._storage_error("delete segments of", self.directory, error) from error

    def _remove_snapshots(self, *, below: Offset | None = None, above: Offset | None = None) -> None:
        for offset in list_snapshots(self._context.disk, self.directory):
            if (below is not None and offset < below) or (above is not None and offset > above):
                self._context.disk.unlink(snapshot_path(self.directory, offset))

    def expire_producers(self) -> int:
        """Forget idempotent producers that were silent for long; returns how many."""
        horizon = self._context.clock.wall_ms() - self._config.producer_id_expiration_ms
        return self._producers.expire(before=TimestampMs(horizon))

    async def reset_to(self, offset: Offset) -> None:
        """Drop everything and start anew at ``offset``: a replica that refetches all (rules 12, 44).

        The intention is on the device first; a crash anywhere in between is finished at the next
        start. The mark of damage goes last.
        """
        async with self._files_lock:
            if self._is_closed:
                raise LogClosed(f"the log in {self.directory} is closed", path=self.directory)
            try:
                await self._write_checkpoint(reset_to=offset)
                for segment in self._segments:
                    segment.retire()
                remove_all(self._context, self._config, self.directory)
                self._start_anew_at(offset)
                await self._context.disk.fsync_directory(self.directory)
                await self._write_checkpoint()
                await self._lift_quarantine()
            except OSError as error:
                raise self._storage_error("reset", self.directory, error) from error

    def _start_anew_at(self, offset: Offset) -> None:
        self._segments[:] = [Segment.create(self._context, self._config, self.directory, offset)]
        self._sealed_unsynced.clear()
        self._epochs.clear()
        self._producers = load_producers(self._context, self.directory, [], offset)
        self.log_start_offset = self.log_end_offset = offset
        self._first_append_ms = None
        self._commits.restart_at(offset)

    async def _lift_quarantine(self) -> None:
        path = f"{self.directory}/{DAMAGE_NAME}"
        if self._context.disk.exists(path):
            self._context.disk.unlink(path)
            await self._context.disk.fsync_directory(self.directory)
        self.damage = None

    # -- invariants

    def validate(self) -> None:
        """For tests, after every step."""
        self._epochs.validate()
        self._producers.validate()
        assert self._segments
        assert self.log_start_offset <= self.log_end_offset
        assert self.recovery_point <= self.log_end_offset
        assert self.log_end_offset == self._segments[-1].next_offset
        assert self._segments[0].base_offset <= self.log_start_offset
        for earlier, later in zip(self._segments, self._segments[1:], strict=False):
            assert earlier.next_offset == later.base_offset
            assert earlier.size > 0


def _quarantined(damage: Damage) -> LogDamaged:
    return LogDamaged(
        f"the log is damaged and not served: {damage}",
        path=damage.path,
        position=damage.position,
        offset=damage.offset,
        reason=damage.reason,
    )
