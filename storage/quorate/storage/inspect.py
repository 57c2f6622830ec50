"""Looking at segment files offline: what ``quorate log dump`` and ``quorate log verify`` print.

Nothing here changes a file. A log that a node has open may be looked at too; its last batch can
then appear torn, because it is being written.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, NoReturn

from quorate.core.clock import SystemClock
from quorate.core.disk import Disk
from quorate.core.records import (
    LOG_OVERHEAD_BYTES,
    BatchHeader,
    Record,
    check_batch,
    decode_batch,
    parse_header,
    stated_bytes,
)
from quorate.errors import InvalidRequest, QuorateError, StorageFailed
from quorate.storage.checkpoint import DamagedCheckpoint, read_checkpoint
from quorate.storage.data_directory_files import HIGH_WATERMARKS_NAME, IDENTITY_NAME, RUN_NOTES_NAME
from quorate.storage.index import IndexFileDamaged, OffsetIndex, TimeIndex
from quorate.storage.leader_epochs import EPOCH_CHECKPOINT_NAME, LeaderEpochCache
from quorate.storage.log_config import LogConfig
from quorate.storage.log_context import LogContext
from quorate.storage.log_files import (
    COMPACTION_CHECKPOINT_NAME,
    LOG_CHECKPOINT_NAME,
    SWAP_SUFFIX,
    list_segments,
    list_snapshots,
    list_swaps,
    snapshot_path,
)
from quorate.storage.open_files import OpenFiles
from quorate.storage.partition_key import PartitionKey
from quorate.storage.producer_state import ProducerStates
from quorate.storage.quarantine import DAMAGE_NAME
from quorate.storage.recovery import BATCH_BYTES_MAX, LogScanner
from quorate.storage.segment import Segment
from quorate.storage.steps import run_at_once

__all__ = ["BatchDump", "LogReport", "Problem", "ProblemKind", "dump_segment", "verify"]


class BatchDump(NamedTuple):
    position: int
    #: None where not even the header makes sense
    header: BatchHeader | None
    #: what is wrong with the batch, None if nothing is
    problem: str | None
    #: only where asked for and readable
    records: list[Record]


def dump_segment(disk: Disk, path: str, *, with_records: bool = False) -> Iterator[BatchDump]:
    """Every batch of a segment file in turn; ends at bytes that no longer tell where they end."""
    try:
        file = disk.open(path)
        size = file.size()
    except OSError as error:
        raise _cannot_read(path, error) from error
    position = 0
    while position < size:
        try:
            stated = stated_bytes(file.pread(LOG_OVERHEAD_BYTES, position))
            dump = _dump_batch(file.pread(min(BATCH_BYTES_MAX, stated), position))
        except OSError as error:
            raise _cannot_read(path, error) from error
        yield BatchDump(position, *dump) if with_records else BatchDump(position, dump[0], dump[1], [])
        if dump[0] is None:
            return
        position += dump[0].size_in_bytes


def _dump_batch(batch: bytes) -> tuple[BatchHeader | None, str | None, list[Record]]:
    try:
        header = parse_header(batch)
    except QuorateError as error:
        return None, str(error), []
    try:
        check_batch(batch)
        return header, None, decode_batch(batch)
    except QuorateError as error:
        return header, str(error), []


class ProblemKind(enum.Enum):
    #: bytes that may have been acknowledged, or that a node does not start without, are wrong or gone
    DAMAGE = "damage"
    #: an unfinished write at the very end, which the next start cuts off
    TORN = "torn"
    #: a file beside the batches that the next start rebuilds, or does without
    REBUILDABLE = "rebuildable"


#: a data directory's own checkpoints, and what it means if one is damaged
_OWN_CHECKPOINTS: Final = {
    IDENTITY_NAME: ProblemKind.DAMAGE,
    RUN_NOTES_NAME: ProblemKind.REBUILDABLE,
    HIGH_WATERMARKS_NAME: ProblemKind.REBUILDABLE,
}

#: so that a scan leaves an index entry for every batch, whatever the interval of the files on disk
_EVERY_BATCH: Final = LogConfig(index_interval_bytes=0)


class Problem(NamedTuple):
    kind: ProblemKind
    path: str
    position: int
    offset: int
    reason: str


@dataclass(slots=True)
class LogReport:
    directory: str
    segments: int = 0
    batches: int = 0
    records: int = 0
    size_in_bytes: int = 0
    log_start_offset: int = 0
    log_end_offset: int = 0
    problems: list[Problem] = field(default_factory=list)

    @property
    def is_damaged(self) -> bool:
        return any(problem.kind is ProblemKind.DAMAGE for problem in self.problems)


def verify(disk: Disk, path: str) -> Iterator[LogReport]:
    """Check every log in a data directory, or the one in a partition's directory.

    If something is wrong with a data directory's own files, a report of the directory itself comes first.
    """
    path = path.rstrip("/")
    try:
        names = disk.list(path)
        if list_segments(disk, path):
            yield _Verification(disk, path).run()
            return
        partitions = [name for name in names if PartitionKey.parse(name)]
        if not partitions and not _OWN_CHECKPOINTS.keys() & set(names):
            raise InvalidRequest(f"{path} is neither a data directory nor a partition's directory", path=path)
        own = LogReport(path, problems=list(_damaged_checkpoints(disk, path)))
        if own.problems:
            yield own
        for name in partitions:
            yield _Verification(disk, f"{path}/{name}").run()
    except OSError as error:
        raise _cannot_read(path, error) from error


def _cannot_read(path: str, error: OSError) -> StorageFailed:
    """Names the very file where the error does, not only the directory that it is in."""
    path = error.filename or path
    return StorageFailed(f"cannot read {path}: {error.strerror}", path=path)


def _damaged_checkpoints(disk: Disk, path: str) -> Iterator[Problem]:
    for name, kind in _OWN_CHECKPOINTS.items():
        try:
            read_checkpoint(disk, f"{path}/{name}")
        except DamagedCheckpoint as damaged:
            yield Problem(kind, damaged.path, 0, 0, damaged.reason)


class _Verification:
    """Of one log. Each file is checked by itself, against the batches and not against each other."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self._report = LogReport(directory)
        self._context = LogContext(disk, SystemClock(), OpenFiles(disk, files_max=1), _never_fatal)

    def run(self) -> LogReport:
        report = self._report
        segments = self._segments()
        self._check_quarantine()
        checkpoint = self._read_checkpoint(f"{self._directory}/{LOG_CHECKPOINT_NAME}")
        scanner = self._scanner()
        for index, segment in enumerate(segments):
            following = segments[index + 1] if index + 1 < len(segments) else None
            fault = run_at_once(scanner.scan_segment(segment, following))
            if fault is not None:
                kind = ProblemKind.TORN if fault.torn else ProblemKind.DAMAGE
                self._add(kind, segment.path, fault.reason, position=fault.position, offset=fault.offset)
            elif segment.is_in_place and (following is not None or _was_closed_with(segment, checkpoint)):
                self._check_indexes(segment, must_exist=following is not None)
            report.size_in_bytes += segment.size
            segment.retire()
        report.segments = len(segments)
        report.batches = scanner.batch_count
        report.records = scanner.record_count
        if segments:
            report.log_start_offset = segments[0].base_offset
            report.log_end_offset = segments[-1].next_offset
        for offset in list_snapshots(self._disk, self._directory):
            self._read_checkpoint(snapshot_path(self._directory, offset))
        self._read_checkpoint(f"{self._directory}/{COMPACTION_CHECKPOINT_NAME}")
        if checkpoint is not None:
            self._check_log_checkpoint(checkpoint)
        return report

    def _segments(self) -> list[Segment]:
        """As the next start would have them: it puts cleaned segments in the place of those they replace."""
        swaps = list_swaps(self._disk, self._directory)
        segments = [
            Segment(self._context, _EVERY_BATCH, self._directory, base)
            for base in list_segments(self._disk, self._directory)
            if not any(span.base_offset <= base < span.end_offset for span in swaps)
        ]
        for span in swaps:
            path = span.path(self._directory, SWAP_SUFFIX)
            segments.append(
                Segment(self._context, _EVERY_BATCH, self._directory, span.base_offset, path=path)
            )
            self._add(ProblemKind.REBUILDABLE, path, "is to replace other segments, which is unfinished")
        return sorted(segments, key=lambda segment: segment.base_offset)

    def _add(self, kind: ProblemKind, path: str, reason: str, *, position: int = 0, offset: int = 0) -> None:
        self._report.problems.append(Problem(kind, path, position, offset, reason))

    def _read_checkpoint(self, path: str) -> dict[str, Any] | None:
        try:
            return read_checkpoint(self._disk, path)
        except DamagedCheckpoint as damaged:
            self._add(ProblemKind.REBUILDABLE, damaged.path, damaged.reason)
            return None

    def _scanner(self) -> LogScanner:
        path = f"{self._directory}/{EPOCH_CHECKPOINT_NAME}"
        epochs = LeaderEpochCache(self._disk, path)
        try:
            are_complete = epochs.load()
        except DamagedCheckpoint as damaged:
            self._add(ProblemKind.REBUILDABLE, path, damaged.reason)
            are_complete = False
        return LogScanner(epochs, ProducerStates(), epochs_are_complete=are_complete)

    def _check_quarantine(self) -> None:
        if self._disk.exists(f"{self._directory}/{DAMAGE_NAME}"):
            path = f"{self._directory}/{DAMAGE_NAME}"
            self._add(ProblemKind.DAMAGE, path, "the log is quarantined: damage was found in it before")

    def _check_log_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        if checkpoint["reset_to"] is not None:
            # Whatever is here was given up; the next start removes it.
            reason = f"a reset to offset {checkpoint['reset_to']} is unfinished"
            self._add(ProblemKind.REBUILDABLE, f"{self._directory}/{LOG_CHECKPOINT_NAME}", reason)
            return
        report = self._report
        if checkpoint["log_start_offset"] < report.log_start_offset:
            self._add(
                ProblemKind.DAMAGE,
                self._directory,
                f"the log starts at offset {report.log_start_offset}, segments before it are missing",
                offset=checkpoint["log_start_offset"],
            )
        report.log_start_offset = max(report.log_start_offset, checkpoint["log_start_offset"])
        if report.log_end_offset < checkpoint["recovery_point"] and not report.is_damaged:
            self._add(
                ProblemKind.DAMAGE,
                self._directory,
                f"the log ends at offset {report.log_end_offset}, "
                f"but was synced up to {checkpoint['recovery_point']}",
                offset=report.log_end_offset,
            )

    def _check_indexes(self, segment: Segment, *, must_exist: bool) -> None:
        """The scan has left an entry for every batch in memory: the files may say less, nothing else."""
        for path, check in (
            (segment.index_path, _wrong_offset_entry),
            (segment.time_index_path, _wrong_time_entry),
        ):
            try:
                wrong = check(segment, self._disk.read_file(path))
            except FileNotFoundError:
                wrong = _WrongEntry(0, "the file is missing") if must_exist else None
            except IndexFileDamaged as damaged:
                wrong = _WrongEntry(0, str(damaged))
            if wrong is not None:
                self._add(ProblemKind.REBUILDABLE, path, wrong.reason, offset=wrong.offset)


class _WrongEntry(NamedTuple):
    offset: int
    reason: str


def _wrong_offset_entry(segment: Segment, content: bytes) -> _WrongEntry | None:
    for entry in OffsetIndex.from_bytes(content).entries():
        if segment.offset_index.entry_before(entry[0]) != entry:
            offset = segment.base_offset + entry[0]
            reason = f"entry for offset {offset} points to byte {entry[1]}, where no such batch starts"
            return _WrongEntry(offset, reason)
    return None


def _wrong_time_entry(segment: Segment, content: bytes) -> _WrongEntry | None:
    index = TimeIndex.from_bytes(content)
    for timestamp, relative_offset in index.entries():
        batch = segment.offset_index.entry_before(relative_offset)
        ends_a_batch = batch is not None and batch[0] == relative_offset
        if not ends_a_batch or segment.time_index.timestamp_at(relative_offset) != timestamp:
            offset = segment.base_offset + relative_offset
            reason = f"entry says that time {timestamp} is the newest up to offset {offset}, which it is not"
            return _WrongEntry(offset, reason)
    if segment.size and index.max_timestamp != segment.max_timestamp:
        last = segment.next_offset - 1
        return _WrongEntry(last, f"does not tell of time {segment.max_timestamp}, the segment's newest")
    return None


def _was_closed_with(segment: Segment, checkpoint: dict[str, Any] | None) -> bool:
    """Of the last segment the index files count only after a clean stop: who appends, does so in memory."""
    return checkpoint is not None and checkpoint["clean_end"] == [segment.next_offset, segment.size]


def _never_fatal(reason: str) -> NoReturn:
    raise AssertionError(f"looking at a log never syncs: {reason}")
