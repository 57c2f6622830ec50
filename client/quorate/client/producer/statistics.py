"""What a producer has done so far."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

__all__ = ["Counts", "ProducerStatistics"]

#: batches whose latency is remembered
_LATENCIES: Final = 1000


@dataclass(frozen=True, slots=True)
class ProducerStatistics:
    #: records and batches that were acknowledged, and their bytes on the wire
    records_acknowledged: int
    batches_acknowledged: int
    bytes_acknowledged: int
    #: records that ended otherwise: certainly not written, and possibly written
    records_refused: int
    records_unknown: int
    #: attempts to send a batch, and how many of them were repeated
    attempts: int
    retries: int
    #: right now: batches on their way, and bytes of records that wait or are on their way
    batches_in_flight: int
    buffered_bytes: int
    #: of the last thousand batches, from their first record to the acknowledgement; None: there was none yet
    latency_ms_median: float | None
    latency_ms_p99: float | None
    latency_ms_max: float | None


class Counts:
    """Counted on the client's loop."""

    __slots__ = (
        "attempts",
        "batches_acknowledged",
        "bytes_acknowledged",
        "latencies_s",
        "records_acknowledged",
        "records_refused",
        "records_unknown",
        "retries",
    )

    def __init__(self) -> None:
        self.records_acknowledged = self.batches_acknowledged = self.bytes_acknowledged = 0
        self.records_refused = self.records_unknown = 0
        self.attempts = self.retries = 0
        self.latencies_s: deque[float] = deque(maxlen=_LATENCIES)

    def snapshot(self, *, batches_in_flight: int, buffered_bytes: int) -> ProducerStatistics:
        ordered = sorted(self.latencies_s)
        return ProducerStatistics(
            records_acknowledged=self.records_acknowledged,
            batches_acknowledged=self.batches_acknowledged,
            bytes_acknowledged=self.bytes_acknowledged,
            records_refused=self.records_refused,
            records_unknown=self.records_unknown,
            attempts=self.attempts,
            retries=self.retries,
            batches_in_flight=batches_in_flight,
            buffered_bytes=buffered_bytes,
            latency_ms_median=_quantile_ms(ordered, 0.5),
            latency_ms_p99=_quantile_ms(ordered, 0.99),
            latency_ms_max=_quantile_ms(ordered, 1.0),
        )


def _quantile_ms(ordered: list[float], quantile: float) -> float | None:
    if not ordered:
        return None
    return 1000 * ordered[min(int(quantile * len(ordered)), len(ordered) - 1)]
