"""Waking the streams of followers when there is something to send."""

from __future__ import annotations

import enum
from collections.abc import Callable

from quorate.core.ids import BrokerId

__all__ = ["News", "Wake", "Wakers"]


class News(enum.Enum):
    APPENDED = enum.auto()
    HIGH_WATERMARK = enum.auto()
    #: the log is to begin later
    LOG_START = enum.auto()
    #: of the leadership: nothing more will come
    ENDED = enum.auto()


#: called in the middle of an append: it has to be cheap
Wake = Callable[[News], None]


class Wakers:
    __slots__ = ("_by_broker", "_in_order")

    def __init__(self) -> None:
        self._by_broker: dict[BrokerId, Wake] = {}
        #: the same, replaced as a whole: whoever is woken may add or remove one
        self._in_order: tuple[Wake, ...] = ()

    def add(self, broker_id: BrokerId, wake: Wake) -> None:
        """One for each broker; a new one takes the old one's place."""
        self._by_broker[broker_id] = wake
        self._in_order = tuple(self._by_broker.values())

    def remove(self, broker_id: BrokerId) -> None:
        if self._by_broker.pop(broker_id, None) is not None:
            self._in_order = tuple(self._by_broker.values())

    def wake(self, news: News) -> None:
        for wake in self._in_order:
            wake(news)

    def clear(self) -> None:
        self._by_broker.clear()
        self._in_order = ()
