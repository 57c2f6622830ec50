"""Pauses between attempts to connect."""

from __future__ import annotations

from typing import Final

from quorate.errors import Unavailable

__all__ = ["Backoff"]

_BACKOFF_S_MIN: Final = 0.1
_BACKOFF_FACTOR: Final = 1.6


class Backoff:
    """How long nobody tries again after a failure; then the next call does."""

    def __init__(self, pause_s_max: float) -> None:
        self._pause_s_max = pause_s_max
        self._pause_s = 0.0
        self._until = 0.0
        self._reason = ""

    def check(self, now: float) -> None:
        if now < self._until:
            raise Unavailable(self._reason)

    def failed(self, now: float, reason: str) -> None:
        pause_s = max(_BACKOFF_S_MIN, self._pause_s * _BACKOFF_FACTOR)
        self._pause_s = min(pause_s, self._pause_s_max)
        self._until = now + self._pause_s
        self._reason = reason

    def succeeded(self) -> None:
        self._pause_s = self._until = 0.0
