"""What a partition log can be told; names follow Kafka's topic configs."""

from __future__ import annotations

from dataclasses import dataclass

from quorate.core.config import CleanupPolicy

__all__ = ["NO_LIMIT", "LogConfig"]

#: for limits where it means "none": retention_ms, retention_bytes
NO_LIMIT = -1

_DAY_MS = 24 * 3600 * 1000
_WEEK_MS = 7 * _DAY_MS


@dataclass(frozen=True, slots=True)
class LogConfig:
    #: a segment is sealed before it grows beyond this; positions in an index have 32 bits
    segment_bytes: int = 1 << 30
    #: a segment is sealed once its first batch is this old, so that retention by time can work
    segment_ms: int = _WEEK_MS
    #: an index entry after this many bytes: denser is more memory, sparser a longer walk per read
    index_interval_bytes: int = 4096
    retention_ms: int = _WEEK_MS
    retention_bytes: int = NO_LIMIT
    #: the largest batch that is accepted, header included
    max_message_bytes: int = 1_048_588
    #: an idempotent producer is forgotten when its newest batch is this old
    producer_id_expiration_ms: int = _DAY_MS
    #: both may be set
    cleanup_policy: tuple[CleanupPolicy, ...] = (CleanupPolicy.DELETE,)
    #: how long a tombstone stays after compaction has removed what it deletes
    delete_retention_ms: int = _DAY_MS
    #: the share of cleanable bytes that has to be new before a log is compacted again
    min_cleanable_dirty_ratio: float = 0.5
    #: a segment with a record younger than this is not compacted
    min_compaction_lag_ms: int = 0

    def __post_init__(self) -> None:
        assert 0 < self.segment_bytes < 1 << 31
        assert self.index_interval_bytes >= 0
        assert 0 <= self.min_cleanable_dirty_ratio <= 1

    @property
    def compacts(self) -> bool:
        return CleanupPolicy.COMPACT in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        """By age and size; below the log start whole segments go in any case."""
        return CleanupPolicy.DELETE in self.cleanup_policy
