"""One partition's log: an ordered, append-only sequence of record batches in segment files.

No network, no tasks of its own but the group commit and the mark of damage, time only from the Clock,
files only through the Disk. One log belongs to one event loop, and no method awaits between checking the
log's state and changing it, so there is nothing to lock on the hot path.

    log_start_offset <= log_end_offset         what may be read; the end is exclusive
    recovery_point   <= log_end_offset         what is known to be on the device

Appending is one write to the page cache. What has to be on the device before it counts goes through
``flush``. Order on disk, so that a crash between any two steps leaves a log that opens:

- a new leader epoch is on record before the first batch that carries it;
- the recovery point is lowered on the device before a truncation;
- the log start is raised on the device before segments are deleted, and the snapshot of producers where
  the first one begins that stays.
"""

from __future__ import annotations

from quorate.core.disk import Bytes, lacks_descriptors
from quorate.core.ids import LeaderEpoch, Offset, TimestampMs
from quorate.core.logging import get_logger
from quorate.errors import DiskFull, LogDamaged, NotLeaderOrFollower, QuorateError, StorageFailed
from quorate.storage.compaction import CompactionReport, LogCompactor
from quorate.storage.compaction_checkpoint import NOT_COMPACTED, Compacted
from quorate.storage.descriptors import too_many_open_files
from quorate.storage.leader_epochs import EpochEnd
from quorate.storage.log_config import LogConfig
from quorate.storage.log_context import LogContext, is_disk_full, tolerate_full_disk
from quorate.storage.log_reader import LogRead, LogReader, TimestampedOffset
from quorate.storage.log_state import LogState
from quorate.storage.log_trimmer import LogTrimmer
from quorate.storage.log_writer import Appended, LogWriter
from quorate.storage.opening import OpeningReport, open_state
from quorate.storage.producer_snapshots import encode_snapshot, sync_snapshot, write_snapshot
from quorate.storage.quarantine import Damage
from quorate.storage.recovery import StartKind
from quorate.storage.steps import run_in_turns
from quorate.storage.sync_state import SyncState

__all__ = ["PartitionLog"]

log = get_logger(__name__)


class PartitionLog:
    __slots__ = (
        "_compactor",
        "_reader",
        "_state",
        "_sync_state",
        "_trimmer",
        "_was_closed_cleanly",
        "_writer",
        "opening_report",
    )

    def __init__(self, state: LogState, report: OpeningReport) -> None:
        """For ``open``."""
        self._state = state
        self._was_closed_cleanly = False
        self.opening_report = report
        self._sync_state = SyncState(state, recovery_point=report.recovery_point)
        self._reader = LogReader(state)
        self._writer = LogWriter(state, self._sync_state)
        self._trimmer = LogTrimmer(state, self._sync_state, self._writer)
        self._compactor = LogCompactor(state, self._sync_state)

    # -- opening and closing

    @classmethod
    async def open(
        cls, context: LogContext, config: LogConfig, directory: str, *, start: StartKind
    ) -> PartitionLog:
        """Open the log in an existing directory, which may be empty, and recover it if need be.

        A damaged log opens too: ``damage`` says what is wrong, and every use but ``reset_to`` is
        refused. An error of the disk is StorageFailed, or DiskFull.
        """
        try:
            async with context.scanning:
                state, report = await open_state(context, config, directory, start)
            await state.settle_mark()
            opened = cls(state, report)
            if state.damage is None and report.start is not StartKind.CLEAN:
                # What was recovered from the page cache must not depend on it any more (rule 30).
                opened._sync_state.note_sealed(*state.segments[:-1])
                # Of producers whose batches are deleted only this one tells.
                await sync_snapshot(context.disk, directory, state.segments[0].base_offset)
                await opened._sync_state.flush_all()
                await opened._checkpoint_recovery()
        except OSError as error:
            if is_disk_full(error):
                raise DiskFull(f"no space left to open the log in {directory}", path=directory) from error
            if lacks_descriptors(error):
                raise too_many_open_files("open the log in", directory) from error
            context.note_storage_error("open", directory, error)
            raise StorageFailed(f"cannot open the log in {directory}: {error}", path=directory) from error
        return opened

    async def _checkpoint_recovery(self) -> None:
        if self.opening_report.reset_finished:
            # While the checkpoint on disk tells of the reset, the next start would drop what comes now.
            await self._sync_state.write_checkpoint()
            return
        with tolerate_full_disk("checkpoint", self.directory):
            await self._sync_state.write_checkpoint()

    async def close(self) -> bool:
        """Sync everything, and leave what a clean start needs. False if that was not possible."""
        state = self._state
        if state.is_closed:
            return self._was_closed_cleanly
        try:
            state.check_writable()
            # From here on nothing is accepted: it would be neither synced nor part of the clean end.
            state.is_closed = True
            state.recent.forget()
            await self._sync_state.flush()
            await self._sync_state.flush_sealed()
            async with self._sync_state.files_lock:
                await self._leave_cleanly()
            self._was_closed_cleanly = True
        except (OSError, QuorateError) as error:
            if isinstance(error, OSError) and not is_disk_full(error) and not lacks_descriptors(error):
                state.context.note_storage_error("close the log in", state.directory, error)
            log.error("log_not_closed_cleanly", path=state.directory, error=str(error))
        await self.abandon()
        return self._was_closed_cleanly

    async def _leave_cleanly(self) -> None:
        state = self._state
        active = state.active
        if active.is_active:
            # A write that failed and was cut off again left nothing for the flush to wait for.
            await active.sync()
        if active.has_indexes_in_memory:
            active.persist_indexes()
            await active.sync_indexes()
        encoded = await run_in_turns(encode_snapshot(state.producers))
        await write_snapshot(state.context.disk, state.directory, encoded, state.log_end_offset)
        if not state.epochs.is_saved:
            state.epochs.save_cached()
        await state.epochs.sync()
        await self._sync_state.write_checkpoint(clean_end=(active.next_offset, active.size))

    async def abandon(self) -> None:
        """Let go of the files and leave nothing behind; the next start recovers."""
        self._state.is_closed = True
        self._state.recent.forget()
        self._sync_state.let_go()
        # What is being cut is cut to the end, also if nobody waits for it any more.
        async with self._sync_state.files_lock:
            await self._sync_state.settle()
        await self._state.settle_mark()
        for segment in self._state.segments:
            segment.retire()

    # -- state

    @property
    def directory(self) -> str:
        return self._state.directory

    @property
    def damage(self) -> Damage | None:
        """Why the log is quarantined, if it is (rule 44)."""
        return self._state.damage

    @property
    def failure(self) -> LogDamaged | None:
        """The same as the error that every use of a quarantined log ends in."""
        state = self._state
        return None if state.damage is None else state.failure

    @property
    def log_start_offset(self) -> Offset:
        """Inclusive: the first offset that may be read."""
        return self._state.log_start_offset

    @property
    def log_end_offset(self) -> Offset:
        """Exclusive: the next offset to be written."""
        # As the state's own, without asking it: nothing is asked for more often.
        state = self._state
        segments = state.segments
        return segments[-1].next_offset if segments else state.log_start_offset

    @property
    def recovery_point(self) -> Offset:
        """Everything below is on the device (exclusive)."""
        return self._sync_state.recovery_point

    @property
    def size_in_bytes(self) -> int:
        return sum(segment.size for segment in self._state.segments)

    @property
    def segment_count(self) -> int:
        return len(self._state.segments)

    @property
    def config(self) -> LogConfig:
        return self._state.config

    def reconfigure(self, config: LogConfig) -> None:
        """From the next append, roll and retention on; files on disk stay as they are."""
        self._state.reconfigure(config)

    @property
    def first_dirty_offset(self) -> Offset:
        """Below it (exclusive) every key has one record at most."""
        return self._state.compaction.first_dirty_offset

    @property
    def compacted(self) -> Compacted:
        """What a follower has to know before it copies this log.

        If this is itself a copy, what it speaks of may be yet to come.
        """
        return self._state.compaction.compacted

    @property
    def latest_leader_epoch(self) -> LeaderEpoch:
        return self._state.epochs.latest

    @property
    def earliest_leader_epoch(self) -> LeaderEpoch:
        """Of the first batch that is left; all of an earlier one is deleted. -1 for an empty log."""
        return self._state.epochs.earliest

    def reject_epochs_beyond(self, newest: LeaderEpoch) -> None:
        """``newest``: that there has been. A batch of a later one is damaged, and the log quarantined.

        The epoch lies outside the batch's checksum, and after a power loss there may be no checkpoint to
        vouch for it: then a start believes it.
        """
        state = self._state
        if state.damage is not None or self.latest_leader_epoch <= newest:
            return
        wrong = next(entry for entry in state.epochs.entries if entry.epoch > newest)
        path = state.segment_of(wrong.start_offset).path
        reason = f"leader epoch is {wrong.epoch}, there has been none beyond {newest}"
        state.quarantine(Damage(path, 0, wrong.start_offset, reason))

    def leader_epoch_at(self, offset: Offset) -> LeaderEpoch:
        """Of the batch that holds the offset; -1 for one before all batches whose epoch is known."""
        return self._state.epochs.epoch_at(offset)

    def end_of_epoch(self, epoch: LeaderEpoch) -> EpochEnd | None:
        """Where an epoch ends in this log: the answer to a diverging follower (rule 8)."""
        return self._state.epochs.end_of(epoch, log_end_offset=self.log_end_offset)

    # -- appending

    def become_leader(self, leader_epoch: LeaderEpoch) -> None:
        """Put the epoch on record before any batch of it exists (rule 6); refused while ``is_being_cut``."""
        self._writer.become_leader(leader_epoch)
        # Those that it has copied meanwhile do not keep others out until the next look.
        self.expire_producers()

    def append_as_leader(self, batch: Bytes, *, leader_epoch: LeaderEpoch) -> Appended:
        """Append one batch from a client; it gets its offsets and the epoch."""
        return self._writer.append_as_leader(batch, leader_epoch)

    def find_duplicate(self, batch: Bytes) -> Appended | None:
        """Where a client's batch lies already, if it is a retry; raises what an append of it would."""
        return self._writer.find_duplicate(batch)

    def append_as_follower(self, batches: Bytes) -> None:
        """Append whole batches as the leader has them, with one write."""
        self._writer.append_as_follower(batches)

    def lacks_room(self) -> bool:
        """Its last append was refused because the disk is full, and that disk has no room by now.

        A replica that refuses for this has not failed: it leads and is read as before, its followers have all
        that it has, and it takes records again by itself. So nothing else of its state shows it.
        """
        return self._writer.lacks_room()

    # -- durability

    async def flush(self) -> None:
        """Returns once everything appended before the call is on the device; calls share a sync.

        For those to whom a record counts then: what syncs for its own sake goes by ``SyncState``.
        """
        self._state.check_writable()
        try:
            self._sync_state.mark()
        except OSError as error:
            if not is_disk_full(error):
                raise self._state.storage_error("mark", self.directory, error) from error
        await self._sync_state.flush()

    async def checkpoint(self) -> None:
        """Sync sealed segments and move the recovery point on disk past them (rule 46)."""
        if self._sync_state.is_snapshot_due:
            self._state.check_writable()
            # Not with any other sync: those that wait for one wait to be acknowledged.
            await self._sync_state.write_snapshot_due()
        if not self._sync_state.is_checkpoint_due:
            return
        self._state.check_writable()
        try:
            await self._sync_state.flush()
        except NotLeaderOrFollower:
            # Cut meanwhile, and nobody waits for what is gone: the next round sees what is left to do.
            return
        await self._sync_state.flush_sealed()
        async with self._sync_state.files_lock:
            # Let go of meanwhile, its directory may be gone.
            self._state.check_writable()
            try:
                await self._sync_state.write_checkpoint()
            except OSError as error:
                raise self._state.storage_error("checkpoint", self.directory, error) from error

    # -- reading

    def read(self, offset: Offset, *, bytes_max: int, end_offset: Offset | None = None) -> LogRead:
        """Whole batches from the one that holds ``offset``, verified, below ``end_offset``.

        The first batch may begin before ``offset``; it is returned even if larger than
        ``bytes_max``. Empty when there is nothing between ``offset`` and ``end_offset``.
        """
        return self._reader.read(offset, bytes_max=bytes_max, end_offset=end_offset)

    def bytes_from(self, offset: Offset) -> int:
        """How many bytes are stored from ``offset`` on, to a few KiB: what retention by size counts."""
        return self._reader.bytes_from(offset)

    def find_timestamp(self, timestamp: TimestampMs) -> TimestampedOffset | None:
        """The first record at or after a point in time, from the log start on."""
        return self._reader.find_timestamp(timestamp)

    def roll_if_old(self) -> None:
        """Seal the active segment once its first batch is older than ``segment_ms``."""
        self._writer.roll_if_old()

    # -- making it shorter

    @property
    def is_being_cut(self) -> bool:
        """A truncation or reset was asked for and is not done: nothing is appended, and nobody leads."""
        return self._state.cuts_under_way > 0

    async def truncate_to(self, offset: Offset, *, is_complete: bool = False) -> None:
        """Drop every batch that ends at or behind ``offset``; for followers that diverged (rule 8).

        Where what is cut off may have replaced what is missing before it, everything goes (rule 48).
        ``is_complete``: not here, whatever the log knows of itself. What is cut off was never committed.
        """
        await self._trimmer.truncate_to(offset, is_complete=is_complete)

    def expired_below(self, *, high_watermark: Offset) -> Offset:
        """Where the log would begin if everything went that is past its retention, and committed."""
        return self._trimmer.expired_below(high_watermark)

    async def apply_retention(self, *, below: Offset) -> int:
        """Delete segments past their retention that end at or before ``below``; returns how many."""
        return await self._trimmer.apply_retention(below)

    async def compact(self, *, below: Offset) -> CompactionReport | None:
        """Of every key keep the latest record, in sealed segments below the offset (exclusive), if due.

        To be called with the high watermark, or an earlier offset (rule 48). None: nothing was done, because
        the log is not compacted, too little is new, or it was cut or closed meanwhile.
        """
        return await self._compactor.compact(below) if self._state.config.compacts else None

    async def note_superseded(self, below: Offset) -> None:
        """What is copied from here on may lack records because of newer ones, all below the offset."""
        await self._compactor.note_superseded(below)

    def note_complete(self) -> None:
        """It holds all that was ever committed, so whatever has replaced missing records is here.

        Which the log cannot tell by itself where its file of what is missing has rotted.
        """
        self._compactor.note_complete()

    async def advance_log_start(self, offset: Offset) -> None:
        """Records before ``offset`` may be forgotten; whole segments of them are deleted."""
        await self._trimmer.advance_log_start(offset)

    async def reset_to(self, offset: Offset, *, compacted: Compacted = NOT_COMPACTED) -> None:
        """Drop everything and start anew at ``offset``: a replica that refetches (rules 12, 44 and 48).

        ``compacted``: what is missing where it copies from.
        """
        await self._trimmer.reset_to(offset, compacted)

    def expire_producers(self) -> int:
        """Forget idempotent producers that were silent for long; returns how many."""
        producers = self._state.producers
        if producers.are_many:
            # Beyond twice as many that wrote lately no new one is taken.
            log.warning("many_producers", path=self.directory, producers=len(producers))
        return producers.expire(
            now_s=self._state.context.clock.monotonic(),
            wall_ms=self._state.context.clock.wall_ms(),
            after_s=self._state.config.producer_id_expiration_ms / 1000,
        )

    # -- invariants

    def validate(self) -> None:
        """For tests, after every step."""
        self._state.validate()
        assert self.recovery_point <= self.log_end_offset
