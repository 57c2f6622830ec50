"""What is to be read: ranges of offsets, how they are cut into tasks, and how many a trigger takes.

Pure functions; offsets of the partitions come in as arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from quorate.core.ids import TopicPartition

__all__ = ["OffsetRange", "cut", "limited"]


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Of one partition; `start` is inclusive, `end` exclusive."""

    topic: str
    topic_id: str
    partition: int
    start: int
    end: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} from {self.start} to {self.end}"

    @property
    def size(self) -> int:
        return self.end - self.start


def cut(
    ranges: Iterable[OffsetRange], *, pieces_min: int | None = None, records_max: int | None = None
) -> list[OffsetRange]:
    """Ranges without the empty ones, in pieces of at most so many offsets, and at least so many pieces.

    A large range is cut into more pieces than a small one. Fewer pieces come out only where there are fewer
    offsets.
    """
    wanted = [each for each in ranges if each.size > 0]
    if records_max is not None:
        wanted = [piece for each in wanted for piece in _pieces(each, -(-each.size // records_max))]
    if pieces_min is None or not 0 < len(wanted) < pieces_min:
        return wanted
    total = sum(each.size for each in wanted)
    counts = {each: max(1, each.size * pieces_min // total) for each in wanted}
    # Rounding down left some over: the largest remaining pieces are cut once more.
    for _ in range(pieces_min - sum(counts.values())):
        largest = max(wanted, key=lambda each: each.size / counts[each])
        counts[largest] += 1
    return [piece for each in wanted for piece in _pieces(each, counts[each])]


def _pieces(whole: OffsetRange, count: int) -> list[OffsetRange]:
    bounds = [whole.start + whole.size * number // count for number in range(count + 1)]
    pieces = [replace(whole, start=bounds[n], end=bounds[n + 1]) for n in range(count)]
    return [piece for piece in pieces if piece.size > 0]


def limited(
    start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], offsets_max: int
) -> dict[TopicPartition, int]:
    """Where to stop instead of at `end`: each partition gets its share of `offsets_max`, by what waits in it.

    Whoever has something waiting gets one offset at least while there are any: a partition with little must
    not wait for ever behind one with much.
    """
    waiting = {each: end[each] - start[each] for each in end if end[each] > start[each]}
    total = sum(waiting.values())
    if total <= offsets_max:
        return dict(end)
    shares = {each: size * offsets_max // total for each, size in waiting.items()}
    left = offsets_max - sum(shares.values())
    # What rounding left over goes to the smallest shares, in an order that does not change.
    for each in sorted(waiting, key=lambda each: (shares[each], each)):
        if left == 0:
            break
        shares[each] += 1
        left -= 1
    return {each: start[each] + shares[each] if each in shares else end[each] for each in end}
