"""Looking at segment files offline: what ``quorate log dump`` and ``quorate log verify`` print.

Nothing here changes a file. A log that a node has open may be looked at too; its last batch can
then appear torn, because it is being written.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, NoReturn

from quorate.core.clock import SystemClock
from quorate.core.disk import Disk
from quorate.core.ids import Offset
from quorate.core.records import (
    HEADER_BYTES,
    BatchHeader,
    Record,
    check_batch,
    decode_batch,
    parse_header,
)
from quorate.errors import CorruptBatch, InvalidRequest, QuorateError, StorageFailed, UnsupportedBatch
from quorate.storage.checkpoint import DamagedCheckpoint, read_checkpoint
from quorate.storage.index import IndexFileDamaged, OffsetIndex, TimeIndex
from quorate.storage.leader_epochs import EPOCH_CHECKPOINT_NAME, LeaderEpochCache
from quorate.storage.log_config import LogConfig
from quorate.storage.log_context import LogContext
from quorate.storage.log_directory import PartitionKey
from quorate.storage.log_files import LOG_CHECKPOINT_NAME, list_segments
from quorate.storage.open_files import OpenFiles
from quorate.storage.producer_state import ProducerStates
from quorate.storage.quarantine import DAMAGE_NAME
from quorate.storage.recovery import BATCH_BYTES_MAX, LogScanner
from quorate.storage.segment import Segment

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
        raise StorageFailed(f"cannot read {path}: {error.strerror}", path=path) from error
    position = 0
    while position < size:
        dump = _dump_batch(
            file.pread(min(BATCH_BYTES_MAX, _stated_bytes(file.pread(12, position))), position)
        )
        yield BatchDump(position, *dump) if with_records else BatchDump(position, dump[0], dump[1], [])
        if dump[0] is None:
            return
        position += dump[0].size_in_bytes


def _stated_bytes(prefix: bytes) -> int:
    return max(HEADER_BYTES, 12 + int.from_bytes(prefix[8:12], "big", signed=True))


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
    #: bytes that may have been acknowledged and are wrong or gone
    DAMAGE = "damage"
    #: an unfinished write at the very end, which the next start cuts off
    TORN = "torn"
    #: a file beside the batches that the next start rebuilds
    REBUILDABLE = "rebuildable"


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
    """Check every log in a data directory, or the one in a partition's directory."""
    path = path.rstrip("/")
    try:
        names = disk.list(path)
        if list_segments(disk, path):
            yield _verify_log(disk, path)
            return
        partitions = [name for name in names if PartitionKey.parse(name)]
        if not partitions:
            raise InvalidRequest(f"{path} is neither a data directory nor a partition's directory", path=path)
        for name in partitions:
            yield _verify_log(disk, f"{path}/{name}")
    except OSError as error:
        raise StorageFailed(f"cannot read {path}: {error.strerror}", path=path) from error


def _verify_log(disk: Disk, directory: str) -> LogReport:
    return _Verification(disk, directory).run()


class _Verification:
    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self._report = LogReport(directory)
        self._context = LogContext(disk, SystemClock(), OpenFiles(disk, files_max=1), _never_fatal)

    def run(self) -> LogReport:
        report = self._report
        segments = [
            Segment(self._context, LogConfig(), self._directory, base)
            for base in list_segments(self._disk, self._directory)
        ]
        self._check_quarantine()
        scanner = self._scanner()
        for index, segment in enumerate(segments):
            following = segments[index + 1] if index + 1 < len(segments) else None
            fault = scanner.scan_segment(segment, following)
            if fault is not None:
                kind = ProblemKind.TORN if fault.torn else ProblemKind.DAMAGE
                self._add(kind, segment.path, fault.reason, position=fault.position, offset=fault.offset)
            elif following is not None:
                self._check_indexes(segment)
            report.size_in_bytes += segment.size
        report.segments = len(segments)
        report.batches = scanner.batch_count
        report.records = scanner.record_count
        if segments:
            report.log_start_offset = segments[0].base_offset
            report.log_end_offset = segments[-1].next_offset
        self._check_log_checkpoint()
        return report

    def _add(self, kind: ProblemKind, path: str, reason: str, *, position: int = 0, offset: int = 0) -> None:
        self._report.problems.append(Problem(kind, path, position, offset, reason))

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

    def _check_log_checkpoint(self) -> None:
        path = f"{self._directory}/{LOG_CHECKPOINT_NAME}"
        try:
            checkpoint = read_checkpoint(self._disk, path)
        except DamagedCheckpoint as damaged:
            self._add(ProblemKind.REBUILDABLE, path, damaged.reason)
            return
        if checkpoint is None:
            return
        if checkpoint["reset_to"] is not None:
            # Whatever is here was given up; the next start removes it.
            reason = f"a reset to offset {checkpoint['reset_to']} is unfinished"
            self._add(ProblemKind.REBUILDABLE, path, reason)
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

    def _check_indexes(self, segment: Segment) -> None:
        try:
            index = OffsetIndex.from_bytes(self._disk.read_file(segment.index_path))
            TimeIndex.from_bytes(self._disk.read_file(segment.time_index_path))
        except (FileNotFoundError, IndexFileDamaged) as error:
            self._add(ProblemKind.REBUILDABLE, segment.index_path, str(error))
            return
        for relative_offset, position in index.entries():
            try:
                header = parse_header(segment.file.pread(HEADER_BYTES, position))
            except (CorruptBatch, UnsupportedBatch):
                header = None
            if header is None or header.last_offset - segment.base_offset != relative_offset:
                offset = Offset(segment.base_offset + relative_offset)
                reason = f"entry for offset {offset} points to byte {position}, where no such batch starts"
                self._add(ProblemKind.REBUILDABLE, segment.index_path, reason, offset=offset)
                return


def _never_fatal(reason: str) -> NoReturn:
    raise AssertionError(f"looking at a log never syncs: {reason}")
