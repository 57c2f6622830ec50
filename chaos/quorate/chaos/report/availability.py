"""How available the cluster was: acknowledgements and how long they took, for each tenth of a second.

Only writes that clients were told about count, at the time when they were told. A bin without any says that
nobody was told anything, which is what an outage looks like from outside.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from quorate.chaos.history.entries import Sent

__all__ = ["Availability", "Bin", "availability_of", "longest_gap"]

_BIN_S: Final = 0.1
#: a page that shows more points than it has pixels is slow, and shows nothing more
_BINS_MAX: Final = 3_000


class Bin(NamedTuple):
    #: its middle
    at_s: float
    acknowledged_per_s: float
    #: None: nothing was acknowledged
    p50_ms: float | None
    p99_ms: float | None


@dataclass(frozen=True, slots=True)
class Availability:
    bins: Sequence[Bin]
    bin_s: float
    #: when something was acknowledged, sorted
    times_s: Sequence[float]
    seconds: float
    p50_ms: float | None
    p99_ms: float | None

    @property
    def longest_gap_s(self) -> float:
        """Without any acknowledgement, from the beginning of the run to its end."""
        return longest_gap(self.times_s, 0.0, self.seconds)


def availability_of(sent: Iterable[Sent], *, began_s: float, ended_s: float) -> Availability:
    """Of the records that were acknowledged; with acks=0 nobody is told anything, so they do not count."""
    seconds = ended_s - began_s
    told = sorted(
        (each.ended_s - began_s, (each.ended_s - each.begun_s) * 1e3)
        for each in sent
        if each.is_acknowledged and each.acks != "0" and each.ended_s is not None
    )
    bin_s = _BIN_S
    while seconds / bin_s > _BINS_MAX:
        bin_s *= 2
    latencies: list[list[float]] = [[] for _ in range(int(seconds / bin_s) + 1)]
    for at_s, latency_ms in told:
        # What is acknowledged while the load ends belongs to the last bin.
        latencies[min(int(at_s / bin_s), len(latencies) - 1)].append(latency_ms)
    return Availability(
        bins=[_bin(number, bin_s, each) for number, each in enumerate(latencies)],
        bin_s=bin_s,
        times_s=[at_s for at_s, _ in told],
        seconds=seconds,
        p50_ms=_percentile([latency_ms for _, latency_ms in told], 0.50),
        p99_ms=_percentile([latency_ms for _, latency_ms in told], 0.99),
    )


def longest_gap(times_s: Sequence[float], begin_s: float, end_s: float) -> float:
    """Between two of the times, or the bounds; the times are sorted."""
    longest, last = 0.0, begin_s
    for at_s in times_s:
        if begin_s < at_s <= end_s:
            longest = max(longest, at_s - last)
            last = at_s
    return max(longest, end_s - last)


def _bin(number: int, bin_s: float, latencies_ms: list[float]) -> Bin:
    return Bin(
        (number + 0.5) * bin_s,
        len(latencies_ms) / bin_s,
        _percentile(latencies_ms, 0.50),
        _percentile(latencies_ms, 0.99),
    )


def _percentile(values: list[float], share: float) -> float | None:
    if not values:
        return None
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]
