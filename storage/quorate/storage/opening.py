"""From a directory to a log's state: trust it after a clean stop, prove it otherwise.

A clean start reads three small files and no batch. Any other start scans from the segment that
holds the recovery point, as ``recovery`` describes; a clean start whose files do not say what they
should is treated as a crash.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from quorate.core.ids import Offset
from quorate.core.logging import get_logger
from quorate.errors import CorruptBatch
from quorate.storage.checkpoint import DamagedCheckpoint, read_checkpoint
from quorate.storage.compaction_checkpoint import load_compaction
from quorate.storage.log_config import LogConfig
from quorate.storage.log_context import LogContext, tolerate_full_disk
from quorate.storage.log_files import (
    LOG_CHECKPOINT_NAME,
    SYNCED_NAME,
    list_segments,
    remove_all,
    remove_temporary_files,
)
from quorate.storage.log_state import LogState
from quorate.storage.producer_snapshots import (
    encode_snapshot,
    load_snapshot,
    newest_snapshot,
    remove_snapshots,
    replay_expired,
    replay_producers,
    sync_snapshot,
    write_snapshot,
)
from quorate.storage.producer_state import ProducerStates
from quorate.storage.quarantine import Damage, load_damage
from quorate.storage.recovery import Fault, LogScanner, StartKind, cut_is_allowed, is_unwritten
from quorate.storage.segment import Segment
from quorate.storage.segment_swap import finish_swaps
from quorate.storage.steps import HEADERS_PER_STEP, Steps, run_in_turns

__all__ = ["OpeningReport", "open_state"]

log = get_logger(__name__)

_NOTHING: Final = Offset(0)


@dataclass(slots=True)
class OpeningReport:
    """What opening found and did; for logs, tests and the command line."""

    start: StartKind
    #: everything below is on the device (exclusive), by what the log checkpoint says
    recovery_point: Offset = _NOTHING
    scanned_bytes: int = 0
    #: bytes of a torn or, after a lossy start, unsynced tail that were cut
    cut_bytes: int = 0
    #: what a lossy start cut, if it was more than a torn batch
    cut_damage: Damage | None = None
    epochs_rebuilt: bool = False
    #: a reset that had begun before was finished
    reset_finished: bool = False


async def open_state(
    context: LogContext, config: LogConfig, directory: str, start: StartKind
) -> tuple[LogState, OpeningReport]:
    """The log in ``directory`` as it is. If it is damaged, its files stay as they were found."""
    opening = _Opening(context, config, directory, start)
    known_damage = load_damage(context.disk, directory)
    damage = known_damage or await opening.run()
    if damage is not None:
        if known_damage is None:
            # Before the mark: of one that is found at a start nobody knows which process was the first.
            await context.tell_of_recovery_damage(directory)
        opening.state.quarantine(damage, is_marked=known_damage is not None)
    return opening.state, opening.report


class _Opening:
    def __init__(self, context: LogContext, config: LogConfig, directory: str, start: StartKind) -> None:
        self._context = context
        self._config = config
        self._directory = directory
        self._start = start
        self.state = LogState(context, config, directory)
        self.report = OpeningReport(start)
        #: the epoch checkpoint is there and is not what was written
        self._has_damaged_epochs = False

    async def run(self) -> Damage | None:
        """Fills in ``state`` and ``report``; what is wrong with the log, if something is."""
        state = self.state
        remove_temporary_files(self._context.disk, self._directory)
        checkpoint = self._read_log_checkpoint()
        if checkpoint is not None and checkpoint["reset_to"] is not None:
            self._finish_reset(Offset(checkpoint["reset_to"]))
            return None
        await finish_swaps(self._context.disk, self._directory)
        state.segments = [
            Segment(self._context, self._config, self._directory, base)
            for base in list_segments(self._context.disk, self._directory)
        ]
        damage = await self._apply_log_checkpoint(checkpoint)
        if damage is not None:
            return damage
        if not state.segments:
            self._create_first_segment()
        elif not self._trust_clean_close(checkpoint):
            damage = await self._recover()
        if damage is None and not self.report.reset_finished:
            state.compaction = await load_compaction(
                self._context.disk,
                self._directory,
                log_end_offset=state.log_end_offset,
                clock=self._context.clock,
            )
        return damage

    # -- the log checkpoint

    def _read_log_checkpoint(self) -> dict[str, Any] | None:
        try:
            return read_checkpoint(self._context.disk, f"{self._directory}/{LOG_CHECKPOINT_NAME}")
        except DamagedCheckpoint as damaged:
            # Nothing but the place to start scanning is lost: scan everything.
            log.warning("log_checkpoint_damaged", path=damaged.path, reason=damaged.reason)
            return None

    async def _apply_log_checkpoint(self, checkpoint: dict[str, Any] | None) -> Damage | None:
        """Log start and recovery point; segments that should be there and are not are damage."""
        state = self.state
        segments = state.segments
        if checkpoint is None:
            first = segments[0].base_offset if segments else Offset(0)
            state.log_start_offset = self.report.recovery_point = first
            return None
        state.log_start_offset = Offset(checkpoint["log_start_offset"])
        self.report.recovery_point = Offset(checkpoint["recovery_point"])
        await self._drop_segments_before_log_start()
        if segments and segments[0].base_offset > state.log_start_offset:
            return Damage(segments[0].path, 0, state.log_start_offset, "segments before this one are missing")
        if not segments and self.report.recovery_point > state.log_start_offset:
            return Damage(self._directory, 0, state.log_start_offset, "all segments are missing")
        return None

    async def _drop_segments_before_log_start(self) -> None:
        """Deleting them was decided and recorded before a crash; finish it, as far as a snapshot vouches.

        What was under way had its snapshot on the device first. A power loss may have undone some of it,
        with gaps in between, all before that snapshot. But if the log start was the end when it was raised,
        another segment may have begun there since, and nobody has made sure of its snapshot. Without one,
        the segment before stays: after a clean stop until the next retention, which makes sure of one, else
        until ``_let_go_of_expired`` does.
        """
        disk, directory, segments = self._context.disk, self._directory, self.state.segments
        bases = [segment.base_offset for segment in segments[1 : self._count_expired() + 1]]
        found = await run_in_turns(newest_snapshot(disk, directory, bases))
        if found is None:
            return
        kept, _ = found
        # It may be in the page cache alone, and nothing else will tell of the producers.
        await sync_snapshot(disk, directory, kept)
        await disk.fsync_directory(directory)
        while segments[0].base_offset < kept:
            segments.pop(0).delete()

    def _count_expired(self) -> int:
        """Segments that lie wholly before the log start, by where the next ones begin."""
        return sum(each.base_offset <= self.state.log_start_offset for each in self.state.segments[1:])

    async def _let_go_of_expired(self) -> bool:
        """Whatever is wrong with them, no record behind them goes for it: nobody asks for theirs any more.

        Their producers are kept, as far as they can be told: those that a power loss took, or that rot
        hides, are forgotten, as by a replica that is copied. Nothing else is taken from such a segment, least
        of all epochs, which no checksum covers.

        False if producers may have been forgotten.
        """
        state, disk, directory = self.state, self._context.disk, self._directory
        count = self._count_expired()
        if count == 0:
            return True
        expired, first_kept = state.segments[:count], state.segments[count].base_offset
        producers, are_sound = await run_in_turns(replay_expired(disk, directory, expired, first_kept))
        is_saved = False
        with tolerate_full_disk("save producers of expired segments", directory):
            encoded = await run_in_turns(encode_snapshot(producers))
            await write_snapshot(disk, directory, encoded, first_kept)
            await disk.fsync_directory(directory)
            is_saved = True
        if are_sound and not is_saved:
            # They go on telling of their producers themselves. Damaged ones would cost the records behind.
            return True
        while state.segments[0].base_offset < first_kept:
            state.segments.pop(0).delete()
        return are_sound

    def _create_first_segment(self) -> None:
        state = self.state
        base = state.log_start_offset
        state.segments.append(Segment.create(self._context, self._config, self._directory, base))

    def _finish_reset(self, offset: Offset) -> None:
        """A reset had begun: whatever is here is to be dropped."""
        remove_all(self._context, self._config, self._directory)
        self.report.start = self._start_without_marker()
        self.report.reset_finished = True
        self.state.epochs.clear()
        self.state.producers = ProducerStates()
        self.state.segments.clear()
        self.state.log_start_offset = self.report.recovery_point = offset
        self._create_first_segment()

    # -- clean

    def _trust_clean_close(self, checkpoint: dict[str, Any] | None) -> bool:
        state = self.state
        if self._start is not StartKind.CLEAN or checkpoint is None or checkpoint["clean_end"] is None:
            return False
        end_offset, end_size = checkpoint["clean_end"]
        if self._context.disk.size(state.segments[-1].path) != end_size:
            return False
        if end_offset < state.segments[-1].base_offset or not self._load_epochs():
            return False
        producers = load_snapshot(self._context.disk, self._directory, Offset(end_offset))
        if producers is None:
            return False
        state.producers = producers
        # Segments that lay wholly before the log start may have gone a moment ago.
        state.epochs.truncate_from_start(state.segments[0].base_offset)
        self._trust_segments(state.segments, Offset(end_offset))
        return True

    def _trust_segments(self, segments: list[Segment], end_offset: Offset) -> None:
        """Take length and end of each from its file and its successor, without reading it."""
        next_offset = end_offset
        for segment in reversed(segments):
            segment.size = self._context.disk.size(segment.path)
            segment.next_offset = next_offset
            next_offset = segment.base_offset

    def _load_epochs(self) -> bool:
        try:
            return self.state.epochs.load()
        except DamagedCheckpoint as damaged:
            log.warning("epoch_checkpoint_damaged", path=damaged.path, reason=damaged.reason)
            self._has_damaged_epochs = True
            return False

    # -- not clean

    def _start_without_marker(self) -> StartKind:
        return StartKind.PROCESS_CRASH if self._start is StartKind.CLEAN else self._start

    async def _recover(self) -> Damage | None:
        state = self.state
        self.report.start = self._start_without_marker()
        knows_producers = await self._let_go_of_expired()
        first = self._first_to_scan()
        scan_from = state.segments[first].base_offset
        trusted, scanned = state.segments[:first], state.segments[first:]
        self._trust_segments(trusted, scan_from)
        try:
            epochs_are_complete = await run_in_turns(self._prepare_epochs(trusted, scan_from))
            state.producers = await run_in_turns(
                replay_producers(self._context.disk, self._directory, trusted, scan_from)
            )
        except CorruptBatch as error:
            return Damage.found_by(error, path=self._directory, offset=scan_from)
        if self._has_damaged_epochs and self._start is StartKind.PROCESS_CRASH:
            # It is written aside and renamed: no crash of a process leaves one like that. So more has
            # happened to this disk, and what else is gone nobody can tell. Before it is written anew.
            await self._context.tell_of_recovery_damage(self._directory)
        scanner = LogScanner(state.epochs, state.producers, epochs_are_complete=epochs_are_complete)
        fault = await run_in_turns(scanner.scan(scanned))
        self.report.scanned_bytes = scanner.scanned_bytes
        if fault is not None:
            if not cut_is_allowed(fault, start=self.report.start, recovery_point=self.report.recovery_point):
                return fault.as_damage()
            await self._cut(fault)
        if state.log_end_offset < self.report.recovery_point:
            last = state.segments[-1]
            reason = f"the log ends here, but was synced up to offset {self.report.recovery_point}"
            return Damage(last.path, last.size, last.next_offset, reason)
        if state.log_end_offset < state.log_start_offset:
            if self.report.start is not StartKind.LOSSY:
                last = state.segments[-1]
                reason = f"the log ends here, but starts at offset {state.log_start_offset}"
                return Damage(last.path, last.size, last.next_offset, reason)
            # A power loss took the batches behind the log start; those before it were to be forgotten.
            self._finish_reset(state.log_start_offset)
            return None
        if not knows_producers:
            # A snapshot of what has been found since may tell of them.
            state.producers = await run_in_turns(
                replay_producers(self._context.disk, self._directory, state.segments, state.log_end_offset)
            )
        if self._may_have_failed_to_sync():
            for segment in state.segments[first:]:
                await run_in_turns(segment.write_again())
        self._tidy()
        return None

    def _may_have_failed_to_sync(self) -> bool:
        """Then pages count as clean that are not on the device, and to sync them does nothing (rule 45).

        A process notes a sync that fails, but not if it is killed while it waits for the device: a disk that
        hangs is what a process is often killed for. Where records count for being synced, the replica keeps
        what it has after a loss of power, so what is behind the recovery point has to be there.
        """
        if self.report.start is StartKind.LOSSY:
            return True
        return self._context.disk.exists(f"{self._directory}/{SYNCED_NAME}")

    def _first_to_scan(self) -> int:
        """Index of the segment that holds the recovery point."""
        below = [s for s in self.state.segments if s.base_offset <= self.report.recovery_point]
        return max(len(below) - 1, 0)

    def _prepare_epochs(self, trusted: list[Segment], scan_from: Offset) -> Steps[bool]:
        """Whether the checkpoint can vouch for the epochs of the batches to be scanned."""
        epochs = self.state.epochs
        loaded = self._load_epochs()
        if loaded and self.report.start is not StartKind.LOSSY:
            return True
        if loaded:
            # Checkpoint and batches reached the device in any order: above, the batches decide.
            epochs.replace([entry for entry in epochs.entries if entry.start_offset < scan_from])
        else:
            self.report.epochs_rebuilt = True
            epochs.clear()
            for segment in trusted:
                for count, (_, header) in enumerate(segment.walk(0)):
                    if count % HEADERS_PER_STEP == 0:
                        yield
                    if header.leader_epoch > epochs.latest:
                        epochs.assign(header.leader_epoch, header.base_offset)
        return False

    async def _cut(self, fault: Fault) -> None:
        """Drop everything from the fault on."""
        state = self.state
        if not fault.torn and not is_unwritten(fault):
            # Before it happens: afterwards the log looks like any other.
            await self._context.tell_of_recovery_damage(self._directory)
            self.report.cut_damage = fault.as_damage()
        keep = state.segments.index(fault.segment) + 1
        for segment in reversed(state.segments[keep:]):
            self.report.cut_bytes += self._context.disk.size(segment.path)
            segment.delete()
        del state.segments[keep:]
        self.report.cut_bytes += self._context.disk.size(fault.segment.path) - fault.position
        fault.segment.cut_file()
        log.warning(
            "log_tail_cut",
            path=fault.segment.path,
            position=fault.position,
            offset=fault.offset,
            bytes=self.report.cut_bytes,
            reason=fault.reason,
        )

    def _tidy(self) -> None:
        """Bring the files beside the batches in line with what the scan found."""
        state = self.state
        # A crash may have come between the deletion of old segments and this.
        state.epochs.truncate_from_start(state.segments[0].base_offset)
        # Also an epoch noted at the very end: it has no batch, and whoever leads next has a new one.
        state.epochs.truncate_from_end(state.log_end_offset)
        with tolerate_full_disk("save epochs and indexes", self._directory):
            state.epochs.save_cached()
            for segment in state.segments[:-1]:
                if segment.has_indexes_in_memory:
                    segment.persist_indexes()
                    segment.retire()
        if not state.epochs.is_saved:
            state.epochs.remove_file()
        first = state.segments[0].base_offset
        remove_snapshots(self._context.disk, self._directory, below=first, above=state.log_end_offset)
