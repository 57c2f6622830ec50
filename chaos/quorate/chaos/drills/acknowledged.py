"""How many records were acknowledged by now, without looking at all of them again and again."""

from __future__ import annotations

from quorate.chaos.history.entries import Sent
from quorate.chaos.history.history import History

__all__ = ["AcknowledgedCount"]


class AcknowledgedCount:
    def __init__(self, history: History) -> None:
        self._history = history
        self._looked_at = 0
        self._open: list[Sent] = []
        self._count = 0

    def now(self) -> int:
        sent = self._history.sent
        looked_at, self._looked_at = self._looked_at, len(sent)
        still_open = []
        for each in (*self._open, *sent[looked_at:]):
            if each.ended_s is None:
                still_open.append(each)
            else:
                self._count += each.is_acknowledged
        self._open = still_open
        return self._count
