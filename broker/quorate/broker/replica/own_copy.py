"""How much of the leader's own log counts towards the high watermark.

- ``durability=replicated``: all of it, as soon as an append returns.
- ``durability=fsync``: what is on the device. Counting an append before would show consumers, and acknowledge
  to producers, what a loss of power takes back (rules 16 and 17). Syncs run in the background, one at a
  time; whatever is appended meanwhile shares the next one. One that lacked a file descriptor is tried again
  by itself: the next append may never come, and a retry of the last one is none.

A topic that is changed to ``replicated`` counts appends from that moment on. One that is changed to ``fsync``
begins a new leader epoch, in which the whole log is synced first; when all members of the ISR have done that,
the leader tells the controller (rule 45, ``IsrMembership``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from quorate.core.clock import Clock
from quorate.core.config import Durability
from quorate.core.ids import Offset
from quorate.errors import QuorateError, TooManyOpenFiles
from quorate.storage import PartitionLog

__all__ = ["OwnCopy"]

#: before the next attempt for want of a descriptor; twice as long each time
_PAUSE_S: Final = 0.05
_PAUSE_S_MAX: Final = 1.0


class OwnCopy:
    __slots__ = (
        "_clock",
        "_is_used",
        "_log",
        "_may_go_on",
        "_name",
        "_on_failed",
        "_on_synced",
        "_syncing",
        "needs_sync",
    )

    def __init__(
        self,
        partition_log: PartitionLog,
        durability: Durability,
        *,
        clock: Clock,
        name: str,
        on_synced: Callable[[], None],
        on_failed: Callable[[QuorateError], None],
    ) -> None:
        """``on_failed``: who waits now cannot be told when. A passing error is tried again all the same."""
        self._log = partition_log
        self._clock = clock
        self._name = name
        self._on_synced = on_synced
        self._on_failed = on_failed
        #: durability is fsync: an append counts once it is on the device
        self.needs_sync = durability is Durability.FSYNC
        self._is_used = True
        #: while it pauses
        self._may_go_on: asyncio.Event | None = None
        self._syncing: asyncio.Task[None] | None = None
        self.sync_soon()

    @property
    def end_offset(self) -> Offset:
        """Exclusive: everything below counts as stored here."""
        return self._log.recovery_point if self.needs_sync else self._log.log_end_offset

    def set_durability(self, durability: Durability) -> None:
        self.needs_sync = durability is Durability.FSYNC
        self.sync_soon()

    def sync_soon(self) -> None:
        """Something was appended."""
        if self.needs_sync and self._syncing is None and self._log.recovery_point < self._log.log_end_offset:
            self._syncing = asyncio.create_task(self._sync(), name=f"sync {self._name}")

    async def _sync(self) -> None:
        """Until nothing is left to sync."""
        pause_s = _PAUSE_S
        try:
            while self._is_used and self.needs_sync and self._log.recovery_point < self._log.log_end_offset:
                try:
                    await self._log.flush()
                except TooManyOpenFiles as error:
                    if self._is_used:
                        self._on_failed(error)
                        await self._pause(pause_s)
                        pause_s = min(2 * pause_s, _PAUSE_S_MAX)
                    continue
                pause_s = _PAUSE_S
                if self._is_used:
                    self._on_synced()
        except QuorateError as error:
            if self._is_used:
                self._on_failed(error)
        finally:
            self._syncing = None

    async def _pause(self, seconds: float) -> None:
        self._may_go_on = asyncio.Event()
        timer = self._clock.call_later(seconds, self._may_go_on.set)
        try:
            await self._may_go_on.wait()
        finally:
            timer.cancel()
            self._may_go_on = None

    def stop(self) -> asyncio.Task[None] | None:
        """Nobody leads here any more. A sync under way ends by itself, and is of no interest."""
        self._is_used = False
        if self._may_go_on is not None:
            self._may_go_on.set()
        return self._syncing
