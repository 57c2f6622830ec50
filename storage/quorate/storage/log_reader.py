"""Reading a log: from an offset or a time to whole batches in a segment.

Reads from files verify what a recovery scan verifies: checksums, that offsets follow each other, that epochs
are the ones on record. A check that fails quarantines the log (rule 44). What was appended a moment ago is
read from memory (``recent_batches``).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from quorate.core.disk import lacks_descriptors
from quorate.core.ids import Offset, TimestampMs
from quorate.core.records import BatchHeader, decode_batch, scan_batches
from quorate.errors import CorruptBatch, OffsetOutOfRange, QuorateError, StorageFailed, UnsupportedBatch
from quorate.storage.descriptors import too_many_open_files
from quorate.storage.log_state import LogState
from quorate.storage.quarantine import Damage
from quorate.storage.segment import FileRegion, Segment

__all__ = ["LogRead", "LogReader", "TimestampedOffset"]


class LogRead(NamedTuple):
    #: whole batches, end to end; empty when there is nothing to read yet
    batches: bytes
    #: where the next read goes on
    next_offset: Offset


class TimestampedOffset(NamedTuple):
    offset: Offset
    timestamp: TimestampMs


class LogReader:
    __slots__ = ("_state",)

    def __init__(self, state: LogState) -> None:
        self._state = state

    def locate(self, offset: Offset, *, bytes_max: int, end_offset: Offset | None) -> FileRegion | None:
        """None when there is nothing between ``offset`` and ``end_offset``."""
        end_offset = self._check_range(offset, end_offset)
        if offset >= end_offset:
            return None
        segment = self._state.segment_of(offset)
        with self._guard(segment, offset):
            start = segment.position_of(offset)
            end = segment.size if segment.next_offset <= end_offset else segment.position_of(end_offset)
            return segment.region(start, bytes_max=bytes_max, end=end) if start < end else None

    def read(self, offset: Offset, *, bytes_max: int, end_offset: Offset | None) -> LogRead:
        end_offset = self._check_range(offset, end_offset)
        recent = self._state.recent.read(offset, bytes_max=bytes_max, end_offset=end_offset)
        if recent is not None:
            return LogRead(*recent)
        region = self.locate(offset, bytes_max=bytes_max, end_offset=end_offset)
        if region is None:
            return LogRead(b"", offset)
        segment = self._state.segment_of(offset)
        with self._guard(segment, offset):
            batches = region.read()
        result = scan_batches(batches)
        if result.fault is not None:
            due = result.headers[-1].next_offset if result.headers else offset
            position = region.position + result.end
            raise self._state.quarantine(Damage(segment.path, position, Offset(due), result.fault.reason))
        self._check_chain(segment, region.position, offset, result.headers)
        return LogRead(batches, Offset(result.headers[-1].next_offset))

    def _check_chain(
        self, segment: Segment, position: int, offset: Offset, headers: list[BatchHeader]
    ) -> None:
        """What the checksums do not cover: the place of each batch in the log, and its epoch."""
        epochs = self._state.epochs
        due = headers[0].base_offset
        reason = None if due <= offset <= headers[0].last_offset else f"the batch starts at offset {due}"
        for header in headers:
            if header.base_offset != due:
                reason = f"base offset is {header.base_offset}, {due} was due"
            elif header.leader_epoch != epochs.epoch_at(Offset(due)):
                reason = f"leader epoch {header.leader_epoch} is not the one on record"
            if reason is not None:
                raise self._state.quarantine(Damage(segment.path, position, Offset(due), reason))
            due = header.next_offset
            position += header.size_in_bytes

    def bytes_from(self, offset: Offset) -> int:
        """How much is stored from ``offset`` to the end; up to an interval of the index too much."""
        self._check_range(offset, None)
        segment = self._state.segment_of(offset)
        with self._guard(segment, offset):
            position = segment.position_before(offset)
        behind = sum(each.size for each in self._state.segments if each.base_offset > segment.base_offset)
        return behind + segment.size - position

    def find_timestamp(self, timestamp: TimestampMs) -> TimestampedOffset | None:
        """The first record at or after a point in time; None when all are older."""
        state = self._state
        state.check_readable()
        for segment in state.segments:
            if segment.next_offset <= state.log_start_offset:
                continue
            with self._guard(segment, segment.base_offset):
                if segment.max_timestamp >= timestamp:
                    found = self._find_in_segment(segment, timestamp)
                    if found is not None:
                        return found
        return None

    def _find_in_segment(self, segment: Segment, timestamp: TimestampMs) -> TimestampedOffset | None:
        before = segment.time_index.offset_before(timestamp)
        all_older = segment.base_offset if before is None else Offset(segment.base_offset + before + 1)
        from_offset = max(self._state.log_start_offset, all_older)
        for position, header in segment.walk(segment.position_of(from_offset)):
            # Checked also if it is passed over: by a time that rotted, records would be missed.
            batch = segment.read_batch(position, header)
            if header.max_timestamp < timestamp:
                continue
            try:
                records = decode_batch(batch)
            except QuorateError:
                # Its checksum holds, so it is what a client wrote: no damage, only nothing to look into.
                return TimestampedOffset(max(header.base_offset, from_offset), header.max_timestamp)
            for record in records:
                if record.timestamp >= timestamp and record.offset >= from_offset:
                    return TimestampedOffset(Offset(record.offset), TimestampMs(record.timestamp))
        return None

    def _check_range(self, offset: Offset, end_offset: Offset | None) -> Offset:
        state = self._state
        if state.is_closed or state.damage is not None:
            state.check_readable()
        log_end_offset = state.segments[-1].next_offset
        if not state.log_start_offset <= offset <= log_end_offset:
            raise OffsetOutOfRange(
                f"offset {offset} is not within {state.log_start_offset} and {log_end_offset}",
                offset=offset,
                log_start_offset=state.log_start_offset,
                log_end_offset=log_end_offset,
            )
        return log_end_offset if end_offset is None or end_offset > log_end_offset else end_offset

    @contextmanager
    def _guard(self, segment: Segment, offset: Offset) -> Iterator[None]:
        """Bytes that make no sense are damage; a disk that does not answer is a failed read."""
        try:
            yield
        except (CorruptBatch, UnsupportedBatch) as error:
            damage = Damage.found_by(error, path=segment.path, offset=offset)
            raise self._state.quarantine(damage) from error
        except OSError as error:
            if lacks_descriptors(error):
                raise too_many_open_files("read", segment.path) from error
            self._state.context.note_storage_error("read", segment.path, error)
            raise StorageFailed(f"cannot read {segment.path}: {error}", path=segment.path) from error
