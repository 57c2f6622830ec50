"""Keeps a log readable when the same thing happens again and again.

A transition is one event, and is always written. What repeats is written a few times a minute, and then left
out until the minute is over; the next one that is written says how many were. *The same* is an event of the
same name about the same thing: leaders that change on a hundred partitions are a hundred events, and a
partition whose leader changes a hundred times is one that repeats. Texts and numbers that come with an event
do not make it another one.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final

__all__ = ["FloodGuard"]

#: fields that say what an event is about; the others say what was the matter
_ABOUT: Final = (
    "logger", "_logger", "event", "level", "partition", "topic", "group", "member_id", "broker_id", "leader",
    "peer", "address", "directory", "path", "method", "code",
)  # fmt: skip
_WINDOW_S: Final = 60.0
_WRITTEN_PER_WINDOW: Final = 10
#: things that are told apart; of more than that the oldest are forgotten, and may be written again
_THINGS_MAX: Final = 2_000


class _Repeats:
    __slots__ = ("began", "left_out", "written")

    def __init__(self, began: float) -> None:
        self.began = began
        self.written = 0
        self.left_out = 0


class FloodGuard:
    def __init__(
        self, monotonic: Callable[[], float], *, written_per_window: int = _WRITTEN_PER_WINDOW
    ) -> None:
        self._monotonic = monotonic
        self._written_per_window = written_per_window
        self._things: OrderedDict[Hashable, _Repeats] = OrderedDict()
        #: all that were left out so far
        self.suppressed = 0

    def admit(self, thing: Hashable) -> int | None:
        """How many of it were left out since the last one that was written; None: leave out this one, too."""
        now = self._monotonic()
        repeats = self._things.get(thing)
        left_out = 0
        if repeats is None or now - repeats.began >= _WINDOW_S:
            left_out = 0 if repeats is None else repeats.left_out
            repeats = self._things[thing] = _Repeats(now)
            self._things.move_to_end(thing)
            if len(self._things) > _THINGS_MAX:
                self._things.popitem(last=False)
        if repeats.written >= self._written_per_window:
            repeats.left_out += 1
            self.suppressed += 1
            return None
        repeats.written += 1
        return left_out

    def admit_event(self, fields: Mapping[str, Any]) -> int | None:
        """An event of this project's own, by what it is about."""
        return self.admit(tuple(str(fields[name]) if name in fields else None for name in _ABOUT))

    def filter(self, record: logging.LogRecord) -> bool:
        """As a filter of the standard library's handlers: by the text before values are put into it."""
        if record.levelno < logging.INFO:
            return True
        return self.admit((record.name, record.levelno, str(record.msg))) is not None
