"""The cache witness: a number that only the page cache holds, and somebody elsewhere knows.

Problem: after a process crash all that was appended is there, because the page cache outlives the process.
That it is still the same page cache cannot be seen from the disk. A boot id tells of a reboot; but a volume
that is detached and attached again, a file system that was shut down and mounted anew, lose every page that
was not written back, in the same boot and with the same ids. What is left is without a flaw, and a note of
the storage error would have gone to the same disk.

So a number is written to a file before each heartbeat, without a sync, and the heartbeat carries it to the
controller. A later process tells which number it has found. A lower one than the controller has heard proves
that this is not the cache which was written to (rule 30). Numbers never go back: a process goes on from what
it has found.

- A number is told only once it is written, or could not be: then it speaks against this disk, as it should.
- It is synced in two places only, each after all logs were: at the end of a start, and before the marker of a
  clean stop. Anywhere else a sync would let it survive what the logs do not.
- Where there is no room to make the file (``number_file``), there is none, and nothing is told.

What it does not catch: the kernel may write this page back of its own accord, and not those of the logs, in
the time between the last number that somebody remembers and the loss. While heartbeats are answered that is
one heartbeat's interval in thirty seconds or so, or the second until the number is on record where the active
controller goes down with the broker (``quorate.controller.heard_witnesses``). Without a quorum nobody hears
of numbers, while brokers go on to acknowledge; there the time grows until there is one again. And a volume
that has no room for new blocks may take this page, which has its block, and lose those of the logs, which
have none: only a sync tells of that.

Rejected: the id of the mount. It is another one for each container, and a crash of all containers at once
would leave every partition offline.
"""

from __future__ import annotations

from typing import Final

from quorate.broker.directory.number_file import NumberFile, NumberLayout
from quorate.storage import LogContext
from quorate.storage.data_directory_files import CACHE_WITNESS_NAME
from quorate.storage.log_context import is_disk_full

__all__ = ["CACHE_WITNESS_LAYOUT", "CacheWitness"]

CACHE_WITNESS_LAYOUT: Final = NumberLayout(b"witness1", slot_bytes=512)
_FIRST_NUMBER: Final = 0


class CacheWitness:
    """``found``: the number that an earlier process left; None: there is none, or none that can be read."""

    def __init__(self, context: LogContext, directory: str) -> None:
        """Reads the file. ``OSError`` where the disk cannot tell."""
        self._context = context
        self._file = NumberFile(context.disk, directory, CACHE_WITNESS_NAME, CACHE_WITNESS_LAYOUT)
        self.found = self._file.found
        self._number = _FIRST_NUMBER if self.found is None else self.found

    async def begin(self) -> None:
        """Every log is on the device: what was found may be so, too, and a missing file be made."""
        await self._file.open()

    def advance(self) -> int | None:
        """For the heartbeat that leaves now: the number that is in the page cache. None: there is no file."""
        if not self._file.is_open:
            return None
        number = self._number + 1
        try:
            self._file.write(number)
        except OSError as error:
            if is_disk_full(error):
                # On a file system that never writes in place. The number before still stands.
                return self._number
            # Told all the same: a disk that cannot show it again has lost it.
            self._context.note_storage_error("write", self._file.path, error)
        self._number = number
        return number

    async def seal(self) -> None:
        """Every log is on the device for good. The number is, too, when this returns, and stays as it is."""
        if self._file.is_open:
            try:
                await self._file.sync()
            finally:
                self.close()

    def close(self) -> None:
        """As the end of the process would."""
        self._file.close()
