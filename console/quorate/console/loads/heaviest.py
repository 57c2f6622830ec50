"""The heaviest of very many things, in little memory: Space-Saving (Metwally, Agrawal, El Abbadi 2005).

So many counters, and no more. Something that has none takes over the smallest one, with its weight, which is
then the most by which it can be overrated. So no weight is told too small, none is told too large by more
than the total divided by the number of counters, and whatever weighs more than that has a counter.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["Counted", "Heaviest"]

Thing = TypeVar("Thing", bound=Hashable)


@dataclass(slots=True)
class Counted(Generic[Thing]):
    thing: Thing
    #: at most; the real one is no less than this without ``error``
    weight: int
    error: int


class Heaviest(Generic[Thing]):
    def __init__(self, counters: int) -> None:
        assert counters > 0
        self._counters_max = counters
        self._counted: dict[Thing, Counted[Thing]] = {}
        #: weights as they were, each with a number that settles ties: real ones are the same or more
        self._smallest: list[tuple[int, int, Counted[Thing]]] = []
        self._added = 0
        self.total = 0

    def add(self, thing: Thing, weight: int) -> None:
        assert weight >= 0
        self.total += weight
        found = self._counted.get(thing)
        if found is not None:
            found.weight += weight
            return
        error = self._take_smallest() if len(self._counted) == self._counters_max else 0
        counted = self._counted[thing] = Counted(thing, weight + error, error)
        self._added += 1
        heapq.heappush(self._smallest, (counted.weight, self._added, counted))

    def top(self, count: int) -> list[Counted[Thing]]:
        """The heaviest first."""
        return sorted(self._counted.values(), key=lambda each: -each.weight)[:count]

    def _take_smallest(self) -> int:
        while True:
            weight, number, counted = self._smallest[0]
            if counted.weight == weight:
                heapq.heappop(self._smallest)
                del self._counted[counted.thing]
                return weight
            heapq.heapreplace(self._smallest, (counted.weight, number, counted))
