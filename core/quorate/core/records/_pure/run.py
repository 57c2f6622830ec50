"""Runs of batches, for the recovery scan: a log of small batches has millions of them."""

from __future__ import annotations

from typing import NamedTuple

from quorate.core.ids import Offset, TimestampMs
from quorate.core.records._pure.header import BatchHeader, check_batch
from quorate.core.records.format import Buffer
from quorate.errors import CorruptBatch, UnsupportedBatch

__all__ = ["BatchRun", "scan_run"]


class BatchRun(NamedTuple):
    """Batches with nothing remarkable about them: whole, valid, each following the one before.

    A run ends without a word at the first batch that is not of this kind; it may be empty.
    """

    #: the position behind the last batch of the run
    end: int
    #: the offset behind the run
    next_offset: Offset
    #: the largest of the run, or what was passed in
    max_timestamp: TimestampMs
    batch_count: int
    record_count: int
    #: (position, last offset, largest timestamp so far) of a batch now and then, for an index
    marks: list[tuple[int, int, int]]
    #: of the batches that idempotent producers wrote
    producer_headers: list[BatchHeader]


def scan_run(
    buffer: Buffer,
    position: int,
    *,
    next_offset: Offset,
    end_offset: int,
    leader_epoch: int,
    max_timestamp: TimestampMs,
    mark_from: int,
    mark_every: int,
) -> BatchRun:
    """The batches from ``position`` on that follow each other in one leader epoch.

    The first must be at ``next_offset``, the last begin before ``end_offset``. A batch is marked if
    it starts at or behind ``mark_from``, which then moves ``mark_every`` bytes behind it.
    """
    if position < 0:
        raise ValueError(f"position is {position}")
    size = memoryview(buffer).nbytes
    marks: list[tuple[int, int, int]] = []
    producer_headers: list[BatchHeader] = []
    record_count = batch_count = 0
    while position < size and next_offset < end_offset:
        try:
            header = check_batch(buffer, position)
        except (CorruptBatch, UnsupportedBatch):
            break
        if header.base_offset != next_offset or header.leader_epoch != leader_epoch:
            break
        next_offset = header.next_offset
        max_timestamp = max(max_timestamp, header.max_timestamp)
        if position >= mark_from:
            marks.append((position, next_offset - 1, max_timestamp))
            mark_from = position + mark_every
        if header.producer_id >= 0:
            producer_headers.append(header)
        record_count += header.record_count
        batch_count += 1
        position += header.size_in_bytes
    return BatchRun(position, next_offset, max_timestamp, batch_count, record_count, marks, producer_headers)
