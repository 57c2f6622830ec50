"""Whether the application comes back for records often enough.

The member's heartbeats say that its process lives, not that anything gets done: an application that hangs
would keep its partitions for ever. So the consumer watches it, and leaves the group when it has not been seen
for ``max_poll_interval_ms``: the others go on with its partitions, and nobody waits for it.

The application's thread only notes that it was here; an iteration counts its steps, because reading a clock
costs as much as handing out a record. The loop looks now and then, so it notices up to an eighth of the
interval late.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from quorate.client.consumer.iteration import RecordsAhead
from quorate.core.clock import Clock

__all__ = ["PollPace"]

_LOOKS_PER_INTERVAL: Final = 8


class PollPace:
    def __init__(self, ahead: RecordsAhead, *, clock: Clock, interval_s: float) -> None:
        self._ahead = ahead
        self._clock = clock
        self.interval_s = interval_s
        self._is_polling = False
        #: by the clock, and by the steps of an iteration that were seen
        self._seen_at = clock.monotonic()
        self._steps_seen = 0

    @contextmanager
    def polling(self) -> Iterator[None]:
        """On the application's thread. Whoever waits for records is there."""
        self._is_polling = True
        try:
            yield
        finally:
            self._seen_at = self._clock.monotonic()
            self._is_polling = False

    def absent_s(self) -> float:
        """For how long the application has not been seen."""
        now = self._clock.monotonic()
        if self._is_polling or self._ahead.steps != self._steps_seen:
            self._steps_seen = self._ahead.steps
            self._seen_at = now
        return now - self._seen_at

    async def watch(self, on_overdue: Callable[[], None]) -> None:
        """``on_overdue`` is called again and again while the application is away for too long."""
        while True:
            await self._clock.sleep(self.interval_s / _LOOKS_PER_INTERVAL)
            if self.absent_s() >= self.interval_s:
                on_overdue()
