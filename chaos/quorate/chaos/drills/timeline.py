"""What happened when, beside what clients saw: faults, when they were healed, and what the cluster said.

Times are those of the history, so that all of it can be laid on one axis.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum

from quorate.chaos.history.history import History

__all__ = ["Event", "EventKind", "Timeline"]


class EventKind(StrEnum):
    ELECTION = "leader elected"
    OFFLINE = "partition offline"
    ISR_SHRUNK = "ISR shrunk"
    ISR_GREW = "ISR grew"
    CONTROLLER = "controller elected"
    FENCED = "broker fenced"


@dataclass(frozen=True, slots=True)
class Event:
    at_s: float
    kind: EventKind
    what: str


@dataclass(slots=True)
class Timeline:
    history: History
    began_s: float
    ended_s: float | None = None
    events: list[Event] = field(default_factory=list)
    #: by the serial of a fault: when every replica was in sync again
    whole_s: dict[int, float] = field(default_factory=dict)

    def note(self, kind: EventKind, what: str) -> None:
        self.events.append(Event(self.history.now_s(), kind, what))

    @contextmanager
    def fault(self, kind: str, target: str) -> Iterator[None]:
        window = self.history.inflict(kind, target)
        try:
            yield
        finally:
            self.history.heal(window)

    def note_whole(self) -> None:
        """After every fault that was healed by now."""
        now = self.history.now_s()
        for window in self.history.faults:
            if window.ended_s is not None:
                self.whole_s.setdefault(window.serial, now)

    def since(self, since_s: float) -> list[Event]:
        return [event for event in self.events if event.at_s >= since_s]

    def count(self, kind: EventKind) -> int:
        return sum(event.kind is kind for event in self.events)
