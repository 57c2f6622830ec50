"""Reading what is committed, from a leader or from a follower.

A follower's own high watermark lags behind the leader's. What lies above it, up to the end of its log, is
"not yet" and not out of range (rule 18). It answers nothing else: where the log ends, or where an epoch does,
only the leader knows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from quorate.broker.replica.high_watermark import HighWatermark
from quorate.broker.replica.log_trouble import LOG_TROUBLE
from quorate.core.ids import Offset
from quorate.errors import NotLeaderOrFollower, QuorateError
from quorate.storage import LogRead, PartitionLog

__all__ = ["FollowerReader", "Reader"]


class Reader(Protocol):
    @property
    def high_watermark(self) -> Offset: ...

    @property
    def log_start_offset(self) -> Offset: ...

    def read(self, offset: Offset, *, bytes_max: int) -> LogRead: ...


class FollowerReader:
    __slots__ = ("_high_watermark", "_log", "_on_failure")

    def __init__(
        self,
        partition_log: PartitionLog,
        high_watermark: HighWatermark,
        on_failure: Callable[[QuorateError], None],
    ) -> None:
        self._log = partition_log
        self._high_watermark = high_watermark
        self._on_failure = on_failure

    @property
    def high_watermark(self) -> Offset:
        return self._high_watermark.offset

    @property
    def log_start_offset(self) -> Offset:
        return self._log.log_start_offset

    def read(self, offset: Offset, *, bytes_max: int) -> LogRead:
        """Whole committed batches from ``offset`` on; empty above the high watermark."""
        try:
            return self._log.read(offset, bytes_max=bytes_max, end_offset=self._high_watermark.offset)
        except LOG_TROUBLE as error:
            self._on_failure(error)
            raise NotLeaderOrFollower(f"this replica cannot be read any more: {error.message}") from error
