"""Appending: from a client as leader, or from the leader as follower.

A client's batch is checked and written by one call. What the leader sent is checked, staged into a
group and written by one call, or one for each segment. A batch either enters the log whole or not at
all: a write that fails is cut off again before the error is answered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

from quorate.core.disk import Bytes
from quorate.core.ids import NO_LEADER_EPOCH, LeaderEpoch, Offset, TimestampMs
from quorate.core.logging import get_logger
from quorate.core.records import (
    DECOMPRESSED_BYTES_MAX_DEFAULT,
    LEADER_EPOCH_END,
    BatchHeader,
    check_batch,
    filler,
    is_filler,
    scan_batches,
    stamped_prefix,
)
from quorate.core.records.format import RECORD_BYTES_MIN
from quorate.errors import (
    BatchTooLarge,
    CorruptBatch,
    DiskFull,
    QuorateError,
    StorageError,
    TooManyOpenFiles,
    wrong_leader_epoch,
)
from quorate.storage.append_group import AppendGroup
from quorate.storage.full_disk import FullDisk
from quorate.storage.log_context import is_disk_full
from quorate.storage.log_state import LogState
from quorate.storage.producer_snapshots import save_snapshot
from quorate.storage.producer_state import RememberedBatch
from quorate.storage.quarantine import Damage
from quorate.storage.recovery import BATCH_BYTES_MAX
from quorate.storage.segment import RELATIVE_OFFSET_MAX, Segment
from quorate.storage.steps import HEADERS_PER_STEP
from quorate.storage.sync_state import SyncState

__all__ = ["Appended", "LogWriter"]

log = get_logger(__name__)

#: more do not fit what a reader is willing to decompress
_RECORDS_PER_BATCH_MAX: Final = DECOMPRESSED_BYTES_MAX_DEFAULT // RECORD_BYTES_MIN


class Appended(NamedTuple):
    """Where a batch lies in the log."""

    base_offset: Offset
    #: inclusive
    last_offset: Offset
    max_timestamp: TimestampMs
    #: it was there before: an idempotent producer's retry
    is_duplicate: bool = False


class LogWriter:
    __slots__ = ("_first_append_ms", "_full_disk", "_state", "_sync_state")

    def __init__(self, state: LogState, sync_state: SyncState) -> None:
        self._state = state
        self._sync_state = sync_state
        self._full_disk = FullDisk(state.context.clock, state.context.disk, state.directory)
        #: when the active segment got its first batch, None while it has none
        self._first_append_ms: TimestampMs | None = None

    # -- leader

    def become_leader(self, leader_epoch: LeaderEpoch) -> None:
        """Put the epoch on record before any batch of it exists (rule 6).

        In the page cache, not on the device: see ``leader_epochs`` for why that is enough.
        """
        state = self._state
        state.check_appendable()
        if leader_epoch < state.epochs.latest:
            raise self._wrong_epoch(leader_epoch)
        before = state.epochs.entries
        state.epochs.assign(leader_epoch, state.log_end_offset)
        if state.epochs.is_saved:
            return
        try:
            self._save_epochs()
        except (DiskFull, TooManyOpenFiles) as error:
            # To lead is to serve what is there, also on a full disk. The first append comes after the
            # record of its epoch, or not at all: see ``_begin_append``.
            log.warning("leader_epoch_not_saved_yet", path=state.directory, error=str(error))
        except StorageError:
            state.epochs.replace(before)
            raise

    def append_as_leader(self, batch: Bytes, leader_epoch: LeaderEpoch) -> Appended:
        """One batch, one write."""
        active = self._begin_append(leader_epoch)
        header = self._check_client_batch(batch)
        state, producer_id = self._state, header.producer_id
        if producer_id >= 0:
            original = state.producers.check(header)
            if original is not None:
                return _duplicate(original)
        if self._must_roll(active, active.size, active.next_offset, header):
            self.roll()
            active = state.active
        base_offset = active.next_offset
        prefix = stamped_prefix(header, base_offset=base_offset, leader_epoch=leader_epoch)
        rest = memoryview(batch)[LEADER_EPOCH_END:]
        try:
            active.write((prefix, rest))
        except OSError as error:
            raise self._write_failed(error) from error
        last_offset = Offset(base_offset + header.last_offset_delta)
        active.add_batch(
            last_offset=last_offset, size_in_bytes=header.size_in_bytes, max_timestamp=header.max_timestamp
        )
        state.recent.add(base_offset, active.next_offset, prefix, rest, header.size_in_bytes)
        if producer_id >= 0:
            state.producers.apply_appended(header, base_offset)
        if self._first_append_ms is None:
            self._first_append_ms = state.context.clock.wall_ms()
        if self._full_disk.is_on_record:
            self._full_disk.note_room()
        return Appended(base_offset, last_offset, header.max_timestamp)

    def _begin_append(self, leader_epoch: LeaderEpoch) -> Segment:
        state = self._state
        state.check_appendable()
        if leader_epoch != state.epochs.latest or leader_epoch == NO_LEADER_EPOCH:
            raise self._wrong_epoch(leader_epoch)
        if not state.epochs.is_saved:
            self._save_epochs()
        active = state.segments[-1]
        if not active.is_active:
            self._activate()
        return active

    def _check_client_batch(self, batch: Bytes) -> BatchHeader:
        size, limit = len(batch), self._state.config.max_message_bytes
        if size > limit:
            raise BatchTooLarge(
                f"the batch has {size} bytes, max.message.bytes is {limit}", max_message_bytes=limit
            )
        header = check_batch(batch)
        if header.size_in_bytes != size:
            raise CorruptBatch(f"{size - header.size_in_bytes} bytes follow the batch")
        if header.record_count > _RECORDS_PER_BATCH_MAX:
            # A compressed batch can claim any number; a lie would burn offsets and segments.
            raise BatchTooLarge(f"the batch claims {header.record_count} records")
        if header.record_count != header.last_offset_delta + 1:
            # Offsets are assigned by this count; a client that lies about it would leave gaps.
            raise CorruptBatch(
                f"the batch has {header.record_count} records and a last offset delta of "
                f"{header.last_offset_delta}"
            )
        return header

    def find_duplicate(self, batch: Bytes) -> Appended | None:
        """All the checks of an append, and nothing of its effects."""
        self._state.check_appendable()
        header = self._check_client_batch(batch)
        original = self._state.producers.check(header) if header.producer_id >= 0 else None
        return None if original is None else _duplicate(original)

    def _wrong_epoch(self, leader_epoch: LeaderEpoch) -> QuorateError:
        state = self._state
        return wrong_leader_epoch(
            f"the log in {state.directory}", request=leader_epoch, current=state.epochs.latest
        )

    # -- follower

    def append_as_follower(self, batches: Bytes) -> None:
        """Batches as the leader has them: offsets and epochs stay, and must follow the log's."""
        state = self._state
        state.check_appendable()
        active = state.segments[-1]
        if not active.is_active:
            self._activate()
        result = scan_batches(batches)
        if result.fault is not None:
            raise CorruptBatch(f"batch from the leader at byte {result.end}: {result.fault.reason}")
        headers = result.headers
        if headers and headers[0].base_offset < active.next_offset:
            batches, headers = self._without_known_offsets(batches, headers)
        # No batch here is of a later epoch than the latest.
        if headers and headers[0].leader_epoch < state.epochs.latest:
            self._check_own_epoch(headers)
        group, start, end = AppendGroup(state.producers, active.next_offset), 0, 0
        try:
            for header in headers:
                if self._must_roll(active, active.size + group.size, group.next_offset, header):
                    if start < end:
                        self._write(group, memoryview(batches)[start:end])
                    group, start = AppendGroup(state.producers, active.next_offset), end
                    self.roll()
                    active = state.active
                self._check_follows(header, group)
                group.stage(header)
                end += header.size_in_bytes
            if start < end:
                self._write(group, memoryview(batches)[start:end])
        except QuorateError:
            # Producers and epochs were told of batches that did not make it.
            group.undo()
            if group.epochs_before is not None:
                if state.log_end_offset == group.base_offset:
                    state.epochs.replace(group.epochs_before)
                else:
                    state.epochs.truncate_from_end(state.log_end_offset)
            raise

    def _without_known_offsets(
        self, batches: Bytes, headers: list[BatchHeader]
    ) -> tuple[Bytes, list[BatchHeader]]:
        """The leader may have compacted what lies around the end of this log, into one empty batch.

        Its end is the end of a batch here as there. Anything else that begins before the end of the log is
        refused later on, as any batch that does not follow.
        """
        first, due = headers[0], self._state.log_end_offset
        if not is_filler(first) or first.last_offset < due:
            return batches, headers
        rest = filler(
            base_offset=due,
            last_offset=first.last_offset,
            leader_epoch=first.leader_epoch,
            max_timestamp=first.max_timestamp,
        )
        return rest + memoryview(batches)[first.size_in_bytes :], [check_batch(rest), *headers[1:]]

    def _check_own_epoch(self, headers: Sequence[BatchHeader]) -> None:
        """That of the last batch here may have rotted: it lies outside the checksum.

        After a power loss there may be no checkpoint to vouch for it, and a start believes it. A leader looks
        at the epochs of what it sends. So where that cannot follow, this log is damaged.
        """
        state = self._state
        if headers[0].base_offset != state.log_end_offset:
            return
        epoch, own = headers[0].leader_epoch, state.epochs.epoch_at(Offset(state.log_end_offset - 1))
        if epoch < own:
            began = next(entry.start_offset for entry in state.epochs.entries if entry.epoch == own)
            reason = f"leader epoch is {own}, and the leader has epoch {epoch} behind it"
            raise state.quarantine(Damage(state.segment_of(began).path, 0, began, reason))

    def _check_follows(self, header: BatchHeader, group: AppendGroup) -> None:
        due = group.next_offset
        if header.base_offset != due:
            raise CorruptBatch(f"the leader sent base offset {header.base_offset}, {due} was due")
        if header.size_in_bytes > BATCH_BYTES_MAX:
            raise BatchTooLarge(f"the leader sent a batch of {header.size_in_bytes} bytes")
        epochs = self._state.epochs
        epoch = header.leader_epoch
        if epoch == epochs.latest and epochs.is_saved:
            return
        before = epochs.epoch_at(Offset(due - 1))
        if epoch < before:
            raise CorruptBatch(f"the leader sent epoch {epoch} behind a batch of epoch {before}")
        if group.epochs_before is None:
            group.epochs_before = epochs.entries
        epochs.assign(epoch, due)
        if not epochs.is_saved:
            self._save_epochs()

    def _write(self, group: AppendGroup, batches: Bytes) -> None:
        try:
            group.write_to(self._state.segments[-1], batches)
        except OSError as error:
            raise self._group_failed(group, error) from error
        if self._first_append_ms is None:
            self._first_append_ms = self._state.context.clock.wall_ms()
        if self._full_disk.is_on_record:
            self._full_disk.note_room()

    def _group_failed(self, group: AppendGroup, error: OSError) -> StorageError:
        if is_disk_full(error):
            with suppress(OSError):
                group.keep_what_fitted(self._state.active)
        return self._write_failed(error)

    # -- both

    def _write_failed(self, error: OSError) -> StorageError:
        """Nothing torn may stay. If even that fails, nothing more is written behind it."""
        state = self._state
        path = state.active.path
        try:
            state.active.cut_file()
        except OSError as second:
            state.context.note_storage_error("truncate", path, second)
            state.write_failure = f"a failed write to {path} could not be undone: {second}"
        return self._storage_error("append to", path, error)

    def _save_epochs(self) -> None:
        state = self._state
        try:
            state.epochs.save_cached()
        except OSError as error:
            raise self._storage_error("checkpoint epochs in", state.directory, error) from error

    def _storage_error(self, doing: str, path: str, error: OSError) -> StorageError:
        """As ``LogState.storage_error``, of something without which nothing is appended."""
        if is_disk_full(error):
            self._full_disk.refused(doing)
        return self._state.storage_error(doing, path, error)

    def lacks_room(self) -> bool:
        """Whether the last append was refused for want of room, and nothing shows that there is some now."""
        return self._full_disk.look(bytes_needed=self._state.config.max_message_bytes)

    # -- segments

    def _activate(self) -> None:
        """Open the last segment for appending, the first time it is needed."""
        active = self._state.active
        with self._reading(active):
            active.activate()
            self._first_append_ms = active.first_timestamp()

    @contextmanager
    def _reading(self, segment: Segment) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._storage_error("open", segment.path, error) from error
        except CorruptBatch as error:
            damage = Damage.found_by(error, path=segment.path, offset=segment.base_offset)
            raise self._state.quarantine(damage) from error

    def _must_roll(self, active: Segment, filled: int, next_offset: Offset, header: BatchHeader) -> bool:
        """Is there no room for the batch at ``next_offset`` in the segment, of which ``filled`` is taken?"""
        if filled == 0:
            return False
        if filled + header.size_in_bytes > self._state.config.segment_bytes:
            return True
        return next_offset + header.last_offset_delta - active.base_offset > RELATIVE_OFFSET_MAX

    def roll_if_old(self) -> None:
        """Not checked at every append: the clock would cost more there than it is worth."""
        state = self._state
        state.check_writable()
        if state.active.size == 0 or state.cuts_under_way:
            return
        now = state.context.clock.wall_ms()
        if self._first_append_ms is None:
            # Nothing was appended since the start: read once, and remembered, so that idle logs sleep on.
            with self._reading(state.active):
                first = state.active.first_timestamp()
            self._first_append_ms = now if first is None else first
        if now - self._first_append_ms >= state.config.segment_ms:
            self.roll()

    def roll(self) -> None:
        """Seal the active segment and start the next one. If that fails, nothing has changed."""
        state = self._state
        active = state.active
        try:
            active.persist_indexes()
            self._snapshot_producers()
            new = Segment.create(state.context, state.config, state.directory, state.log_end_offset)
        except OSError as error:
            raise self._storage_error("roll", active.path, error) from error
        active.seal()
        state.segments.append(new)
        self._sync_state.note_sealed(active)
        self._first_append_ms = None

    def _snapshot_producers(self) -> None:
        """Of many it takes longer than an append may: they are written in turns, with the next checkpoint.

        Until then a start replays more batches.
        """
        state = self._state
        if len(state.producers) > HEADERS_PER_STEP:
            self._sync_state.note_snapshot_due()
        else:
            save_snapshot(state.context.disk, state.directory, state.producers, state.log_end_offset)

    def forget_first_append(self) -> None:
        """The active segment is another one, or was cut."""
        self._first_append_ms = None


def _duplicate(original: RememberedBatch) -> Appended:
    return Appended(original.base_offset, original.last_offset, original.max_timestamp, is_duplicate=True)
