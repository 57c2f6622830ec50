"""What is recorded as it happens, for metrics to be read from later.

Recording is on the way of every request, so it does next to nothing: a search among a dozen bounds and two
additions. There is no registry and no lock: whoever measures holds the instrument, on the one loop of a node.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from quorate.core.metrics import BUCKET_SUFFIX, Sample

__all__ = ["LATENCY_BOUNDS_S", "SIZE_BOUNDS_BYTES", "Histogram", "histogram_samples"]

#: From what an append on one node takes to what only a failover explains.
LATENCY_BOUNDS_S: Final = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
)  # fmt: skip
SIZE_BOUNDS_BYTES: Final = (
    256.0,
    1024.0,
    4096.0,
    16384.0,
    65536.0,
    262144.0,
    1048576.0,
    4194304.0,
    16777216.0,
)


class Histogram:
    """Values counted by size."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: tuple[float, ...] = LATENCY_BOUNDS_S) -> None:
        """``bounds``: inclusive, ascending; what is above the last one is counted as well."""
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    @property
    def count(self) -> int:
        return sum(self._counts)

    def samples(self, labels: tuple[str, ...]) -> Iterator[Sample]:
        """As they are now: nothing of it changes while it is taken."""
        counts, total = tuple(self._counts), self._sum
        found = 0
        for bound, count in zip((*map(repr, self._bounds), "+Inf"), counts, strict=True):
            found += count
            yield Sample((*labels, bound), found, BUCKET_SUFFIX)
        yield Sample(labels, found, "_count")
        yield Sample(labels, total, "_sum")


def histogram_samples(histograms: Mapping[tuple[str, ...], Histogram]) -> Iterable[Sample]:
    """Of those that have counted anything, by their labels."""
    for labels, histogram in sorted(histograms.items()):
        if histogram.count:
            yield from histogram.samples(labels)
