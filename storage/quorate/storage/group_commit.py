"""One sync for all that wait.

A sync covers everything written before it began. Whoever asks while one is running waits for the
next, and everyone who asked meanwhile shares that one. So under load the number of syncs is set
by the device's speed and not by the number of requests.

A sync that fails is never repeated: the kernel reports an error once and may drop the pages, so a
second attempt would succeed without the data (rule 45). The owner ends the process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from quorate.core.ids import Offset
from quorate.errors import NotLeaderOrFollower

__all__ = ["GroupCommit"]


class GroupCommit:
    __slots__ = ("_ceiling", "_end_offset", "_running", "_sync", "synced_offset")

    def __init__(
        self,
        sync: Callable[[], Awaitable[None]],
        end_offset: Callable[[], Offset],
        *,
        synced_offset: Offset,
    ) -> None:
        self._sync = sync
        self._end_offset = end_offset
        self._running: asyncio.Task[None] | None = None
        #: what the running sync may claim when it is done; a truncation meanwhile lowers it
        self._ceiling = synced_offset
        #: everything below this is on the device (exclusive)
        self.synced_offset = synced_offset

    async def wait_for(self, offset: Offset) -> None:
        """Returns once everything below ``offset`` is on the device."""
        while self.synced_offset < offset:
            if offset > self._end_offset():
                raise NotLeaderOrFollower(
                    f"the log was truncated below offset {offset} while it waited to be synced",
                    offset=offset,
                )
            await self.run_once()

    async def run_once(self) -> None:
        """A sync although nothing waits for it: there is more to sync than what offsets tell of."""
        if self._running is None:
            self._running = asyncio.create_task(self._run(), name="group-commit")
        # A caller that gives up must not take the sync away from the others.
        await asyncio.shield(self._running)

    async def _run(self) -> None:
        self._ceiling = self._end_offset()
        try:
            await self._sync()
        finally:
            self._running = None
        self.synced_offset = max(self.synced_offset, self._ceiling)

    def lower(self, offset: Offset) -> None:
        """The log was truncated: what comes at and after ``offset`` is not on the device yet."""
        self._ceiling = min(self._ceiling, offset)
        self.synced_offset = min(self.synced_offset, offset)

    def restart_at(self, offset: Offset) -> None:
        """The log was emptied and starts at ``offset``."""
        self._ceiling = self.synced_offset = offset

    async def settle(self) -> None:
        """Wait for a sync that is under way, whatever its outcome."""
        if self._running is not None:
            await asyncio.wait([self._running])
