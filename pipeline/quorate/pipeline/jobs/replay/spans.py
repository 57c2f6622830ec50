"""Where the chunks of a replay end: each has about as many rows as one may have, and none has nothing.

A chunk costs a Spark job, a write and two notes, whatever is in it. Cut by offsets alone, an archive of a
topic that was compacted would be thousands of chunks of nothing, and a limit on rows would be one on offsets.
So where offsets have no rows, the archive is asked behind which of them so many rows end: what it answers is
kept for many chunks, and bounded. Where every offset has a row, nobody has to be asked.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from typing import Final

__all__ = ["ChunkSpans", "Spans"]

#: by partition, as text: from which offset up to which, exclusive
Spans = dict[str, tuple[int, int]]

#: of all partitions, in the memory of the driver: some megabytes
_MARKS_MAX: Final = 100_000


class ChunkSpans:
    def __init__(self, rows_max: int, marks_of: Callable[[Spans, int, int], Mapping[str, list[int]]]) -> None:
        """``rows_max``: of a chunk, over all partitions.

        ``marks_of(spans, every, count)``: of each partition the offset of each ``every``-th row of its span,
        in order, and ``count`` of them at most.
        """
        self._rows_max = rows_max
        self._marks_of = marks_of
        #: so many rows lie between two marks
        self._every = 0
        #: by partition, in order: a chunk may end behind each
        self._marks: dict[str, list[int]] = {}
        #: there may be marks behind the last one that is known
        self._cut: set[str] = set()

    def next(self, left: Spans, rows: int) -> Spans:
        """The next of every partition, in equal parts. ``rows``: so many are left in all of it."""
        per_partition = max(1, self._rows_max // max(1, len(left)))
        if rows >= sum(end - first for first, end in left.values()):
            return {each: (first, min(first + per_partition, end)) for each, (first, end) in left.items()}
        if any(not self._knows(each, first) for each, (first, _) in left.items()):
            self._look(left, per_partition)
        steps = max(1, per_partition // self._every)
        return {each: (first, self._end(each, first, end, steps)) for each, (first, end) in left.items()}

    def _knows(self, partition: str, first: int) -> bool:
        marks = self._marks.get(partition)
        return marks is not None and (partition not in self._cut or marks[-1] >= first)

    def _look(self, left: Spans, every: int) -> None:
        count = max(1, _MARKS_MAX // len(left))
        found = self._marks_of(left, every, count)
        self._every = every
        self._marks = {partition: list(found.get(partition, ())) for partition in left}
        self._cut = {partition for partition, marks in self._marks.items() if len(marks) >= count}

    def _end(self, partition: str, first: int, end: int, steps: int) -> int:
        marks = self._marks[partition]
        wanted = bisect_left(marks, first) + steps - 1
        if wanted < len(marks):
            return min(marks[wanted] + 1, end)
        return marks[-1] + 1 if partition in self._cut else end
