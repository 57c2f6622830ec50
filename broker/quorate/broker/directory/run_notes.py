"""What a broker's processes leave for the next one: the facts that rule 30 is judged by.

One file holds all of it, and is replaced as a whole, so no two statements of it can be of different times.

- ``broker_epoch``, ``directory_id``, ``boot_id``, ``file_system_id``: of the last process that got as far as
  to serve. On the device before it asks to be unfenced, so whatever was ever acknowledged from this directory
  was acknowledged by the epoch in the notes, or before.
- ``is_clean``: that process stopped with everything on the device, and nothing was appended since. It is
  the marker of a clean stop. It goes when the next epoch is noted and not before: until then the new
  process has no epoch, and so neither leads nor follows. A marker that went at the first sign of life would
  make a power loss during a start look like one during a run, and with all brokers starting at once every
  partition would be offline.
- ``storage_error``: the first that this or an earlier process met since then. What a failed sync has lost is
  still in the page cache and looks well; this is what keeps the next start from relying on it.
- ``unsound_logs``: where opening found more than a torn tail. On the device before the log is cut or
  marked: a process that dies on the way leaves a log that looks like any other.
- ``unnoted_incarnation_ids``: processes that came after it, may have registered, and ended before they could
  note an epoch. See ``quorate.controller.previous_run``.

What is written in a hurry (a storage error) goes to the page cache alone. That is enough: only a power loss
takes it away, and then another boot id says as much.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Final

from quorate.core.disk import Disk
from quorate.core.ids import BrokerEpoch
from quorate.core.logging import get_logger
from quorate.storage import LogContext, StartKind
from quorate.storage.checkpoint import DamagedCheckpoint, read_checkpoint, write_cached, write_durably
from quorate.storage.data_directory_files import RUN_NOTES_NAME

__all__ = ["NO_BROKER_EPOCH", "RunNotes", "RunNotesFile", "read_run_notes", "start_kind_of"]

log = get_logger(__name__)

#: no process has ever served from this directory
NO_BROKER_EPOCH: Final = BrokerEpoch(-1)

#: The oldest is forgotten then. If just that one was registered, the next start counts as a stranger's.
_UNNOTED_MAX: Final = 1000


@dataclass(frozen=True, slots=True)
class RunNotes:
    directory_id: str
    broker_epoch: BrokerEpoch
    boot_id: str
    file_system_id: str
    is_clean: bool
    storage_error: str | None = None
    #: names of their directories
    unsound_logs: tuple[str, ...] = ()
    unnoted_incarnation_ids: tuple[str, ...] = ()

    @property
    def is_history(self) -> bool:
        """Whether a process was here that the controller may know."""
        return self.broker_epoch != NO_BROKER_EPOCH or bool(self.unnoted_incarnation_ids)

    def with_incarnation(self, incarnation_id: str) -> RunNotes:
        ids = (*self.unnoted_incarnation_ids, incarnation_id)
        return replace(self, unnoted_incarnation_ids=ids[-_UNNOTED_MAX:])

    def with_unsound_log(self, name: str) -> RunNotes:
        return replace(self, unsound_logs=tuple(sorted({*self.unsound_logs, name})))


def start_kind_of(notes: RunNotes, *, is_same_boot: bool) -> StartKind:
    """How far this process may trust the logs it finds. Of the notes as they were found."""
    if notes.storage_error is not None:
        return StartKind.LOSSY
    if notes.is_clean:
        return StartKind.CLEAN
    return StartKind.PROCESS_CRASH if is_same_boot else StartKind.LOSSY


class RunNotesFile:
    """The notes as they stand, in memory and on disk."""

    def __init__(self, context: LogContext, directory: str, notes: RunNotes) -> None:
        self._disk = context.disk
        self._clock = context.clock
        self._directory = directory
        self._path = f"{directory}/{RUN_NOTES_NAME}"
        self._changing = asyncio.Lock()
        #: the first error that this process met
        self._storage_error: str | None = None
        #: False where there was no room for the file: then there is none, and the next start is a stranger's
        self._is_kept = True
        self.notes = notes

    async def change(self, change: Callable[[RunNotes], RunNotes]) -> None:
        """On the device when this returns. After an OSError either the old notes stand or the new ones."""
        async with self._changing:
            notes = change(self.notes)
            if notes.storage_error is None:
                notes = replace(notes, storage_error=self._storage_error)
            try:
                await write_durably(self._disk, self._path, asdict(notes), clock=self._clock)
                self.notes, self._is_kept = notes, True
            finally:
                if self._storage_error is not None and self.notes.storage_error is None:
                    # Met while the file was being written.
                    self._save_storage_error()

    def note_storage_error(self, error: str) -> None:
        """At once, whatever the process is doing: it may be about to end."""
        self._storage_error = error
        if self._changing.locked():
            # The file is being replaced. Until it is, and tells of the error, better none.
            self._unlink()
        else:
            self._save_storage_error()

    def _save_storage_error(self) -> None:
        self.notes = replace(self.notes, storage_error=self.notes.storage_error or self._storage_error)
        if not self._is_kept:
            return
        try:
            write_cached(self._disk, self._path, asdict(self.notes))
        except OSError:
            # Better none than notes that are too good. Also for want of a descriptor: the error has to be
            # known at the next start (rule 31), and without one nothing can be done but take the name away.
            self._unlink()

    def _unlink(self) -> None:
        # If not even this can be done, nothing can.
        with suppress(OSError):
            self._disk.unlink(self._path)

    async def drop(self, notes: RunNotes) -> None:
        """Go on without the file, which is gone from the device when this returns."""
        async with self._changing:
            if self._disk.exists(self._path):
                self._disk.unlink(self._path)
            await self._disk.fsync_directory(self._directory)
            self.notes, self._is_kept = notes, False


def read_run_notes(disk: Disk, directory: str) -> RunNotes | None:
    """None where there are none, or none that can be believed."""
    try:
        state = read_checkpoint(disk, f"{directory}/{RUN_NOTES_NAME}")
    except DamagedCheckpoint as damaged:
        log.error("run_notes_damaged", path=damaged.path, reason=damaged.reason)
        return None
    if state is None:
        return None
    for name in ("unsound_logs", "unnoted_incarnation_ids"):
        state[name] = tuple(state[name])
    return RunNotes(**state)
