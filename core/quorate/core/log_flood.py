"""Keeps a log readable when the same thing happens again and again.

A transition is one event, and is always written. What repeats is written a few times a minute, and then left
out until the minute is over; the next one that is written says how many were. *The same* is an event of the
same name about the same thing: leaders that change on a hundred partitions are a hundred events, and a
partition whose leader changes a hundred times is one that repeats. Texts and numbers that come with an event
do not make it another one.

That alone is no bound. A broker has more partitions than can be told apart here, and one whose disk is full
says so for each of them, too seldom for any of them to repeat. So there is a second bound, on all events of
one name and level: a burst that holds what happens once to everything on a node, and then no more a minute
than somebody can read. That bound alone was rejected: one partition that flaps would silence the others.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final

__all__ = ["FloodGuard"]

#: fields that say what an event is about; the others say what was the matter
_ABOUT: Final = (
    "logger", "_logger", "event", "partition", "topic", "group", "member_id", "broker_id", "leader",
    "peer", "address", "directory", "path", "method", "code",
)  # fmt: skip
_WINDOW_S: Final = 60.0
_WRITTEN_PER_WINDOW: Final = 10
#: things that are told apart; of more than that the oldest are forgotten, and only the bound on kinds holds
_THINGS_MAX: Final = 2_000
#: of one kind at once: as many as a failover or a start may have to tell
_KIND_BURST: Final = 1_000
_KIND_PER_WINDOW: Final = 100
#: There are not half as many names in the sources.
_KINDS_MAX: Final = 1_000


class _Kind:
    """A bucket that fills with time; every event that is written takes one out."""

    __slots__ = ("left_out", "looked_at", "room")

    def __init__(self, now: float) -> None:
        self.looked_at = now
        self.room = float(_KIND_BURST)
        self.left_out = 0

    def has_room(self, now: float) -> bool:
        gained = (now - self.looked_at) * _KIND_PER_WINDOW / _WINDOW_S
        self.room = min(float(_KIND_BURST), self.room + gained)
        self.looked_at = now
        return self.room >= 1.0


class _Repeats:
    __slots__ = ("began", "kind", "left_out", "written")

    def __init__(self, began: float, kind: _Kind) -> None:
        self.began = began
        self.kind = kind
        self.written = 0
        self.left_out = 0


class FloodGuard:
    def __init__(
        self, monotonic: Callable[[], float], *, written_per_window: int = _WRITTEN_PER_WINDOW
    ) -> None:
        self._monotonic = monotonic
        self._written_per_window = written_per_window
        self._things: OrderedDict[Hashable, _Repeats] = OrderedDict()
        self._kinds: OrderedDict[Hashable, _Kind] = OrderedDict()
        #: all that were left out so far
        self.suppressed = 0

    def admit(self, thing: Hashable, *, kind: Hashable) -> int | None:
        """How many were left out since the last one that was written; None: leave out this one, too.

        Those of the same thing, and those that only the bound on its kind held back.
        """
        now = self._monotonic()
        of_kind = self._kind(kind, now)
        repeats = self._things.get(thing)
        if repeats is None or now - repeats.began >= _WINDOW_S:
            repeats = self._begin(thing, of_kind, now)
        if repeats.written >= self._written_per_window:
            repeats.left_out += 1
            self.suppressed += 1
            return None
        if not of_kind.has_room(now):
            of_kind.left_out += 1
            self.suppressed += 1
            return None
        repeats.written += 1
        of_kind.room -= 1.0
        left_out, of_kind.left_out = of_kind.left_out, 0
        return left_out

    def admit_event(self, fields: Mapping[str, Any], *, level: str) -> int | None:
        """An event of this project's own, by what it is about."""
        about = tuple(str(fields[name]) if name in fields else None for name in _ABOUT)
        return self.admit((level, about), kind=(level, str(fields.get("event"))))

    def filter(self, record: logging.LogRecord) -> bool:
        """As a filter of the standard library's handlers: by the text before values are put into it.

        Some put the values in themselves, so that every text is another thing; their kind is who speaks.
        """
        if record.levelno < logging.INFO:
            return True
        who = (record.name, record.levelno)
        return self.admit((*who, str(record.msg)), kind=who) is not None

    def _begin(self, thing: Hashable, kind: _Kind, now: float) -> _Repeats:
        """A window of a thing; what was left out in the one before is told with the next of its kind."""
        before = self._things.get(thing)
        if before is not None:
            kind.left_out += before.left_out
        repeats = self._things[thing] = _Repeats(now, kind)
        self._things.move_to_end(thing)
        if len(self._things) > _THINGS_MAX:
            _, oldest = self._things.popitem(last=False)
            oldest.kind.left_out += oldest.left_out
        return repeats

    def _kind(self, key: Hashable, now: float) -> _Kind:
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = _Kind(now)
            if len(self._kinds) > _KINDS_MAX:
                self._kinds.popitem(last=False)
        return kind
