"""How fast a broker takes records for replicas that a reassignment adds to it.

Paid afterwards: what arrived is a debt that shrinks at the rate, and while there is one, no replica that is
throttled asks for more. How much an answer will hold is not known when it is asked for, so paying before
would mean to set aside the most that it could be, and a move of many small partitions would crawl. The price
is that one answer may run ahead; over any longer time the rate holds.

Replicas that belong to the partition already are never throttled: holding them up would shrink the ISR.
"""

from __future__ import annotations

from typing import Final

from quorate.core.clock import Clock

__all__ = ["UNLIMITED", "ReplicationThrottle"]

#: as a rate
UNLIMITED: Final = -1


class ReplicationThrottle:
    """One for all leaders that a broker follows."""

    def __init__(self, clock: Clock, *, bytes_per_s: int = UNLIMITED) -> None:
        self._clock = clock
        self._bytes_per_s = bytes_per_s
        #: as it was at ``_since``; less by now
        self._debt_bytes = 0.0
        self._since = clock.monotonic()

    def set_rate(self, bytes_per_s: int) -> None:
        """The debt stays, and is paid off at the new rate."""
        self._settle()
        self._bytes_per_s = bytes_per_s

    def took(self, byte_count: int) -> None:
        self._settle()
        if self._bytes_per_s != UNLIMITED:
            self._debt_bytes += byte_count

    def wait_s(self) -> float:
        """Until the debt is paid; 0: more may be taken now."""
        self._settle()
        if self._bytes_per_s == UNLIMITED:
            return 0.0
        return self._debt_bytes / self._bytes_per_s

    def _settle(self) -> None:
        now = self._clock.monotonic()
        if self._bytes_per_s == UNLIMITED:
            self._debt_bytes = 0.0
        else:
            self._debt_bytes = max(0.0, self._debt_bytes - (now - self._since) * self._bytes_per_s)
        self._since = now
