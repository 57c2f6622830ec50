"""What a partition log can be told; names follow Kafka's topic configs."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["NO_LIMIT", "LogConfig"]

#: for limits where it means "none": retention_ms, retention_bytes
NO_LIMIT = -1

_WEEK_MS = 7 * 24 * 3600 * 1000


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
    producer_id_expiration_ms: int = 24 * 3600 * 1000

    def __post_init__(self) -> None:
        assert 0 < self.segment_bytes < 1 << 31
        assert self.index_interval_bytes >= 0
