"""Reading a log: from an offset or a time to whole batches in a segment.

Every check that fails here raises ``DamageFound``; the log quarantines itself and tells the caller.
Reads verify what a scan verifies: checksums, that offsets follow each other, that epochs are the
ones on record (rule 44).
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from quorate.core.ids import Offset, TimestampMs
from quorate.core.records import BatchHeader, decode_batch, scan_batches
from quorate.errors import CorruptBatch, UnsupportedBatch
from quorate.storage.leader_epochs import LeaderEpochCache
from quorate.storage.recovery import Damage
from quorate.storage.segment import FileRegion, Segment

__all__ = ["DamageFound", "LogRead", "LogReader", "TimestampedOffset"]


class LogRead(NamedTuple):
    #: whole batches, end to end; empty when there is nothing to read yet
    batches: bytes
    #: where the next read goes on
    next_offset: Offset


class TimestampedOffset(NamedTuple):
    offset: Offset
    timestamp: TimestampMs


class DamageFound(Exception):
    def __init__(self, damage: Damage) -> None:
        super().__init__(str(damage))
        self.damage = damage


class LogReader:
    """Shares the log's list of segments and its epochs; changes neither."""

    __slots__ = ("_epochs", "_segments")

    def __init__(self, segments: list[Segment], epochs: LeaderEpochCache) -> None:
        self._segments = segments
        self._epochs = epochs

    def locate(self, offset: Offset, *, bytes_max: int, end_offset: Offset) -> FileRegion:
        """Whole batches from the one that holds ``offset``, within one segment, below ``end_offset``.

        At least one batch, whatever ``bytes_max`` says. The region is not verified: whoever sends
        it on without reading it relies on the receiver's checks.
        """
        segment = self._segment_of(offset)
        try:
            start = segment.position_of(offset)
            end = segment.size if segment.next_offset <= end_offset else segment.position_of(end_offset)
            return segment.region(start, bytes_max=bytes_max, end=max(start, end))
        except (CorruptBatch, UnsupportedBatch) as error:
            raise _damage(segment, 0, offset, str(error)) from error

    def read(self, offset: Offset, *, bytes_max: int, end_offset: Offset) -> LogRead:
        region = self.locate(offset, bytes_max=bytes_max, end_offset=end_offset)
        if region.length == 0:
            return LogRead(b"", offset)
        segment = self._segment_of(offset)
        batches = region.read()
        result = scan_batches(batches)
        if result.fault is not None:
            position = region.position + result.end
            due = result.headers[-1].next_offset if result.headers else offset
            raise _damage(segment, position, Offset(due), result.fault.reason)
        self._check_chain(segment, region.position, offset, result.headers)
        return LogRead(batches, Offset(result.headers[-1].next_offset))

    def _check_chain(
        self, segment: Segment, position: int, offset: Offset, headers: list[BatchHeader]
    ) -> None:
        """What the checksums do not cover: the place of each batch in the log, and its epoch."""
        first = headers[0]
        if not first.base_offset <= offset <= first.last_offset:
            raise _damage(segment, position, offset, f"holds offsets from {first.base_offset}")
        due = first.base_offset
        for header in headers:
            if header.base_offset != due:
                raise _damage(segment, position, Offset(due), f"base offset is {header.base_offset}")
            if header.leader_epoch != self._epochs.epoch_at(Offset(due)):
                raise _damage(
                    segment, position, Offset(due), f"leader epoch {header.leader_epoch} is not on record"
                )
            due = header.next_offset
            position += header.size_in_bytes

    def batch_start(self, offset: Offset) -> Offset:
        """Base offset of the batch that holds ``offset``."""
        return self._segment_of(offset).batch_start(offset)

    def find_timestamp(self, timestamp: TimestampMs, *, from_offset: Offset) -> TimestampedOffset | None:
        """The first record at or after both; None when there is none."""
        for segment in self._segments:
            if segment.next_offset > from_offset and segment.largest_timestamp >= timestamp:
                found = self._find_in_segment(segment, timestamp, from_offset)
                if found is not None:
                    return found
        return None

    def _find_in_segment(
        self, segment: Segment, timestamp: TimestampMs, from_offset: Offset
    ) -> TimestampedOffset | None:
        before = segment.time_index.offset_before(timestamp)
        nothing_before = segment.base_offset if before is None else Offset(segment.base_offset + before + 1)
        from_offset = max(from_offset, nothing_before)
        try:
            for position, header in segment.walk(segment.position_of(from_offset)):
                if header.max_timestamp < timestamp:
                    continue
                for record in decode_batch(segment.file.pread(header.size_in_bytes, position)):
                    if record.timestamp >= timestamp and record.offset >= from_offset:
                        return TimestampedOffset(Offset(record.offset), TimestampMs(record.timestamp))
        except (CorruptBatch, UnsupportedBatch) as error:
            raise _damage(segment, 0, from_offset, str(error)) from error
        return None

    def _segment_of(self, offset: Offset) -> Segment:
        index = bisect_right(self._segments, offset, key=lambda segment: segment.base_offset) - 1
        assert index >= 0
        return self._segments[index]


def _damage(segment: Segment, position: int, offset: Offset, reason: str) -> DamageFound:
    return DamageFound(Damage(segment.path, position, offset, reason))
