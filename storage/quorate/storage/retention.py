"""Which segments may go: whole ones, oldest first, and only as far as the replica may delete (rule 48)."""

from __future__ import annotations

from collections.abc import Sequence

from quorate.core.ids import Offset, TimestampMs
from quorate.storage.log_config import NO_LIMIT, LogConfig
from quorate.storage.segment import NO_TIMESTAMP, Segment

__all__ = ["count_deletable"]


def count_deletable(
    segments: Sequence[Segment],
    config: LogConfig,
    *,
    now_ms: TimestampMs,
    below: Offset,
    log_start_offset: Offset,
) -> int:
    """How many segments from the front are past their retention: by time, by size, or forgotten already.

    A log that is only compacted forgets nothing by itself.
    """
    excess_bytes = sum(segment.size for segment in segments) - config.retention_bytes
    count = 0
    for segment in segments:
        if segment.size == 0 or segment.next_offset > below:
            break
        forgotten = segment.next_offset <= log_start_offset and segment is not segments[-1]
        if not forgotten and not (config.deletes and _has_expired(segment, config, excess_bytes, now_ms)):
            break
        excess_bytes -= segment.size
        count += 1
    return count


def _has_expired(segment: Segment, config: LogConfig, excess_bytes: int, now_ms: TimestampMs) -> bool:
    too_many_bytes = config.retention_bytes != NO_LIMIT and excess_bytes >= segment.size
    return too_many_bytes or _too_old(segment, config, now_ms)


def _too_old(segment: Segment, config: LogConfig, now_ms: TimestampMs) -> bool:
    newest = segment.max_timestamp
    if config.retention_ms == NO_LIMIT or newest == NO_TIMESTAMP:
        return False
    return now_ms - newest > config.retention_ms
