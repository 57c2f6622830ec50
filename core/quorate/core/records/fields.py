"""What a caller may say about a batch as a whole, checked before anything is written."""

from __future__ import annotations

from typing import Final, NamedTuple

from quorate.core.records.format import (
    BASE_OFFSET_MAX,
    CONTROL_BIT,
    INT32_MAX,
    INT64_MAX,
    INT64_MIN,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    Compression,
    TimestampType,
)
from quorate.errors import InvalidRecord

__all__ = ["BatchFields"]

_RANGES: Final = {
    "base_offset": (0, BASE_OFFSET_MAX),
    "leader_epoch": (-1, INT32_MAX),
    "compression": (min(Compression), max(Compression)),
    "timestamp_type": (min(TimestampType), max(TimestampType)),
    "producer_id": (-1, INT64_MAX),
    "producer_epoch": (-1, 2**15 - 1),
    "base_sequence": (-1, INT32_MAX),
}


class BatchFields(NamedTuple):
    base_offset: int
    leader_epoch: int
    compression: Compression
    timestamp_type: TimestampType
    append_timestamp_ms: int | None
    producer_id: int
    producer_epoch: int
    base_sequence: int
    is_transactional: bool
    is_control: bool

    def check(self) -> None:
        """Raise InvalidRecord for a field that the header cannot hold, or that means nothing."""
        for name, (low, high) in _RANGES.items():
            found = getattr(self, name)
            if not isinstance(found, int) or not low <= found <= high:
                raise InvalidRecord(f"{name} must be from {int(low)} to {int(high)}, not {found!r}")
        found = self.append_timestamp_ms
        if (self.timestamp_type == TimestampType.LOG_APPEND_TIME) != (found is not None):
            raise InvalidRecord("append_timestamp_ms goes with LOG_APPEND_TIME, and only with it")
        if found is not None and not (isinstance(found, int) and INT64_MIN <= found <= INT64_MAX):
            raise InvalidRecord(f"append_timestamp_ms must fit 64 bits, not {found!r}")

    def attributes(self, compression: Compression) -> int:
        """The attributes of the header, with the compression that the body really has."""
        bits = int(compression)
        if self.timestamp_type == TimestampType.LOG_APPEND_TIME:
            bits |= TIMESTAMP_TYPE_BIT
        if self.is_transactional:
            bits |= TRANSACTIONAL_BIT
        if self.is_control:
            bits |= CONTROL_BIT
        return bits
