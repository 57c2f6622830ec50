"""Who read which partition when, and what that says about a rebalance. Plain arithmetic on arrivals.

A partition's *pause* is the longest that one of its records has waited, from when it was sent until its
member got it: of a partition that is not served for that long, the first record then waits as long. So a load
that falls behind makes no pauses, but a machine that has other things to do does. So that a reader can tell
them apart, every pause is told beside the same partitions' longest pause in as long a time right before the
change. A partition that moves *resumes* when its first record is at somebody else, counted from the call that
made it move.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from bench.groups.arrivals import Arrival

__all__ = ["Observed", "Span", "Timeline"]


class Span(NamedTuple):
    """From the call on, until everything has been calm again for a moment. Seconds of CLOCK_MONOTONIC."""

    start_s: float
    end_s: float

    def before(self, *, since_s: float) -> Span:
        """As long, right before it; shorter rather than earlier than ``since_s``."""
        return Span(max(2 * self.start_s - self.end_s, since_s), self.start_s)


class Observed(NamedTuple):
    """One change of the group. All in seconds, by partition."""

    #: the longest pause of each partition that has kept its member
    stayed: Mapping[int, float]
    #: the same partitions, in as long a time before it
    quiet: Mapping[int, float]
    #: of each that was taken over: from the call to the first record at another member
    resumed: Mapping[int, float]
    #: of the same: the longest time without a record at anybody
    unread: Mapping[int, float]


class _ArrivalAt(NamedTuple):
    at_s: float
    member: str
    waited_s: float


class Timeline:
    def __init__(self) -> None:
        #: of each partition, in order of time
        self._arrivals: dict[int, list[_ArrivalAt]] = {}

    def add(self, member: str, arrivals: Iterable[Arrival]) -> None:
        changed = set()
        for arrival in arrivals:
            self._arrivals.setdefault(arrival.partition, []).append(
                _ArrivalAt(arrival.at_s, member, arrival.waited_s)
            )
            changed.add(arrival.partition)
        for partition in changed:
            # Nearly sorted, so nearly for nothing.
            self._arrivals[partition].sort()

    def owners(self, *, at_s: float | None = None) -> dict[int, str]:
        """Who got the last record of each partition, until then."""
        found = {}
        for partition, arrivals in self._arrivals.items():
            place = len(arrivals) if at_s is None else bisect_right(arrivals, at_s, key=_moment)
            if place:
                found[partition] = arrivals[place - 1].member
        return found

    def held(self, *, since_s: float) -> dict[str, set[int]]:
        """Of which partitions each member got a record since then, and nobody else later."""
        found: dict[str, set[int]] = {}
        for partition, arrivals in self._arrivals.items():
            last = arrivals[-1]
            if last.at_s >= since_s:
                found.setdefault(last.member, set()).add(partition)
        return found

    def first_after(self, moment_s: float) -> dict[int, float]:
        """Of each partition that has one, the first record later than that."""
        found = {}
        for partition, arrivals in self._arrivals.items():
            place = bisect_right(arrivals, moment_s, key=_moment)
            if place < len(arrivals):
                found[partition] = arrivals[place].at_s
        return found

    def observe(self, span: Span, *, quiet: Span) -> Observed:
        owners = self.owners(at_s=span.start_s)
        taken_over = {
            partition: taken_at
            for partition, owner in owners.items()
            if (taken_at := self._taken_over_at(partition, owner, span)) is not None
        }
        stayed = [partition for partition in owners if partition not in taken_over]
        return Observed(
            stayed=self._longest_pauses(stayed, span),
            quiet=self._longest_pauses(stayed, quiet),
            resumed={partition: at_s - span.start_s for partition, at_s in taken_over.items()},
            unread=self._longest_gaps(taken_over, span),
        )

    def _taken_over_at(self, partition: int, owner: str, span: Span) -> float | None:
        return next((each.at_s for each in self._within(partition, span) if each.member != owner), None)

    def _longest_pauses(self, partitions: Collection[int], span: Span) -> dict[int, float]:
        """Where nothing came at all, the whole span is one."""
        return {
            partition: max(
                (each.waited_s for each in self._within(partition, span)), default=span.end_s - span.start_s
            )
            for partition in partitions
        }

    def _longest_gaps(self, partitions: Collection[int], span: Span) -> dict[int, float]:
        return {
            partition: _longest_gap(
                [each.at_s for each in self._within(partition, span)],
                before_s=self._last_before(partition, span.start_s),
                end_s=span.end_s,
            )
            for partition in partitions
        }

    def _within(self, partition: int, span: Span) -> Sequence[_ArrivalAt]:
        arrivals = self._arrivals[partition]
        first = bisect_right(arrivals, span.start_s, key=_moment)
        return arrivals[first : bisect_left(arrivals, span.end_s, key=_moment)]

    def _last_before(self, partition: int, moment: float) -> float:
        arrivals = self._arrivals[partition]
        place = bisect_right(arrivals, moment, key=_moment)
        return arrivals[place - 1].at_s if place else moment


def _longest_gap(moments: Sequence[float], *, before_s: float, end_s: float) -> float:
    """``before_s``: the last record before the span. One that lasts at its end counts so far."""
    ends = [*moments, end_s]
    return max(later - earlier for earlier, later in zip([before_s, *moments], ends, strict=True))


def _moment(arrival: _ArrivalAt) -> float:
    return arrival.at_s
