"""The device witness: a number that is on the device before anybody is told of it.

Problem: a directory that is put back from a copy looks like what a crash or a power loss has left. If the
copy was made during the last run, its notes name the right epoch; and that its cache witness is an old one
tells of a lost page cache, no more (``cache_witness``). What was synced would be taken to be there.

So a broker writes a number to a file of its own, one higher now and then, syncs it, and only then lets its
heartbeats carry it to the controller, which puts it on record. What the directory is known to have had on its
device it must have at every later start: neither a crash nor a power loss takes it away. A lower number
proves that this is an older state of the directory (rule 30), of which nothing can be relied on.

It accuses only if it is right, for a broker that is accused wrongly may be the last one that has everything:

- A number is told once its sync has succeeded, and never if that failed (rule 45) or the write did.
- The next number is written after that, over the one before. So whatever a power loss tears, the highest
  number that was told stays as it is. One sync is under way at a time; whoever asks for another waits for it.
- A start syncs what it has found before it says so: the process before may have written that, and not synced.
- The slots are as large as the largest unit that devices write, and no damage to one concerns the other.
- No file, since there was no room to make it, means that no number was ever told. Lost or damaged it reads
  like that, too, and is then below what is on record.
- Numbers never go back: a process goes on from what it has found. It begins to once it has registered: a
  start that comes to nothing must not write the evidence over.

What it does not catch: a copy that holds the last number which the controller knows of. That is one as old as
one interval, one heartbeat and one record of the controller, or less; without a quorum nobody hears of
numbers, and the time grows until there is one again. A copy is as old as this file in it: one that is made of
a directory in use, file by file, may hold logs that are older by what the copying took.

Rejected:

- To sync the cache witness: it would survive what the logs do not, which is all that it is there to tell.
- A number in the notes of the run: they are replaced as a whole, which needs room on the disk each time.
- To compare the ends of logs with what the controller knows: it knows none, and would have to be told of
  every partition what this says with one number.
"""

from __future__ import annotations

import asyncio
from typing import Final

from quorate.broker.directory.number_file import NumberFile, NumberLayout
from quorate.core.disk import lacks_descriptors
from quorate.core.logging import get_logger
from quorate.storage import LogContext
from quorate.storage.data_directory_files import DEVICE_WITNESS_NAME
from quorate.storage.log_context import is_disk_full

__all__ = ["DEVICE_WITNESS_LAYOUT", "NONE_FOUND", "DeviceWitness"]

log = get_logger(__name__)

#: physical sectors have up to so many bytes: half of one that is torn takes the other half with it
DEVICE_WITNESS_LAYOUT: Final = NumberLayout(b"device-1", slot_bytes=4096)
#: below every number that is ever told
NONE_FOUND: Final = 0


class DeviceWitness:
    """``found``: the number that an earlier process left; NONE_FOUND: there is none, or none to be read."""

    def __init__(self, context: LogContext, directory: str) -> None:
        """Reads the file. ``OSError`` where the disk cannot tell."""
        self._context = context
        self._file = NumberFile(context.disk, directory, DEVICE_WITNESS_NAME, DEVICE_WITNESS_LAYOUT)
        self.found = NONE_FOUND if self._file.found is None else self._file.found
        self._advancing: asyncio.Task[None] | None = None
        #: on the device, with every number below it (inclusive)
        self._synced = NONE_FOUND

    async def begin(self) -> None:
        """What was found is on the device when this returns, and a missing file made."""
        await self._file.open()
        self._synced = self.found

    @property
    def number(self) -> int | None:
        """For a heartbeat: the highest one that is on the device. None: there is none yet, or no file."""
        return self._synced or None

    async def advance(self) -> None:
        """The next number is on the device when this returns, if the disk has taken it."""
        if self._advancing is None:
            if not self._file.is_open:
                return
            self._advancing = asyncio.create_task(self._advance(), name="device-witness")
        # Who gives up must not leave a number half way, and the next one be written over the one before.
        await asyncio.shield(self._advancing)

    async def _advance(self) -> None:
        number = self._synced + 1
        try:
            self._file.write(number)
            await self._file.sync()
        except OSError as error:
            # A full disk: on a file system that never writes in place. Without a descriptor the device was
            # not asked. Either way the number before stands, and the next attempt writes the same one again.
            if is_disk_full(error) or lacks_descriptors(error):
                log.warning("device_witness_not_advanced", path=self._file.path, error=str(error))
                return
            self._context.note_storage_error("advance", self._file.path, error)
            return
        finally:
            self._advancing = None
        self._synced = number

    async def close(self) -> None:
        """Nobody is told any more. A number that is being written may be there afterwards, or not."""
        if self._advancing is not None:
            await asyncio.wait([self._advancing])
        self._file.close()
