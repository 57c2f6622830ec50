"""From a directory to a log's state: trust it after a clean stop, prove it otherwise.

A clean start reads three small files and no batch. Any other start scans from the segment that
holds the recovery point, as ``recovery`` describes; a clean start whose files do not say what they
should is treated as a crash.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import structlog

from quorate.core.ids import LeaderEpoch, Offset
from quorate.errors import CorruptBatch
from quorate.storage.checkpoint import DamagedCheckpoint, read_checkpoint, write_cached
from quorate.storage.leader_epochs import EPOCH_CHECKPOINT_NAME, LeaderEpochCache
from quorate.storage.log_config import LogConfig
from quorate.storage.log_context import LogContext
from quorate.storage.log_files import (
    DAMAGE_NAME,
    LOG_CHECKPOINT_NAME,
    list_segments,
    list_snapshots,
    remove_temporary_files,
    snapshot_path,
)
from quorate.storage.producer_state import ProducerStates
from quorate.storage.recovery import Damage, Fault, LogScanner, StartKind, cut_is_allowed
from quorate.storage.segment import Segment

__all__ = ["LogState", "OpeningReport", "load_damage", "load_producers", "load_state", "save_damage"]

log = structlog.get_logger(__name__)

_NOTHING: Final = Offset(0)


@dataclass(slots=True)
class OpeningReport:
    """What opening found and did; for logs, tests and the command line."""

    start: StartKind
    scanned_bytes: int = 0
    #: bytes of a torn or, after a lossy start, unsynced tail that were cut
    cut_bytes: int = 0
    #: what a lossy start cut, if it was more than a torn batch
    cut_damage: Damage | None = None
    epochs_rebuilt: bool = False


@dataclass(slots=True)
class LogState:
    epochs: LeaderEpochCache
    report: OpeningReport
    segments: list[Segment] = field(default_factory=list)
    producers: ProducerStates = field(default_factory=ProducerStates)
    log_start_offset: Offset = _NOTHING
    #: everything below is on the device (exclusive); what the checkpoint says, not more
    recovery_point: Offset = _NOTHING
    damage: Damage | None = None

    @property
    def log_end_offset(self) -> Offset:
        return self.segments[-1].next_offset if self.segments else self.log_start_offset


def load_state(context: LogContext, config: LogConfig, directory: str, start: StartKind) -> LogState:
    """Everything that is known of the log in ``directory``. Changes nothing on disk if it is damaged."""
    return _Opening(context, config, directory, start).run()


class _Opening:
    def __init__(self, context: LogContext, config: LogConfig, directory: str, start: StartKind) -> None:
        self._context = context
        self._config = config
        self._directory = directory
        self._start = start
        epochs = LeaderEpochCache(context.disk, f"{directory}/{EPOCH_CHECKPOINT_NAME}")
        self._state = LogState(epochs, OpeningReport(start))

    def run(self) -> LogState:
        state = self._state
        state.damage = load_damage(self._context, self._directory)
        if state.damage is not None:
            return state
        remove_temporary_files(self._context.disk, self._directory)
        checkpoint = self._read_log_checkpoint()
        if checkpoint is not None and checkpoint["reset_to"] is not None:
            self._finish_reset(Offset(checkpoint["reset_to"]))
            return state
        state.segments = [
            Segment(self._context, self._config, self._directory, base)
            for base in list_segments(self._context.disk, self._directory)
        ]
        state.damage = self._apply_log_checkpoint(checkpoint)
        if state.damage is not None:
            return state
        if not state.segments:
            self._create_first_segment()
        elif not self._trust_clean_close(checkpoint):
            state.damage = self._recover()
        return state

    # -- the log checkpoint

    def _read_log_checkpoint(self) -> dict[str, Any] | None:
        try:
            return read_checkpoint(self._context.disk, f"{self._directory}/{LOG_CHECKPOINT_NAME}")
        except DamagedCheckpoint as damaged:
            # Nothing but the place to start scanning is lost: scan everything.
            log.warning("log_checkpoint_damaged", path=damaged.path, reason=damaged.reason)
            return None

    def _apply_log_checkpoint(self, checkpoint: dict[str, Any] | None) -> Damage | None:
        """Log start and recovery point; segments that should be there and are not are damage."""
        state = self._state
        segments = state.segments
        if checkpoint is None:
            first = segments[0].base_offset if segments else Offset(0)
            state.log_start_offset = state.recovery_point = first
            return None
        state.log_start_offset = Offset(checkpoint["log_start_offset"])
        state.recovery_point = Offset(checkpoint["recovery_point"])
        self._drop_segments_before_log_start()
        if segments and segments[0].base_offset > state.log_start_offset:
            return Damage(segments[0].path, 0, state.log_start_offset, "segments before this one are missing")
        if not segments and state.recovery_point > state.log_start_offset:
            return Damage(self._directory, 0, state.log_start_offset, "all segments are missing")
        return None

    def _drop_segments_before_log_start(self) -> None:
        """Deleting them was decided and recorded before a crash; finish it."""
        segments = self._state.segments
        while len(segments) > 1 and segments[1].base_offset <= self._state.log_start_offset:
            segments.pop(0).delete()

    def _create_first_segment(self) -> None:
        state = self._state
        base = state.log_start_offset
        state.segments.append(Segment.create(self._context, self._config, self._directory, base))

    def _finish_reset(self, offset: Offset) -> None:
        """A reset had begun: whatever is here is to be dropped."""
        remove_all(self._context, self._config, self._directory)
        self._state.log_start_offset = self._state.recovery_point = offset
        self._create_first_segment()

    # -- clean

    def _trust_clean_close(self, checkpoint: dict[str, Any] | None) -> bool:
        state = self._state
        if self._start is not StartKind.CLEAN or checkpoint is None or checkpoint["clean_end"] is None:
            return False
        end_offset, end_size = checkpoint["clean_end"]
        if self._context.disk.size(state.segments[-1].path) != end_size:
            return False
        if end_offset < state.segments[-1].base_offset or not self._load_epochs():
            return False
        producers = load_snapshot(self._context, self._directory, Offset(end_offset))
        if producers is None:
            return False
        state.producers = producers
        self._trust_segments(state.segments, Offset(end_offset))
        return True

    def _trust_segments(self, segments: list[Segment], end_offset: Offset) -> None:
        """Take length and end of each from its file and its successor, without reading it."""
        following = [segment.base_offset for segment in segments[1:]]
        for segment, next_offset in zip(segments, [*following, end_offset], strict=True):
            segment.size = self._context.disk.size(segment.path)
            segment.next_offset = next_offset

    def _load_epochs(self) -> bool:
        try:
            return self._state.epochs.load()
        except DamagedCheckpoint as damaged:
            log.warning("epoch_checkpoint_damaged", path=damaged.path, reason=damaged.reason)
            return False

    # -- not clean

    def _recover(self) -> Damage | None:
        state = self._state
        state.report.start = StartKind.PROCESS_CRASH if self._start is StartKind.CLEAN else self._start
        first = self._first_to_scan()
        scan_from = state.segments[first].base_offset
        trusted, scanned = state.segments[:first], state.segments[first:]
        self._trust_segments(trusted, scan_from)
        try:
            epochs_are_complete = self._prepare_epochs(trusted, scan_from)
            state.producers = load_producers(self._context, self._directory, trusted, scan_from)
        except CorruptBatch as error:
            return Damage(self._directory, 0, scan_from, str(error))
        scanner = LogScanner(state.epochs, state.producers, epochs_are_complete=epochs_are_complete)
        fault = scanner.scan(scanned)
        state.report.scanned_bytes = scanner.scanned_bytes
        if fault is not None:
            if not cut_is_allowed(fault, start=state.report.start, recovery_point=state.recovery_point):
                return fault.as_damage()
            self._cut(fault)
        if state.log_end_offset < state.recovery_point:
            last = state.segments[-1]
            reason = f"the log ends here, but was synced up to offset {state.recovery_point}"
            return Damage(last.path, last.size, last.next_offset, reason)
        self._tidy()
        return None

    def _first_to_scan(self) -> int:
        """Index of the segment that holds the recovery point."""
        below = [s for s in self._state.segments if s.base_offset <= self._state.recovery_point]
        return max(len(below) - 1, 0)

    def _prepare_epochs(self, trusted: list[Segment], scan_from: Offset) -> bool:
        """Whether the checkpoint can vouch for the epochs of the batches to be scanned."""
        epochs = self._state.epochs
        loaded = self._load_epochs()
        if loaded and self._state.report.start is not StartKind.LOSSY:
            return True
        if loaded:
            # Checkpoint and batches reached the device in any order: above, the batches decide.
            epochs.replace([entry for entry in epochs.entries if entry.start_offset < scan_from])
        else:
            self._state.report.epochs_rebuilt = True
            epochs.clear()
            for segment in trusted:
                for _, header in segment.walk(0):
                    if header.leader_epoch > epochs.latest:
                        epochs.assign(LeaderEpoch(header.leader_epoch), Offset(header.base_offset))
        return False

    def _cut(self, fault: Fault) -> None:
        """Drop everything from the fault on."""
        state = self._state
        keep = state.segments.index(fault.segment) + 1
        for segment in reversed(state.segments[keep:]):
            state.report.cut_bytes += self._context.disk.size(segment.path)
            segment.delete()
        del state.segments[keep:]
        state.report.cut_bytes += self._context.disk.size(fault.segment.path) - fault.position
        fault.segment.cut_file()
        if not fault.torn:
            state.report.cut_damage = fault.as_damage()
        log.warning(
            "log_tail_cut",
            path=fault.segment.path,
            position=fault.position,
            offset=fault.offset,
            bytes=state.report.cut_bytes,
            reason=fault.reason,
        )

    def _tidy(self) -> None:
        """Bring the files beside the batches in line with what the scan found."""
        state = self._state
        # Also an epoch noted at the very end: it has no batch, and whoever leads next has a new one.
        state.epochs.truncate_from_end(state.log_end_offset)
        state.epochs.save_cached()
        for segment in state.segments[:-1]:
            if segment.has_indexes_in_memory:
                segment.persist_indexes()
                segment.retire()
        for offset in list_snapshots(self._context.disk, self._directory):
            if offset > state.log_end_offset:
                self._context.disk.unlink(snapshot_path(self._directory, offset))


def load_snapshot(context: LogContext, directory: str, offset: Offset) -> ProducerStates | None:
    """Producer state before ``offset``, if there is a snapshot of it and it is whole."""
    try:
        state = read_checkpoint(context.disk, snapshot_path(directory, offset))
    except DamagedCheckpoint as damaged:
        log.warning("producer_snapshot_damaged", path=damaged.path, reason=damaged.reason)
        return None
    return None if state is None else ProducerStates.from_state(state)


def load_producers(
    context: LogContext, directory: str, segments: list[Segment], end_offset: Offset
) -> ProducerStates:
    """Producer state before ``end_offset``: the newest snapshot, and the batches after it (rule 49)."""
    producers, replay_from = ProducerStates(), Offset(0)
    for offset in reversed(list_snapshots(context.disk, directory)):
        found = load_snapshot(context, directory, offset) if offset <= end_offset else None
        if found is not None:
            producers, replay_from = found, offset
            break
    for segment in segments:
        if segment.next_offset <= replay_from or segment.base_offset >= end_offset:
            continue
        start = segment.position_of(max(replay_from, segment.base_offset))
        for _, header in segment.walk(start):
            if header.producer_id >= 0 and header.base_offset < end_offset:
                producers.apply(header, Offset(header.base_offset))
    return producers


def remove_all(context: LogContext, config: LogConfig, directory: str) -> None:
    """Every batch, index, snapshot and epoch of the log; the newest first, so that no gap appears."""
    for base in reversed(list_segments(context.disk, directory)):
        Segment(context, config, directory, base).delete()
    for offset in list_snapshots(context.disk, directory):
        context.disk.unlink(snapshot_path(directory, offset))
    epochs = f"{directory}/{EPOCH_CHECKPOINT_NAME}"
    if context.disk.exists(epochs):
        context.disk.unlink(epochs)


def save_damage(context: LogContext, directory: str, damage: Damage) -> None:
    """Remember that the log is quarantined, so that a restart does not forget it."""
    state = {
        "path": damage.path.rpartition("/")[2],
        "position": damage.position,
        "offset": damage.offset,
        "reason": damage.reason,
    }
    try:
        write_cached(context.disk, f"{directory}/{DAMAGE_NAME}", state)
    except OSError as error:
        context.note_storage_error("mark damage", directory, error)


def load_damage(context: LogContext, directory: str) -> Damage | None:
    path = f"{directory}/{DAMAGE_NAME}"
    try:
        state = read_checkpoint(context.disk, path)
    except DamagedCheckpoint as damaged:
        return Damage(path, 0, Offset(0), f"quarantined; the reason is unreadable: {damaged.reason}")
    if state is None:
        return None
    return Damage(f"{directory}/{state['path']}", state["position"], Offset(state["offset"]), state["reason"])
