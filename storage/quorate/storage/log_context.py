"""What all logs of one data directory share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

import structlog

from quorate.core.clock import Clock
from quorate.core.disk import Disk
from quorate.storage.open_files import OpenFiles

__all__ = ["LogContext"]

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class LogContext:
    disk: Disk
    clock: Clock
    open_files: OpenFiles
    #: ends the process: called when a sync failed, after which nothing can be promised (rule 45)
    on_fatal: Callable[[str], NoReturn]
    #: the first error of the disk; after one, no shutdown is clean (rule 31)
    storage_error: str | None = None

    def note_storage_error(self, doing: str, path: str, error: OSError) -> None:
        log.error("storage_error", doing=doing, path=path, errno=error.errno, error=error.strerror)
        if self.storage_error is None:
            self.storage_error = f"{doing} {path}: {error}"
