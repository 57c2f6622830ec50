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
from quorate.core.ids import LeaderEpoch, Offset
from quorate.core.records import HEADER_BYTES, BatchHeader, FaultKind, parse_header, scan_batches
from quorate.errors import CorruptBatch, UnsupportedBatch
from quorate.storage.leader_epochs import LeaderEpochCache
from quorate.storage.producer_state import ProducerStates
from quorate.storage.quarantine import Damage
from quorate.storage.segment import Segment

__all__ = ["BATCH_BYTES_MAX", "Fault", "LogScanner", "StartKind", "cut_is_allowed"]

#: no batch on disk is larger; a length beyond it is damage, and no reason to read a gigabyte
BATCH_BYTES_MAX: Final = 128 << 20

_CHUNK_BYTES: Final = 1 << 20
_CRC_START: Final = 21  # the checksum covers everything from the attributes on
_MAGIC_POSITION: Final = 16


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

    def scan(self, segments: Sequence[Segment]) -> Fault | None:
        """Count the batches of each segment anew. Stops at the first fault.

        A segment's file may be longer than its ``size`` afterwards: the bytes behind are the fault.
        """
        for index, segment in enumerate(segments):
            following = segments[index + 1] if index + 1 < len(segments) else None
            fault = self.scan_segment(segment, following)
            if fault is not None:
                return fault
        return None

    def scan_segment(self, segment: Segment, following: Segment | None) -> Fault | None:
        fault = self._scan_file(segment, is_last=following is None)
        if fault is None and following is not None and segment.next_offset != following.base_offset:
            return self._fault(segment, f"the next segment starts at offset {following.base_offset}")
        return fault

    def _scan_file(self, segment: Segment, *, is_last: bool) -> Fault | None:
        file = segment.file
        file_size = file.size()
        segment.forget_batches()
        chunk_bytes = _CHUNK_BYTES
        while segment.size < file_size:
            chunk = file.pread(min(chunk_bytes, file_size - segment.size), segment.size)
            self.scanned_bytes += len(chunk)
            result = scan_batches(chunk)
            reason = self._accept(segment, result.headers)
            if reason is not None:
                return self._fault(segment, reason)
            if result.fault is None:
                continue
            if result.fault.kind is not FaultKind.INCOMPLETE:
                return self._fault(segment, result.fault.reason)
            # The batch goes on behind the chunk, or behind the end of the file.
            chunk_bytes = _CHUNK_BYTES
            stated = _stated_bytes(chunk, result.end)
            if stated is None and segment.size + len(chunk) - result.end < file_size:
                continue
            if stated is None or segment.size + stated > file_size:
                return self._short_batch(segment, file, file_size, is_last=is_last)
            if stated > BATCH_BYTES_MAX:
                return self._fault(segment, f"states a length of {stated} bytes, more than any batch has")
            chunk_bytes = max(_CHUNK_BYTES, stated)
        return None

    def _accept(self, segment: Segment, headers: list[BatchHeader]) -> str | None:
        """Count batches whose checksums hold; the reason, if one does not belong where it lies."""
        epochs = self._epochs
        expected = segment.next_offset
        for header in headers:
            if header.base_offset != expected:
                return f"base offset is {header.base_offset}, {expected} was due"
            reason = self._check_epoch(header) if header.leader_epoch != epochs.epoch_at(expected) else None
            if reason is not None:
                return reason
            if header.producer_id >= 0:
                self._producers.apply(header, expected)
            self.batch_count += 1
            self.record_count += header.record_count
            expected = Offset(expected + header.last_offset_delta + 1)
            segment.add_batch(
                last_offset=expected - 1,
                size_in_bytes=header.size_in_bytes,
                max_timestamp=header.max_timestamp,
            )
        return None

    def _check_epoch(self, header: BatchHeader) -> str | None:
        """The batch's epoch is not the one on record for its offset."""
        if self._epochs_are_complete:
            due = self._epochs.epoch_at(Offset(header.base_offset))
            return f"leader epoch is {header.leader_epoch}, the epoch checkpoint says {due}"
        if header.leader_epoch < self._epochs.latest:
            return f"leader epoch goes back from {self._epochs.latest} to {header.leader_epoch}"
        self._epochs.assign(LeaderEpoch(header.leader_epoch), Offset(header.base_offset))
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


def _stated_bytes(chunk: bytes, position: int) -> int | None:
    """The size of the batch at ``position``, if the chunk holds that much of it."""
    if len(chunk) - position < 12:
        return None
    return 12 + int.from_bytes(chunk[position + 8 : position + 12], "big")


def _complete_elsewhere(header: BatchHeader, file: File, position: int, file_size: int) -> bool:
    """Does the batch at ``position`` match its checksum when it ends earlier than it states?

    It can end where the next batch begins (recognisable by the offset due there) or with the file.
    """
    next_offset = header.next_offset.to_bytes(8, "big", signed=True)
    at, end = position + _CRC_START, min(file_size, position + BATCH_BYTES_MAX)
    running = 0
    while at < end:
        # Overlap, so that a header across two chunks is seen whole.
        chunk = file.pread(min(_CHUNK_BYTES + HEADER_BYTES, end - at), at)
        done = 0
        candidate = chunk.find(next_offset)
        while 0 <= candidate < _CHUNK_BYTES:
            running = crc32c(memoryview(chunk)[done:candidate], running)
            done = candidate
            if running == header.crc and chunk[candidate + _MAGIC_POSITION : candidate + 17] == b"\x02":
                return True
            candidate = chunk.find(next_offset, candidate + 1)
        step = min(len(chunk), _CHUNK_BYTES)
        running = crc32c(memoryview(chunk)[done:step], running)
        at += step
    return running == header.crc
