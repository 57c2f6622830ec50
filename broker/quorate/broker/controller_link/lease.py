"""The lease: for how long this broker may answer alone (rule 37).

acks=all needs no lease, because a leader that was deposed finds nobody to replicate to. A read, an answer to
acks=1 and a refused conditional append rest on this broker alone, and another one may lead by now. The
controller moves leaders away only after a session without heartbeats; so whoever was heard a shorter time ago
still leads whatever it has not been told otherwise.

- The lease runs from when the heartbeat was *sent*. The controller's session runs from when it was received,
  which is later, however long the message took. Counting from the answer would add that time on the wrong
  side.
- The clock counts suspension. A process that was stopped finds its lease over when it goes on, whatever
  answers wait in its buffers; so the lease is checked as each answer leaves, not when its request arrives.
- An answer renews it only once this broker has applied all the metadata that was decided when the controller
  gave it. Leaders are also moved by plan, from brokers that are alive. Such a broker stays in the ISR, so
  nothing is committed without it until it knows of its successor; unless it is taken out for lagging behind,
  which takes longer than a lease that is not renewed.
- It is over at once when the controller says "fenced", and when the session's stream breaks: the controller
  then looks for other evidence of death than the time that has passed.

The controller's session time-out comes with its answers. Where it is shorter than this broker was configured
for, the lease follows it.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Final, NamedTuple

from quorate.core.clock import Clock
from quorate.core.limits import LEASE_SHARE_OF_SESSION_MAX
from quorate.errors import BrokerFenced

__all__ = ["Lease", "fenced"]


#: answers that wait for metadata; more than a lease has heartbeats, and the oldest ones are worth least
_WAITING_MAX: Final = 64


class _Renewal(NamedTuple):
    metadata_offset: int
    sent_at: float
    session_timeout_s: float


class Lease:
    def __init__(self, clock: Clock, *, duration_s: float) -> None:
        self._clock = clock
        self._duration_s = duration_s
        #: monotonic seconds (exclusive)
        self._valid_until = -math.inf
        #: in the order of the heartbeats, so offsets only grow
        self._waiting: deque[_Renewal] = deque(maxlen=_WAITING_MAX)

    @property
    def is_valid(self) -> bool:
        return self._clock.monotonic() < self._valid_until

    def check(self) -> None:
        """``BrokerFenced`` unless it is valid now. For every answer that needs it, as it leaves."""
        if not self.is_valid:
            raise fenced()

    def renew_with_metadata(self, metadata_offset: int, sent_at: float, *, session_timeout_s: float) -> None:
        """As ``renew``, once the metadata up to there (inclusive) is applied."""
        self._waiting.append(_Renewal(metadata_offset, sent_at, session_timeout_s))

    def metadata_applied(self, offset: int) -> None:
        """This broker knows, and acts on, everything up to there."""
        while self._waiting and self._waiting[0].metadata_offset <= offset:
            renewal = self._waiting.popleft()
            self.renew(renewal.sent_at, session_timeout_s=renewal.session_timeout_s)

    def renew(self, sent_at: float, *, session_timeout_s: float = math.inf) -> None:
        """A heartbeat sent at that time was answered, and the broker is not fenced."""
        duration_s = min(self._duration_s, session_timeout_s * LEASE_SHARE_OF_SESSION_MAX)
        self._valid_until = max(self._valid_until, sent_at + duration_s)

    def revoke(self) -> None:
        """Answers that were given before do not bring it back."""
        self._waiting.clear()
        self._valid_until = -math.inf


def fenced() -> BrokerFenced:
    """For answers that need the lease, when it is over. Nothing was done."""
    return BrokerFenced("this broker has lost touch with the active controller: another one may lead by now")
