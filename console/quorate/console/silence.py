"""Telling a reader that waits for records from one that waits for brokers: to its person they look alike."""

from __future__ import annotations

import asyncio
from typing import Final

from quorate.console.session import Session

__all__ = ["Silence"]

_SILENCE_S: Final = 5.0


class Silence:
    """Told once, until a broker answers again."""

    def __init__(self, session: Session) -> None:
        self._session = session
        #: answers of brokers so far, as of the last look
        self._fetches = 0
        #: by the loop's time; the first answer has as long as any other
        self._answered_at = asyncio.get_running_loop().time()
        self._is_told = False
        self._idle_since: float | None = None
        self._is_idleness_told = False

    def look(self, fetches: int, *, has_read: bool) -> None:
        now = asyncio.get_running_loop().time()
        self._idle_since, self._is_idleness_told = None, False
        if has_read or fetches != self._fetches:
            if self._is_told:
                self._session.note("brokers answer again")
            self._is_told = False
            self._fetches, self._answered_at = fetches, now
        elif not self._is_told and now - self._answered_at >= _SILENCE_S:
            self._session.note(f"no broker has answered for {_SILENCE_S:g} s; still trying")
            self._is_told = True

    def has_nothing_to_read(self) -> bool:
        """Nobody is asked for anything now: then nobody answers. True once, when that is to be told."""
        now = asyncio.get_running_loop().time()
        self._answered_at = now
        if self._idle_since is None:
            self._idle_since = now
        elif not self._is_idleness_told and now - self._idle_since >= _SILENCE_S:
            self._is_idleness_told = True
            return True
        return False
