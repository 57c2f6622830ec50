"""What every node of a simulated cluster did, in order: for people, and to compare two runs of one plan.

The lines are the structured log of the simulated processes, and beside it the faults and what clients were
told. Nothing in them depends on the machine, the process or the hash seed, so the digests of two runs of one
plan are equal, or the simulator is not deterministic.
"""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import structlog
from structlog.typing import EventDict, WrappedLogger

from quorate.chaos.history.entries import Entry, Poll, Sent
from quorate.chaos.sim.process import process_in

__all__ = ["Trace", "TraceLine", "counting_events"]

#: whoever is no node: clients, and the simulation itself
OUTSIDE = "-"


class TraceLine(NamedTuple):
    at_s: float
    machine: str
    event: str
    facts: str

    def __str__(self) -> str:
        return f"{self.at_s:10.6f} {self.machine:<8} {self.event} {self.facts}".rstrip()


class Trace:
    """Also a recorder of the history: what clients were told and saw is part of it."""

    def __init__(self) -> None:
        self.lines: list[TraceLine] = []
        self.now_s: Callable[[], float] = lambda: 0.0
        self._is_over = False

    def note(self, machine: str, event: str, facts: Mapping[str, object]) -> None:
        if self._is_over:
            return
        told = " ".join(f"{key}={value}" for key, value in facts.items() if not key.startswith("_"))
        self.lines.append(TraceLine(self.now_s(), machine, event, told))

    def end(self) -> None:
        """What comes now is no part of the run."""
        self._is_over = True

    # -- the history

    def begun(self, entry: Entry) -> None:
        if isinstance(entry, Poll):
            offsets = f"{entry.records[0].offset}..{entry.records[-1].offset}"
            facts = {"reader": entry.assignment.reader, "partition": entry.partition, "offsets": offsets}
            self.note(OUTSIDE, "read", facts)

    def ended(self, entry: Entry) -> None:
        if isinstance(entry, Sent):
            facts: dict[str, object] = {
                "value": entry.value.rstrip(b".").decode(),
                "partition": entry.partition,
                "outcome": entry.outcome.value,
                "offset": entry.offset,
                "error": entry.error,
            }
            self.note(OUTSIDE, "told", facts)

    def flush(self) -> None:
        """It lives as long as the run."""

    # -- for people, and to compare

    def digest(self) -> str:
        content = hashlib.sha256()
        for line in self.lines:
            content.update(f"{line}\n".encode())
        return content.hexdigest()

    def __iter__(self) -> Iterator[str]:
        return map(str, self.lines)


@contextmanager
def counting_events(trace: Trace | None) -> Iterator[Counter[str]]:
    """While it lasts, log events go nowhere: they are counted, and noted in the trace if there is one."""
    counts: Counter[str] = Counter()

    def take(_: WrappedLogger, __: str, event: EventDict) -> Any:
        name = event.pop("event")
        counts[name] += 1
        if name == "broker_registered":
            counts[f"{event['start']} start"] += 1
        if trace is not None:
            process = process_in(None)
            trace.note(OUTSIDE if process is None else process.name, name, event)
        raise structlog.DropEvent

    before = structlog.get_config()
    structlog.configure(
        processors=[take],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO if trace is None else logging.DEBUG),
        cache_logger_on_first_use=False,
    )
    try:
        yield counts
    finally:
        structlog.configure(**before)
