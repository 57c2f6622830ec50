"""How much of the leader's own log counts towards the high watermark.

- ``durability=replicated``: all of it, as soon as an append returns.
- ``durability=fsync``: what is on the device. Counting an append before would show consumers, and acknowledge
  to producers, what a loss of power takes back (rules 16 and 17). Syncs run in the background, one at a
  time; whatever is appended meanwhile shares the next one.

A topic that is changed to ``replicated`` counts appends from that moment on. One that is changed to ``fsync``
begins a new leader epoch, in which the whole log is synced first; when all members of the ISR have done that,
the leader tells the controller (rule 45, ``IsrMembership``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from quorate.core.config import Durability
from quorate.core.ids import Offset
from quorate.errors import QuorateError
from quorate.storage import PartitionLog

__all__ = ["OwnCopy"]


class OwnCopy:
    __slots__ = ("_is_used", "_log", "_name", "_on_failed", "_on_synced", "_syncing", "needs_sync")

    def __init__(
        self,
        partition_log: PartitionLog,
        durability: Durability,
        *,
        name: str,
        on_synced: Callable[[], None],
        on_failed: Callable[[QuorateError], None],
    ) -> None:
        self._log = partition_log
        self._name = name
        self._on_synced = on_synced
        self._on_failed = on_failed
        #: durability is fsync: an append counts once it is on the device
        self.needs_sync = durability is Durability.FSYNC
        self._is_used = True
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
        try:
            while self._is_used and self.needs_sync and self._log.recovery_point < self._log.log_end_offset:
                await self._log.flush()
                if self._is_used:
                    self._on_synced()
        except QuorateError as error:
            if self._is_used:
                self._on_failed(error)
        finally:
            self._syncing = None

    def stop(self) -> asyncio.Task[None] | None:
        """Nobody leads here any more. A sync under way ends by itself, and is of no interest."""
        self._is_used = False
        return self._syncing
