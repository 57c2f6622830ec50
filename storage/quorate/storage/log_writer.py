"""Appending: from a client as leader, or from the leader as follower.

A batch is checked, staged into a group and written with all others of the group by one call. It
either enters the log whole or not at all: a write that fails is cut off again before the error is
answered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quorate.core.disk import Bytes
from quorate.core.ids import LeaderEpoch, Offset, TimestampMs
from quorate.core.records import BatchHeader, check_batch, scan_batches
from quorate.errors import (
    BatchTooLarge,
    CorruptBatch,
    FencedLeaderEpoch,
    QuorateError,
    StorageError,
    UnknownLeaderEpoch,
)
from quorate.storage.append_group import Appended, AppendGroup
from quorate.storage.durability import Durability
from quorate.storage.log_state import LogState
from quorate.storage.producer_snapshots import save_snapshot
from quorate.storage.quarantine import Damage
from quorate.storage.recovery import BATCH_BYTES_MAX
from quorate.storage.segment import Segment

__all__ = ["LogWriter"]

#: a relative offset in an index has 32 bits, one of them to spare
_RELATIVE_OFFSET_MAX: Final = (1 << 31) - 1


class LogWriter:
    __slots__ = ("_durability", "_first_append_ms", "_state")

    def __init__(self, state: LogState, durability: Durability) -> None:
        self._state = state
        self._durability = durability
        #: when the active segment got its first batch, None while it has none
        self._first_append_ms: TimestampMs | None = None

    # -- leader

    async def become_leader(self, leader_epoch: LeaderEpoch) -> None:
        """Put the epoch on record before any batch of it exists (rule 6), and on the device."""
        state = self._state
        state.check_writable()
        if leader_epoch < state.epochs.latest:
            raise self._wrong_epoch(leader_epoch)
        if state.epochs.assign(leader_epoch, state.log_end_offset):
            try:
                self._save_epochs()
            except StorageError:
                state.epochs.truncate_from_end(state.log_end_offset)
                raise
        try:
            await state.epochs.sync()
        except OSError as error:
            raise self._durability.sync_failed(error) from error

    def append_as_leader(
        self, batches: Sequence[Bytes], leader_epoch: LeaderEpoch
    ) -> list[Appended | QuorateError]:
        """Each batch has an outcome of its own; what can be written is written at once."""
        state = self._state
        state.check_writable()
        if leader_epoch != state.epochs.latest:
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
                    self.roll()
                outcome = self._stage(group, header, batch, leader_epoch)
                if outcome.base_offset >= state.log_end_offset:
                    group.members.append(len(outcomes))
            except QuorateError as error:
                outcome = error
            outcomes.append(outcome)
        self._write_members(group, outcomes)
        return outcomes

    def _check_client_batch(self, batch: Bytes) -> BatchHeader:
        limit = self._state.config.max_message_bytes
        if len(batch) > limit:
            raise BatchTooLarge(
                f"the batch has {len(batch)} bytes, max.message.bytes is {limit}", max_message_bytes=limit
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
            original = self._state.producers.check(header)
            if original is not None:
                return Appended(
                    original.base_offset, original.last_offset, original.max_timestamp, is_duplicate=True
                )
        return group.stage_stamped(header, batch, leader_epoch)

    def _write_members(self, group: AppendGroup, outcomes: list[Appended | QuorateError]) -> None:
        """Write the group; if that fails, the error is the outcome of all that relied on it."""
        if not group.buffers:
            return
        try:
            self._write(group)
        except StorageError as error:
            for index in group.members:
                outcomes[index] = error

    def _wrong_epoch(self, leader_epoch: LeaderEpoch) -> QuorateError:
        latest = self._state.epochs.latest
        kind = FencedLeaderEpoch if leader_epoch < latest else UnknownLeaderEpoch
        return kind(
            f"append with leader epoch {leader_epoch}, the log is at {latest}",
            leader_epoch=leader_epoch,
            current_leader_epoch=latest,
        )

    # -- follower

    def append_as_follower(self, batches: Bytes) -> None:
        """Batches as the leader has them: offsets and epochs stay, and must follow the log's."""
        self._state.check_writable()
        self._activate()
        result = scan_batches(batches)
        if result.fault is not None:
            raise CorruptBatch(f"batch from the leader at byte {result.end}: {result.fault.reason}")
        group, start, end = self._new_group(), 0, 0
        try:
            for header in result.headers:
                if self._must_roll(group, header):
                    self._write_slice(group, batches, start, end)
                    group, start = self._new_group(), end
                    self.roll()
                self._check_follows(header, group.next_offset)
                group.stage(header)
                end += header.size_in_bytes
            self._write_slice(group, batches, start, end)
        except QuorateError:
            # Producers and epochs were told of batches that did not make it.
            group.undo()
            self._state.epochs.truncate_from_end(self._state.log_end_offset)
            raise

    def _check_follows(self, header: BatchHeader, due: Offset) -> None:
        if header.base_offset != due:
            raise CorruptBatch(f"the leader sent base offset {header.base_offset}, {due} was due")
        if header.size_in_bytes > BATCH_BYTES_MAX:
            raise BatchTooLarge(f"the leader sent a batch of {header.size_in_bytes} bytes")
        epochs = self._state.epochs
        epoch = LeaderEpoch(header.leader_epoch)
        if epoch == epochs.latest:
            return
        before = epochs.epoch_at(Offset(due - 1))
        if epoch < before:
            raise CorruptBatch(f"the leader sent epoch {epoch} behind a batch of epoch {before}")
        if epochs.assign(epoch, due):
            self._save_epochs()

    def _write_slice(self, group: AppendGroup, batches: Bytes, start: int, end: int) -> None:
        if start < end:
            group.buffers.append(memoryview(batches)[start:end])
            self._write(group)

    # -- both

    def _new_group(self) -> AppendGroup:
        return AppendGroup(self._state.producers, self._state.log_end_offset)

    def _write(self, group: AppendGroup) -> None:
        active = self._state.active
        try:
            group.write_to(active)
        except OSError as error:
            group.undo()
            self._discard_unfinished_write(active)
            raise self._state.storage_error("append to", active.path, error) from error
        if self._first_append_ms is None:
            self._first_append_ms = self._state.context.clock.wall_ms()

    def _discard_unfinished_write(self, active: Segment) -> None:
        """Nothing torn may stay. If even that fails, nothing more is written behind it."""
        try:
            active.cut_file()
        except OSError as error:
            self._state.context.note_storage_error("truncate", active.path, error)
            self._state.write_failure = f"a failed write to {active.path} could not be undone: {error}"

    def _save_epochs(self) -> None:
        state = self._state
        try:
            state.epochs.save_cached()
        except OSError as error:
            raise state.storage_error("checkpoint epochs in", state.directory, error) from error

    # -- segments

    def _activate(self) -> None:
        """Open the last segment for appending, the first time it is needed."""
        state = self._state
        active = state.active
        if active.is_active:
            return
        try:
            active.activate()
            self._first_append_ms = active.first_timestamp()
        except OSError as error:
            raise state.storage_error("open", active.path, error) from error
        except CorruptBatch as error:
            raise state.quarantine(Damage(active.path, 0, active.base_offset, str(error))) from error

    def _must_roll(self, group: AppendGroup, header: BatchHeader) -> bool:
        state = self._state
        active = state.active
        filled = active.size + group.size
        if filled == 0:
            return False
        if filled + header.size_in_bytes > state.config.segment_bytes:
            return True
        if group.next_offset + header.last_offset_delta - active.base_offset > _RELATIVE_OFFSET_MAX:
            return True
        first = self._first_append_ms
        return first is not None and state.context.clock.wall_ms() - first >= state.config.segment_ms

    def roll(self) -> None:
        """Seal the active segment and start the next one. If that fails, nothing has changed."""
        state = self._state
        active = state.active
        try:
            active.persist_indexes()
            save_snapshot(state.context.disk, state.directory, state.producers, state.log_end_offset)
            new = Segment.create(state.context, state.config, state.directory, state.log_end_offset)
        except OSError as error:
            raise state.storage_error("roll", active.path, error) from error
        active.retire()
        state.segments.append(new)
        self._durability.note_sealed(active)
        self._first_append_ms = None

    def forget_first_append(self) -> None:
        """The active segment is another one, or was cut."""
        self._first_append_ms = None
