"""What all logs of one data directory share."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, NoReturn

from quorate.core.clock import Clock
from quorate.core.disk import Disk, SyncFailed
from quorate.core.logging import get_logger
from quorate.storage.open_files import OpenFiles
from quorate.storage.recent_batches import RecentBatches
from quorate.storage.retention_time import RetentionTime

__all__ = ["LogContext", "is_disk_full", "tolerate_full_disk"]

log = get_logger(__name__)

_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


def is_disk_full(error: OSError) -> bool:
    """A write was refused. From a sync the same number says that pages are lost (rule 45)."""
    return error.errno in _NO_ROOM and not isinstance(error, SyncFailed)


@contextmanager
def tolerate_full_disk(doing: str, path: str) -> Iterator[None]:
    """For what can be left out: a node whose disk is full has to start, to serve reads and to clean up."""
    try:
        yield
    except OSError as error:
        if not is_disk_full(error):
            raise
        log.warning("disk_full", skipped=doing, path=path)


@dataclass(slots=True)
class LogContext:
    disk: Disk
    clock: Clock
    open_files: OpenFiles
    #: ends the process: called when a sync failed, after which nothing can be promised (rule 45)
    on_fatal: Callable[[str], NoReturn]
    #: the first error of the disk; after one, no shutdown is clean (rule 31)
    storage_error: str | None = None
    #: told of that first error
    on_storage_error: Callable[[], None] | None = None
    #: told of a log's directory when opening it finds more than a torn tail, before anything is done about it
    on_recovery_damage: Callable[[str], Awaitable[None]] | None = None
    #: one log is scanned at a time; others wait for the device meanwhile. A turn of the event loop then takes
    #: no longer than one step of one scan, however many logs are being opened
    scanning: asyncio.Lock = field(default_factory=asyncio.Lock)
    #: what compaction may use to remember the keys of a log; beyond it, it goes on another time
    dedupe_buffer_bytes: int = 128 << 20
    #: what was appended last, to any of the logs
    recent: RecentBatches = field(default_factory=lambda: RecentBatches(0))
    retention_time: RetentionTime = field(init=False)

    def __post_init__(self) -> None:
        self.retention_time = RetentionTime(self.clock)

    def note_storage_error(self, doing: str, path: str, error: OSError) -> None:
        """Does not return if it was a sync: the next process finds out from the notes what it may rely on."""
        log.error("storage_error", doing=doing, path=path, errno=error.errno, error=error.strerror)
        if self.storage_error is None:
            self.storage_error = f"{doing} {path}: {error}"
            if self.on_storage_error is not None:
                self.on_storage_error()
        if isinstance(error, SyncFailed):
            self.on_fatal(f"sync failed: cannot {doing} {path}: {error}")

    async def tell_of_recovery_damage(self, directory: str) -> None:
        if self.on_recovery_damage is not None:
            await self.on_recovery_damage(directory)
