"""Logs that go: on a committed decision, and not at once (rule 42).

The metadata said that a topic is deleted, or that this broker has no replica of a partition any more. The
files stay for ``file.delete.delay.ms``: readers finish, a person who made a mistake has a moment to copy
them, and a replica that is moved away and back within it need not be fetched again. Which ones are waiting is
kept in memory only; after a restart the metadata says the same again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from quorate.core.clock import Clock
from quorate.core.logging import get_logger
from quorate.errors import StorageError
from quorate.storage import LogDirectory, PartitionKey

__all__ = ["LogDeletions"]

log = get_logger(__name__)

#: what could not be deleted is tried again after this
_RETRY_S: Final = 60.0


class LogDeletions:
    def __init__(
        self,
        logs: LogDirectory,
        *,
        clock: Clock,
        delay_s: float,
        on_deleted: Callable[[PartitionKey], None],
    ) -> None:
        self._logs = logs
        self._clock = clock
        self._delay_s = delay_s
        self._on_deleted = on_deleted
        #: when each is due, on the monotonic clock
        self._due: dict[PartitionKey, float] = {}
        self._has_changed = asyncio.Event()
        self._deleting: tuple[PartitionKey, asyncio.Task[None]] | None = None

    def delete_later(self, key: PartitionKey) -> None:
        """On a committed decision. The log must be out of use by now."""
        if key not in self._due:
            self._due[key] = self._clock.monotonic() + self._delay_s
            log.info("log_to_be_deleted", directory=key.directory_name, delay_s=self._delay_s)
            self._has_changed.set()

    async def withdraw(self, key: PartitionKey) -> None:
        """The replica is wanted again. When this returns its log is either as it was, or gone."""
        self._due.pop(key, None)
        if self._deleting is not None and self._deleting[0] == key:
            await asyncio.wait([self._deleting[1]])
            # It may have failed, and be due again.
            self._due.pop(key, None)

    async def run(self) -> None:
        """Until cancelled. A deletion under way is finished then."""
        while True:
            now = self._clock.monotonic()
            for key in sorted(key for key, due in self._due.items() if due <= now):
                # Those behind it may have been withdrawn meanwhile.
                if key in self._due:
                    await self._delete(key)
            await self._wait()

    async def _wait(self) -> None:
        """For the next one to be due, or another one to come."""
        self._has_changed.clear()
        timer = None
        if self._due:
            seconds = min(self._due.values()) - self._clock.monotonic()
            timer = self._clock.call_later(max(seconds, 0), self._has_changed.set)
        try:
            await self._has_changed.wait()
        finally:
            if timer is not None:
                timer.cancel()

    async def _delete(self, key: PartitionKey) -> None:
        del self._due[key]
        task = asyncio.create_task(self._remove(key), name="delete-log")
        self._deleting = (key, task)
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait([task])
            raise
        finally:
            self._deleting = None

    async def _remove(self, key: PartitionKey) -> None:
        try:
            await self._logs.remove(key)
        except StorageError as error:
            log.error("log_not_deleted", directory=key.directory_name, code=error.code, error=error.message)
            self._due[key] = self._clock.monotonic() + _RETRY_S
            return
        log.info("log_deleted", directory=key.directory_name)
        self._on_deleted(key)
