"""Which of a plan's events it takes to fail: delta debugging (ddmin).

A failing run has many faults, and most of them have nothing to do with the failure. Leave some out; if it
still fails in the same way, go on with what is left; else put them back and leave out others, in ever
smaller pieces. What remains at the end fails, and without any single one of its events it does not.

Leaving out an event shifts the moments of all later ones, so whether a part fails says little about its
parts: the search must not conclude from one to the other, and every part is really run. For the same
reason the result is small, not smallest.

Plain methods, no processes: whoever drives it runs ``candidate`` and tells what came of it, as often as it
has time for. ``smallest`` is the answer at any moment.
"""

from __future__ import annotations

import itertools
from collections.abc import Generator, Sequence

__all__ = ["Shrinking"]


class Shrinking:
    def __init__(self, events: Sequence[int]) -> None:
        #: the fewest events with which it is known to fail
        self.smallest = tuple(events)
        self.tries = 0
        self._search = self._halve_and_halve()
        #: what to run next; None: there is nothing left to try
        self.candidate = next(self._search, None)

    def judge(self, *, still_fails: bool) -> None:
        """Whether ``candidate`` fails in the way in which the whole plan did."""
        assert self.candidate is not None
        self.tries += 1
        if still_fails:
            self.smallest = self.candidate
        try:
            self.candidate = self._search.send(still_fails)
        except StopIteration:
            self.candidate = None

    def _halve_and_halve(self) -> Generator[tuple[int, ...], bool, None]:
        if not self.smallest:
            return
        # What fails without any fault is worth knowing at once, and costs one run.
        if (yield ()):
            return
        pieces = 2
        while len(self.smallest) > 1:
            is_smaller = yield from self._leave_out_each(pieces)
            if is_smaller:
                pieces = max(pieces - 1, 2)
            elif pieces == len(self.smallest):
                return
            else:
                pieces = min(2 * pieces, len(self.smallest))

    def _leave_out_each(self, pieces: int) -> Generator[tuple[int, ...], bool, bool]:
        """From the end: an event leaves those before it as they are."""
        events = self.smallest
        bounds = [len(events) * piece // pieces for piece in range(pieces + 1)]
        for begin, end in reversed(list(itertools.pairwise(bounds))):
            if (yield events[:begin] + events[end:]):
                return True
        return False
