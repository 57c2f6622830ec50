"""Finding out what a log really holds after a stop that was not clean (rule 44).

Problem. After a crash the end of the last segment may be a batch that was only partly written.
That tail was never acknowledged and has to go. But a batch that was acknowledged and has rotted
since may look much the same, and cutting it would lose data without a word. Kafka cuts at the
first batch that fails its checks; a single flipped bit in the middle of a log then silently ends
it there.

What tells the two apart. A process that dies in the middle of a write leaves a *prefix* of the
batch, because the page cache outlives the process. So, after a process crash:

- fewer bytes than the batch says it has, at the very end of the log: torn, cut;
- anything else that fails a check: damage. It is reported, the log is quarantined, nothing is cut.

A flipped bit in a length field makes a whole batch look torn. A batch that is complete under some
other length still matches its checksum there, which a torn one cannot: ``_complete_elsewhere``
looks for that.

After a power loss (a *lossy* start) unsynced pages may be missing in any order, so a batch above
the recovery point may be cut whatever is wrong with it: the replica no longer counts (rule 30).
What was synced before, below the recovery point, is held to the strict rule.

Where every batch is synced before it is acknowledged, the replica does count after that. The recovery
point on record lags behind, so what is cut may have been synced, and rotten since: such a cut is told
of like damage. Not so where nothing was ever written: zeros from the header on, which no bit that rots
leaves behind (``is_unwritten``). What is synced was written, and so was everything before it.

Checked of each batch: its CRC-32C; that its base offset is the one due, and that its leader epoch
is the one on record for that offset, since neither is covered by the checksum. Checked of the
log: that segments follow each other without a gap and that nothing below the recovery point is
missing.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from crc32c import crc32c

from quorate.core.disk import File
from quorate.core.ids import Offset
from quorate.core.records import (
    ATTRIBUTES_POSITION,
    HEADER_BYTES,
    MAGIC,
    MAGIC_POSITION,
    BatchHeader,
    BatchRun,
    FaultKind,
    parse_header,
    scan_batches,
    scan_run,
    stated_bytes,
)
from quorate.errors import CorruptBatch, UnsupportedBatch
from quorate.storage.leader_epochs import LeaderEpochCache
from quorate.storage.producer_state import ProducerStates
from quorate.storage.quarantine import Damage
from quorate.storage.segment import Segment
from quorate.storage.steps import Steps

__all__ = ["BATCH_BYTES_MAX", "Fault", "LogScanner", "StartKind", "cut_is_allowed", "is_unwritten"]

#: no batch on disk is larger; a length beyond it is damage, and no reason to read a gigabyte
BATCH_BYTES_MAX: Final = 128 << 20

_WINDOW_BYTES: Final = 1 << 20
_CHUNK_BYTES: Final = 1 << 20


class StartKind(enum.Enum):
    """How the previous process ended, as far as the page cache is concerned (rule 30)."""

    CLEAN = "clean"
    PROCESS_CRASH = "process_crash"
    LOSSY = "lossy"


@dataclass(frozen=True, slots=True)
class Fault:
    """Where a scan could not go on."""

    segment: Segment
    position: int
    offset: Offset
    reason: str
    #: true for a final batch shorter than its stated length
    torn: bool

    def as_damage(self) -> Damage:
        return Damage(self.segment.path, self.position, self.offset, self.reason)


def cut_is_allowed(fault: Fault, *, start: StartKind, recovery_point: Offset) -> bool:
    """May the log be cut at the fault, or is it damage?"""
    if fault.offset < recovery_point:
        # Synced before, so it was whole; a start of any kind cannot explain the fault.
        return False
    return fault.torn or start is StartKind.LOSSY


def is_unwritten(fault: Fault) -> bool:
    """Where the fault is, there is nothing but zeros: no batch has so much as begun there."""
    return not any(fault.segment.file.pread(HEADER_BYTES, fault.position))


class LogScanner:
    """Walks segments in order, checks every batch, and derives epochs and producers on the way."""

    def __init__(
        self,
        epochs: LeaderEpochCache,
        producers: ProducerStates,
        *,
        epochs_are_complete: bool,
    ) -> None:
        self._epochs = epochs
        self._producers = producers
        #: false when the epoch cache is derived from the batches and cannot vouch for them
        self._epochs_are_complete = epochs_are_complete
        self.scanned_bytes = 0
        self.batch_count = 0
        self.record_count = 0

    def scan(self, segments: Sequence[Segment]) -> Steps[Fault | None]:
        """Count the batches of each segment anew. Stops at the first fault.

        A segment's file may be longer than its ``size`` afterwards: the bytes behind are the fault.
        """
        for index, segment in enumerate(segments):
            following = segments[index + 1] if index + 1 < len(segments) else None
            fault = yield from self.scan_segment(segment, following)
            if fault is not None:
                return fault
        return None

    def scan_segment(self, segment: Segment, following: Segment | None) -> Steps[Fault | None]:
        fault = yield from self._scan_file(segment, is_last=following is None)
        if fault is None and following is not None and segment.next_offset != following.base_offset:
            return self._fault(segment, f"the next segment starts at offset {following.base_offset}")
        return fault

    def _scan_file(self, segment: Segment, *, is_last: bool) -> Steps[Fault | None]:
        file = segment.file
        file_size = file.size()
        segment.forget_batches()
        window = _Window(file, file_size)
        while window.fill(segment.size):
            reason = self._scan_chunk(segment, window.content)
            if reason is not None:
                return self._fault(segment, reason)
            yield
            if segment.size > window.position:
                continue
            # Not one whole batch in the window: it is larger, or cut off by the end of the file.
            if len(window.content) < HEADER_BYTES:
                return self._short_batch(segment, file, file_size, is_last=is_last)
            stated = stated_bytes(window.content)
            if segment.size + stated > file_size:
                return self._short_batch(segment, file, file_size, is_last=is_last)
            if stated > BATCH_BYTES_MAX:
                return self._fault(segment, f"states a length of {stated} bytes, more than any batch has")
            window.grow(stated)
        return None

    def _scan_chunk(self, segment: Segment, chunk: memoryview) -> str | None:
        """Count batches up to the first that is incomplete, or wrong: then the reason is returned."""
        self.scanned_bytes += len(chunk)
        position = 0
        while position < len(chunk):
            run = self._scan_run(segment, chunk, position)
            if run.end > position:
                position = run.end
                continue
            result = scan_batches(chunk, position)
            if result.headers:
                reason = self._reason_against(result.headers[0], segment.next_offset)
            else:
                assert result.fault is not None
                if result.fault.kind is FaultKind.INCOMPLETE:
                    return None
                reason = result.fault.reason
            if reason is not None:
                return reason
        return None

    def _scan_run(self, segment: Segment, chunk: memoryview, position: int) -> BatchRun:
        """Count all batches from ``position`` that are as they should be, within one epoch."""
        due = segment.next_offset
        run = scan_run(
            chunk,
            position,
            next_offset=due,
            end_offset=self._epochs.next_start_after(due),
            leader_epoch=self._epochs.epoch_at(due),
            max_timestamp=segment.max_timestamp,
            mark_from=segment.next_index_position - segment.size + position,
            mark_every=segment.index_interval_bytes,
        )
        segment.add_run(run, start=position)
        self._producers.apply_all(run.producer_headers)
        self.batch_count += run.batch_count
        self.record_count += run.record_count
        return run

    def _reason_against(self, header: BatchHeader, due: Offset) -> str | None:
        """A batch with a good checksum that no run accepts; None if it begins an epoch unheard of."""
        if header.base_offset != due:
            return f"base offset is {header.base_offset}, {due} was due"
        if self._epochs_are_complete:
            on_record = self._epochs.epoch_at(due)
            return f"leader epoch is {header.leader_epoch}, the epoch checkpoint says {on_record}"
        if header.leader_epoch < self._epochs.latest:
            return f"leader epoch goes back from {self._epochs.latest} to {header.leader_epoch}"
        self._epochs.assign(header.leader_epoch, due)
        return None

    def _short_batch(self, segment: Segment, file: File, file_size: int, *, is_last: bool) -> Fault:
        """Too few bytes for a batch: torn, if they are the beginning of the one that was due."""
        missing = f"batch is cut off by the end of the file at byte {file_size}"
        if not is_last:
            return self._fault(segment, f"{missing}, although another segment follows")
        rest = file.pread(min(HEADER_BYTES, file_size - segment.size), segment.size)
        due = segment.next_offset.to_bytes(8, "big")
        if not due.startswith(rest[:8]):
            return self._fault(segment, "bytes are not the beginning of the batch that was due")
        if len(rest) == HEADER_BYTES:
            try:
                header = parse_header(rest)
            except (CorruptBatch, UnsupportedBatch) as error:
                return self._fault(segment, str(error))
            if _complete_elsewhere(header, file, segment.size, file_size):
                return self._fault(
                    segment, "batch is complete, but states a length beyond the end of the file"
                )
        return Fault(segment, segment.size, segment.next_offset, missing, torn=True)

    @staticmethod
    def _fault(segment: Segment, reason: str) -> Fault:
        return Fault(segment, segment.size, segment.next_offset, reason, torn=False)


class _Window:
    """A part of the file in memory that is read once and used again, as fresh memory is slow."""

    def __init__(self, file: File, file_size: int) -> None:
        self._file = file
        self._file_size = file_size
        self._memory = bytearray(min(_WINDOW_BYTES, file_size))
        self._length = 0
        #: where in the file the window begins
        self.position = 0

    @property
    def content(self) -> memoryview:
        return memoryview(self._memory)[: self._length]

    def fill(self, position: int) -> bool:
        """Move to ``position``, at or behind the old one, keeping what is there. False at the end."""
        kept = self._length - (position - self.position)
        self._memory[:kept] = self._memory[self._length - kept : self._length]
        self.position = position
        room = memoryview(self._memory)[kept : max(kept, self._file_size - position)]
        self._length = kept + self._file.pread_into(room, position + kept)
        return self._length > 0

    def grow(self, size: int) -> None:
        self._memory.extend(bytes(size - len(self._memory)))


def _complete_elsewhere(header: BatchHeader, file: File, position: int, file_size: int) -> bool:
    """Does the batch at ``position`` match its checksum when it ends earlier than it states?

    It can end where the next batch begins (recognisable by the offset due there) or with the file.
    """
    next_offset = header.next_offset.to_bytes(8, "big", signed=True)
    at, end = position + ATTRIBUTES_POSITION, min(file_size, position + BATCH_BYTES_MAX)
    running = 0
    while at < end:
        # Overlap, so that a header across two chunks is seen whole.
        chunk = file.pread(min(_CHUNK_BYTES + HEADER_BYTES, end - at), at)
        done = 0
        candidate = chunk.find(next_offset)
        while 0 <= candidate < _CHUNK_BYTES:
            running = crc32c(memoryview(chunk)[done:candidate], running)
            done = candidate
            magic_at = candidate + MAGIC_POSITION
            if running == header.crc and magic_at < len(chunk) and chunk[magic_at] == MAGIC:
                return True
            candidate = chunk.find(next_offset, candidate + 1)
        step = min(len(chunk), _CHUNK_BYTES)
        running = crc32c(memoryview(chunk)[done:step], running)
        at += step
    return running == header.crc
