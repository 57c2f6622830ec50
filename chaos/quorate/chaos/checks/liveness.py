"""How long somebody who writes to a partition waits for an acknowledgement, and that it ends in quiet times.

A wait begins with a send while nothing is outstanding, or with the acknowledgement before; it ends with the
next acknowledgement. Refusals do not end it: to be told "no" quickly is not to be served. While a fault lasts
a wait may be as long as it is; it is measured and published. The part of a wait in which no fault lasts is
recovery, and must stay within the bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from quorate.chaos.checks.case import Case
from quorate.chaos.checks.verdict import Findings, Verdict
from quorate.chaos.history.entries import FaultWindow, Sent

__all__ = ["NAME", "Span", "check", "quiet_spans", "waits"]

NAME: Final = "unavailable"


class Span(NamedTuple):
    begun_s: float
    ended_s: float

    @property
    def seconds(self) -> float:
        return self.ended_s - self.begun_s


_NO_TIME: Final = Span(0.0, 0.0)
_seconds: Final = attrgetter("seconds")


def check(case: Case) -> Verdict:
    findings, examined = Findings(), 0
    quiet = quiet_spans(case.history.faults)
    bound_s = case.final.acknowledged_within_s
    longest_s = recovery_s = 0.0
    for partition in case.partitions:
        for wait in waits(partition.sent):
            examined += 1
            longest_s = max(longest_s, wait.seconds)
            if wait.seconds <= recovery_s and (bound_s is None or wait.seconds <= bound_s):
                continue
            recovery = max((_overlap(wait, span) for span in quiet), key=_seconds, default=_NO_TIME)
            recovery_s = max(recovery_s, recovery.seconds)
            if bound_s is not None and recovery.seconds > bound_s:
                findings.add(
                    f"{partition.partition}: nothing was acknowledged for {recovery.seconds:.1f} s from "
                    f"{recovery.begun_s:.1f} s on, {bound_s:g} s are allowed"
                )
    figures = {"longest_wait_s": longest_s, "longest_recovery_s": recovery_s}
    return findings.verdict(NAME, examined=examined, figures=figures)


def waits(sent: Sequence[Sent]) -> Iterator[Span]:
    """Of one partition, in order; the last one may have no acknowledgement at its end."""
    begins = sorted(each.begun_s for each in sent)
    ends = sorted((each.ended_s, each.is_acknowledged) for each in sent if each.ended_s is not None)
    begun = 0
    since_s: float | None = None
    for ended, (at_s, is_acknowledged) in enumerate(ends, start=1):
        while begun < len(begins) and begins[begun] <= at_s:
            since_s = begins[begun] if since_s is None else since_s
            begun += 1
        if is_acknowledged:
            assert since_s is not None, "what ends has begun"
            yield Span(since_s, at_s)
            since_s = at_s if begun > ended else None
    if since_s is None and begun < len(begins):
        since_s = begins[begun]
    if since_s is not None:
        yield Span(since_s, max(begins[-1], ends[-1][0] if ends else since_s))


def quiet_spans(faults: Sequence[FaultWindow]) -> list[Span]:
    """When no fault lasts; the first begins and the last ends at infinity."""
    spans: list[Span] = []
    quiet_since_s = -math.inf
    for fault in sorted(faults, key=lambda each: each.begun_s):
        if fault.begun_s > quiet_since_s:
            spans.append(Span(quiet_since_s, fault.begun_s))
        quiet_since_s = max(quiet_since_s, math.inf if fault.ended_s is None else fault.ended_s)
    if quiet_since_s < math.inf:
        spans.append(Span(quiet_since_s, math.inf))
    return spans


def _overlap(one: Span, other: Span) -> Span:
    """Less than nothing if they have none."""
    return Span(max(one.begun_s, other.begun_s), min(one.ended_s, other.ended_s))
