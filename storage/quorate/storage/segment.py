"""One segment: a ``.log`` file of record batches end to end, and its sparse indexes.

The last segment of a log is *active*: it is appended to, and its indexes live in memory. Sealing
writes the indexes beside it; a sealed segment changes no more, except that a truncation can make
it the active one again.

A segment trusts its own bookkeeping (``size``, ``next_offset``) and not the file's length: bytes
behind ``size`` are what a failed write left behind, and are never served.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Self

from quorate.core.disk import Bytes, File
from quorate.core.ids import Offset, TimestampMs
from quorate.core.records import (
    HEADER_BYTES,
    BatchHeader,
    BatchRun,
    FaultKind,
    ScanResult,
    check_batch,
    parse_header,
    scan_batches,
    stated_bytes,
)
from quorate.errors import CorruptBatch, UnsupportedBatch
from quorate.storage.file_writes import overwrite, sync_file
from quorate.storage.index import IndexFileDamaged, OffsetIndex, TimeIndex
from quorate.storage.log_config import LogConfig
from quorate.storage.log_context import LogContext
from quorate.storage.steps import Steps

__all__ = [
    "INDEX_SUFFIX",
    "LOG_SUFFIX",
    "NO_TIMESTAMP",
    "RELATIVE_OFFSET_MAX",
    "TIME_INDEX_SUFFIX",
    "FileRegion",
    "Segment",
    "segment_path",
]

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
NO_TIMESTAMP: Final = TimestampMs(-1)
#: of a segment's last offset from its first: it has 32 bits in an index, one of them to spare
RELATIVE_OFFSET_MAX: Final = (1 << 31) - 1

#: a walk over headers reads this much at once
_WALK_BYTES: Final = 8192
_REBUILD_BYTES: Final = 1 << 20


def segment_path(directory: str, base_offset: Offset, suffix: str) -> str:
    return f"{directory}/{base_offset:020d}{suffix}"


@dataclass(frozen=True, slots=True)
class FileRegion:
    """Whole batches as they lie in a file."""

    file: File
    position: int
    length: int

    def read(self) -> bytes:
        return self.file.pread(self.length, self.position)


class Segment:
    __slots__ = (
        "_context",
        "_directory",
        "_file",
        "_index",
        "_indexed_size",
        "_max_timestamp",
        "_time_index",
        "_written_file",
        "base_offset",
        "config",
        "next_offset",
        "path",
        "size",
    )

    def __init__(
        self,
        context: LogContext,
        config: LogConfig,
        directory: str,
        base_offset: Offset,
        *,
        path: str | None = None,
    ) -> None:
        """``path`` is given for one whose batches are not in their final place (``segment_swap``)."""
        self._context = context
        self.config = config
        self._directory = directory
        #: kept open while the segment is active; a sealed one borrows from OpenFiles
        self._file: File | None = None
        #: of a sealed segment, until it is synced: the kernel tells of a write that failed to those who have
        #: the file open, and may have forgotten it when somebody opens it again (rule 45)
        self._written_file: File | None = None
        #: None until needed: an idle log should cost next to nothing
        self._index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        #: where the last batch with an index entry starts
        self._indexed_size = 0
        self.base_offset = base_offset
        #: exclusive: the offset after the last batch
        self.next_offset = base_offset
        #: bytes of whole batches; the next append goes here
        self.size = 0
        #: not known while NO_TIMESTAMP, unless the indexes are in memory: ask ``max_timestamp``
        self._max_timestamp = NO_TIMESTAMP
        #: where the batches are
        self.path = path or segment_path(directory, base_offset, LOG_SUFFIX)

    @property
    def is_in_place(self) -> bool:
        """Its file has the name of a segment, so the files beside it are its indexes."""
        return self.path == segment_path(self._directory, self.base_offset, LOG_SUFFIX)

    @property
    def index_path(self) -> str:
        return segment_path(self._directory, self.base_offset, INDEX_SUFFIX)

    @property
    def time_index_path(self) -> str:
        return segment_path(self._directory, self.base_offset, TIME_INDEX_SUFFIX)

    @property
    def file(self) -> File:
        return self._file or self._context.open_files.get(self.path)

    # -- appending

    @classmethod
    def create(cls, context: LogContext, config: LogConfig, directory: str, base_offset: Offset) -> Self:
        """A new, empty, active segment."""
        segment = cls(context, config, directory, base_offset)
        segment._file = context.disk.open(segment.path, create=True)
        segment.forget_batches()
        return segment

    @property
    def is_active(self) -> bool:
        return self._file is not None

    def activate(self) -> None:
        """Open for appending, with the indexes in memory."""
        if self._index is None:
            self._load_indexes()
        self._context.open_files.forget(self.path)
        self._file = self._written_file or self._context.disk.open(self.path)
        self._written_file = None

    def write(self, buffers: Sequence[Bytes]) -> None:
        """Put bytes behind the last batch; they count only once ``add_batch`` says so."""
        assert self._file is not None
        if len(buffers) == 1:
            self._file.pwrite(buffers[0], self.size)
        else:
            self._file.pwritev(buffers, self.size)

    def add_batch(self, *, last_offset: Offset, size_in_bytes: int, max_timestamp: TimestampMs) -> None:
        """A batch lies whole at ``size``: count it, and index it if the last entry is far behind."""
        position = self.size
        if max_timestamp > self._max_timestamp:
            self._max_timestamp = max_timestamp
        if position >= self._indexed_size + self.config.index_interval_bytes:
            relative_offset = last_offset - self.base_offset
            self.offset_index.append(relative_offset=relative_offset, position=position)
            self.time_index.maybe_append(timestamp=self._max_timestamp, relative_offset=relative_offset)
            self._indexed_size = position
        self.size = position + size_in_bytes
        self.next_offset = Offset(last_offset + 1)

    def add_run(self, run: BatchRun, *, start: int) -> None:
        """As ``add_batch`` for each batch of a run that begins at ``start`` in the scanned buffer."""
        shift = self.size - start
        if run.marks:
            self.offset_index.extend(run.marks, base_offset=self.base_offset, shift=shift)
            self.time_index.extend(run.marks, base_offset=self.base_offset)
            self._indexed_size = self.offset_index.last_position
        self._max_timestamp = run.max_timestamp
        self.size = run.end + shift
        self.next_offset = run.next_offset

    @property
    def next_index_position(self) -> int:
        """A batch that starts here or later gets an index entry."""
        return self._indexed_size + self.config.index_interval_bytes

    @property
    def index_interval_bytes(self) -> int:
        return self.config.index_interval_bytes

    def persist_indexes(self) -> None:
        """To the page cache; ``sync`` makes them durable. A torn one is rebuilt by its checksum."""
        # The last entry carries the segment's largest timestamp, which retention needs.
        if self.next_offset > self.base_offset:
            self.time_index.maybe_append(
                timestamp=self._max_timestamp, relative_offset=self.next_offset - 1 - self.base_offset
            )
        overwrite(self._context.disk, self.index_path, self.offset_index.to_bytes())
        overwrite(self._context.disk, self.time_index_path, self.time_index.to_bytes())

    def seal(self) -> None:
        """No longer active: as ``retire``, but the descriptor is kept for the next sync."""
        written_file = self._file
        self.retire()
        self._written_file = written_file

    def retire(self) -> None:
        """Give the descriptor and the indexes' memory back."""
        # Let go of, not closed: whoever is about to read a region of it reads on.
        self._file = self._written_file = None
        self._context.open_files.forget(self.path)
        self._index = None
        self._time_index = None

    async def sync(self) -> None:
        """All batches counted so far are on the device when this returns (names excluded).

        Of a sealed segment the indexes too, as nobody reads its batches at the next start: an older
        index that a power loss brings back has a good checksum, and does not know the newest records.
        """
        if self._file is not None:
            await self._file.fdatasync()
            return
        if self._written_file is not None:
            await self._written_file.fdatasync()
            self._written_file = None
        else:
            await sync_file(self._context.disk, self.path)
        await self.sync_indexes()

    def let_go_of_written_file(self) -> None:
        """It is synced by another descriptor then."""
        self._written_file = None

    async def sync_indexes(self) -> None:
        for path in (self.index_path, self.time_index_path):
            if self._context.disk.exists(path):
                await sync_file(self._context.disk, path)

    # -- reading

    def position_of(self, offset: Offset) -> int:
        """Start of the first batch whose last offset is at or behind ``offset``, or ``size``."""
        if offset >= self.next_offset:
            return self.size
        entry = self.offset_index.entry_before(offset - self.base_offset)
        start = 0 if entry is None else entry[1]
        for position, header in self.walk(start):
            if entry is not None and position == start:
                self._check_against_index(header, *entry)
            if header.last_offset >= offset:
                return position
        raise CorruptBatch(f"{self.path}: no batch holds offset {offset}", offset=offset)

    def position_before(self, offset: Offset) -> int:
        """Start of a batch at or before that of ``position_of``, as near as the index knows one."""
        if offset >= self.next_offset:
            return self.size
        entry = self.offset_index.entry_before(offset - self.base_offset)
        return 0 if entry is None else entry[1]

    def _check_against_index(self, header: BatchHeader, relative_offset: int, position: int) -> None:
        """A batch's offset lies outside its checksum: the index vouches for the first one of a walk."""
        due = self.base_offset + relative_offset
        if header.last_offset != due:
            raise CorruptBatch(
                f"last offset of the batch is {header.last_offset}, {due} by the index",
                path=self.path,
                position=position,
            )

    def batch_start(self, offset: Offset) -> Offset:
        """Base offset of the first batch whose last offset is at or behind ``offset``."""
        for _, header in self.walk(self.position_of(offset)):
            return header.base_offset
        return self.next_offset

    def walk(self, position: int, *, read_bytes: int = _WALK_BYTES) -> Iterator[tuple[int, BatchHeader]]:
        """Headers from ``position`` (a batch's start) to the end, without looking at the records.

        What makes no sense, or does not follow what comes before it, is CorruptBatch.
        """
        file = self.file
        chunk, chunk_start = b"", position
        due = self.base_offset if position == 0 else None
        while position + HEADER_BYTES <= self.size:
            at = position - chunk_start
            if at + HEADER_BYTES > len(chunk):
                chunk, chunk_start, at = file.pread(read_bytes, position), position, 0
            try:
                header = parse_header(chunk, at)
            except (CorruptBatch, UnsupportedBatch) as error:
                raise CorruptBatch(str(error), path=self.path, position=position) from error
            if due is not None and header.base_offset != due:
                reason = f"base offset is {header.base_offset}, {due} was due"
                raise CorruptBatch(reason, path=self.path, position=position)
            yield position, header
            position += header.size_in_bytes
            due = header.next_offset

    def read_batch(self, position: int, header: BatchHeader) -> bytes:
        """The batch that a walk found at ``position``, with a checksum that holds."""
        batch = self.file.pread(header.size_in_bytes, position)
        try:
            check_batch(batch)
        except CorruptBatch as error:
            raise CorruptBatch(str(error), path=self.path, position=position) from error
        return batch

    def batches(self, position: int = 0) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Whole batches from ``position`` (a batch's start) to the end, each with a checksum that holds.

        What is not sound, or does not follow what comes before it, is CorruptBatch.
        """
        file = self.file
        due, read_bytes = self.base_offset if position == 0 else None, _REBUILD_BYTES
        while position < self.size:
            chunk = memoryview(file.pread(min(read_bytes, self.size - position), position))
            result = scan_batches(chunk)
            if not result.headers:
                read_bytes = self._bytes_to_read_instead(position, chunk, result)
                continue
            at, read_bytes = 0, _REBUILD_BYTES
            for header in result.headers:
                if due is not None and header.base_offset != due:
                    reason = f"base offset is {header.base_offset}, {due} was due"
                    raise CorruptBatch(reason, path=self.path, position=position + at)
                yield header, chunk[at : at + header.size_in_bytes]
                at += header.size_in_bytes
                due = header.next_offset
            position += at

    def _bytes_to_read_instead(self, position: int, chunk: memoryview, result: ScanResult) -> int:
        """A chunk does not hold a single good batch: perhaps the batch is larger."""
        assert result.fault is not None
        is_cut_off = result.fault.kind is FaultKind.INCOMPLETE and len(chunk) >= HEADER_BYTES
        if is_cut_off and len(chunk) < stated_bytes(chunk) <= self.size - position:
            return stated_bytes(chunk)
        raise CorruptBatch(result.fault.reason, path=self.path, position=position)

    def first_timestamp(self) -> TimestampMs | None:
        """Of the first batch; None if there is none, or it carries no time."""
        for _, header in self.walk(0):
            return header.max_timestamp if header.max_timestamp >= 0 else None
        return None

    def region(self, start: int, *, bytes_max: int, end: int) -> FileRegion:
        """Whole batches from ``start``: at least one, and no more than fit ``bytes_max`` after it.

        ``end`` is the batch boundary that must not be passed.
        """
        if end - start > bytes_max:
            end = self._boundary_within(start, start + bytes_max)
        return FileRegion(self.file, start, end - start)

    def _boundary_within(self, start: int, limit: int) -> int:
        boundary = self.offset_index.last_boundary_within(start, limit) or start
        for position, header in self.walk(boundary):
            batch_end = position + header.size_in_bytes
            if batch_end > limit:
                # A batch larger than the limit is handed out alone, else its reader never gets on.
                return batch_end if position == start else position
            boundary = batch_end
        return boundary

    # -- indexes

    @property
    def has_indexes_in_memory(self) -> bool:
        return self._index is not None

    @property
    def offset_index(self) -> OffsetIndex:
        if self._index is None:
            self._load_indexes()
        assert self._index is not None
        return self._index

    @property
    def time_index(self) -> TimeIndex:
        if self._time_index is None:
            self._load_indexes()
        assert self._time_index is not None
        return self._time_index

    def _load_indexes(self) -> None:
        try:
            index = OffsetIndex.from_bytes(self._context.disk.read_file(self.index_path))
            time_index = TimeIndex.from_bytes(self._context.disk.read_file(self.time_index_path))
        except (FileNotFoundError, IndexFileDamaged):
            self.rebuild_indexes()
            return
        self._index, self._time_index = index, time_index
        self._indexed_size = index.last_position
        if time_index.max_timestamp is not None:
            self._max_timestamp = TimestampMs(time_index.max_timestamp)

    def rebuild_indexes(self) -> None:
        """From the batches themselves: an index is only ever a shortcut."""
        scratch = self._empty_twin()
        for _, header in self.walk(0, read_bytes=_REBUILD_BYTES):
            scratch.add_batch(
                last_offset=header.last_offset,
                size_in_bytes=header.size_in_bytes,
                max_timestamp=header.max_timestamp,
            )
        if scratch.size != self.size or scratch.next_offset != self.next_offset:
            raise CorruptBatch(
                f"{self.path}: batches end at byte {scratch.size}, offset {scratch.next_offset}; "
                f"expected byte {self.size}, offset {self.next_offset}"
            )
        self._adopt_indexes_of(scratch)

    def _empty_twin(self) -> Segment:
        twin = Segment(self._context, self.config, self._directory, self.base_offset)
        twin.forget_batches()
        return twin

    def _adopt_indexes_of(self, other: Segment) -> None:
        self._index = other._index
        self._time_index = other._time_index
        self._indexed_size = other._indexed_size
        self._max_timestamp = other._max_timestamp

    def forget_batches(self) -> None:
        """As if empty, before the file's batches are counted (again)."""
        self._index = OffsetIndex()
        self._time_index = TimeIndex()
        self._indexed_size = 0
        self.size = 0
        self.next_offset = self.base_offset
        self._max_timestamp = NO_TIMESTAMP

    @property
    def max_timestamp(self) -> TimestampMs:
        """The largest of all batches; from the time index where the segment was not scanned."""
        if self._max_timestamp == NO_TIMESTAMP and self._index is None and self.size:
            self._load_indexes()
        return self._max_timestamp

    def write_again(self) -> Steps[None]:
        """The same bytes over themselves, so that the next sync puts them on the device.

        After a failed sync the kernel takes pages for clean that never got there; syncing them again
        would do nothing.
        """
        for position in range(0, self.size, _REBUILD_BYTES):
            length = min(_REBUILD_BYTES, self.size - position)
            self.file.pwrite(self.file.pread(length, position), position)
            yield

    def move_to(self, path: str) -> None:
        """Give the file another name. Its readers have it open, or find it there."""
        self._context.disk.rename(self.path, path)
        for name in (self.path, path):
            self._context.open_files.forget(name)
        self.path = path

    # -- shrinking

    def cut_file(self) -> None:
        """Drop what lies behind the last whole batch."""
        self.file.truncate(self.size)

    def truncate(self, offset: Offset) -> None:
        """Keep the batches that end before ``offset``; the segment becomes the active one."""
        position = self.position_of(offset)
        if not self.is_active:
            self.activate()
            self.unlink_indexes()
        assert self._file is not None
        self._file.truncate(position)
        self._cut(position)

    def _cut(self, position: int) -> None:
        """Bring the bookkeeping to a shorter file: walk from the last index entry that is left."""
        self.offset_index.truncate(position)
        start = self.offset_index.last_position
        self.size = position
        self.next_offset = self.base_offset
        self._max_timestamp = NO_TIMESTAMP
        for _, header in self.walk(start):
            self.next_offset = header.next_offset
            self._max_timestamp = max(self._max_timestamp, header.max_timestamp)
        self.time_index.truncate(self.next_offset - self.base_offset)
        self._indexed_size = start
        if self.time_index.max_timestamp is not None:
            self._max_timestamp = max(self._max_timestamp, TimestampMs(self.time_index.max_timestamp))

    def delete(self) -> None:
        """Remove the file and its indexes; the ``.log`` goes last, so that no index is orphaned."""
        self.retire()
        self.unlink_indexes()
        self._context.disk.unlink(self.path)

    def unlink_indexes(self) -> None:
        """They can be rebuilt at any time, so they may go at any time."""
        for path in (self.index_path, self.time_index_path):
            if self._context.disk.exists(path):
                self._context.disk.unlink(path)
