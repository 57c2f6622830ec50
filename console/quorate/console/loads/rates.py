"""What was written to each partition between two looks at it. Pure: two descriptions in, rates out.

Records are exact: the high watermark counts them. Bytes are the growth of the leader's log. Where retention
or compaction took some away meanwhile, the log does not say what was added; then the average size of the
records that are there stands in, and the rate is marked as estimated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

__all__ = ["PartitionRate", "Seen", "Skew", "rates_of", "skew_of"]

#: So many times the mean of the *others* is a hot partition. Of two partitions, none could have twice the
#: mean of both but by having all.
HOT_FACTOR: Final = 2.0


class Seen(NamedTuple):
    """A partition at one moment."""

    log_start_offset: int
    high_watermark: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class PartitionRate:
    partition: int
    records_per_s: float
    bytes_per_s: float
    is_estimated: bool


@dataclass(frozen=True, slots=True)
class Skew:
    #: by bytes
    heaviest: int
    #: its rate as a multiple of the average; 1: all are the same
    factor: float
    hot: tuple[int, ...]


def rates_of(before: Mapping[int, Seen], after: Mapping[int, Seen], *, seconds: float) -> list[PartitionRate]:
    """Of the partitions that were seen twice."""
    assert seconds > 0
    return [
        _rate(partition, before[partition], after[partition], seconds)
        for partition in sorted(before.keys() & after.keys())
    ]


def _rate(partition: int, before: Seen, after: Seen, seconds: float) -> PartitionRate:
    # An unclean election may take a log back: nothing was written then.
    records = max(after.high_watermark - before.high_watermark, 0)
    grown = after.size_bytes - before.size_bytes
    is_estimated = after.log_start_offset != before.log_start_offset or grown < 0
    if is_estimated:
        held = after.high_watermark - after.log_start_offset
        grown = round(records * after.size_bytes / held) if held > 0 else 0
    return PartitionRate(partition, records / seconds, grown / seconds, is_estimated)


def skew_of(rates: Sequence[PartitionRate]) -> Skew | None:
    """None: nothing is written, or there is nothing to compare."""
    total = sum(each.bytes_per_s for each in rates)
    if len(rates) < 2 or total <= 0:
        return None
    average = total / len(rates)
    heaviest = max(rates, key=lambda each: each.bytes_per_s)
    hot = tuple(each.partition for each in rates if _is_hot(each.bytes_per_s, total, others=len(rates) - 1))
    return Skew(heaviest.partition, heaviest.bytes_per_s / average, hot)


def _is_hot(rate: float, total: float, *, others: int) -> bool:
    return rate > 0 and rate * others >= HOT_FACTOR * (total - rate)
