"""What is recorded as it happens, for metrics to be read from later.

Recording is on the way of every request, so it does next to nothing: a search among a dozen bounds and two
additions. There is no registry and no lock: whoever measures holds the instrument, on the one loop of a node.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from quorate.core.metrics import BUCKET_SUFFIX, Sample

__all__ = ["LATENCY_BOUNDS_S", "Histogram", "SizeHistogram", "histogram_samples"]

#: From what an append on one node takes to what only a failover explains.
LATENCY_BOUNDS_S: Final = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
)  # fmt: skip
#: sizes are counted by how many bits they take; these are told
_SIZE_BITS: Final = (8, 10, 12, 14, 16, 18, 20, 22, 24)
_SIZE_BITS_MAX: Final = 64


class Histogram:
    """Seconds, counted by how many they are."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: tuple[float, ...] = LATENCY_BOUNDS_S) -> None:
        """``bounds``: inclusive, ascending; what is above the last one is counted as well."""
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def add(self, place: int, value: float) -> None:
        """As ``observe``, for who tells several of the same and has searched the bounds for its place."""
        self._counts[place] += 1
        self._sum += value

    @property
    def count(self) -> int:
        return sum(self._counts)

    def samples(self, labels: tuple[str, ...]) -> Iterator[Sample]:
        """As they are now: nothing of it changes while it is taken."""
        names = (*map(repr, self._bounds), "+Inf")
        return _samples(labels, zip(names, tuple(self._counts), strict=True), self._sum)


class SizeHistogram:
    """Bytes, counted by powers of two: that needs no search."""

    __slots__ = ("_counts", "_sum")

    def __init__(self) -> None:
        self._counts = [0] * (_SIZE_BITS_MAX + 1)
        self._sum = 0

    def observe(self, size: int) -> None:
        self._counts[size.bit_length()] += 1
        self._sum += size

    @property
    def count(self) -> int:
        return sum(self._counts)

    def samples(self, labels: tuple[str, ...]) -> Iterator[Sample]:
        counts = tuple(self._counts)
        starts = (0, *(bits + 1 for bits in _SIZE_BITS))
        ends = (*starts[1:], len(counts))
        names = (*(repr(float((1 << bits) - 1)) for bits in _SIZE_BITS), "+Inf")
        buckets = [sum(counts[start:end]) for start, end in zip(starts, ends, strict=True)]
        return _samples(labels, zip(names, buckets, strict=True), self._sum)


def _samples(labels: tuple[str, ...], buckets: Iterable[tuple[str, int]], total: float) -> Iterator[Sample]:
    found = 0
    for bound, count in buckets:
        found += count
        yield Sample((*labels, bound), found, BUCKET_SUFFIX)
    yield Sample(labels, found, "_count")
    yield Sample(labels, total, "_sum")


def histogram_samples(histograms: Mapping[tuple[str, ...], Histogram | SizeHistogram]) -> Iterable[Sample]:
    """Of those that have counted anything, by their labels."""
    for labels, histogram in sorted(histograms.items(), key=lambda each: each[0]):
        if histogram.count:
            yield from histogram.samples(labels)
