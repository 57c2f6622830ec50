"""The journal: every entry that this voter has answered for.

Entries wait in memory until ``sync`` writes all of them as one group, by one call, and makes that group
durable by one sync, however many callers wait for it (group commit). A process that dies forgets what
waits; nobody was told of it.

The invariant that recovery stands on (see ``journal_recovery``): *a group is written only after the one
before it is durable*. Writing on while a sync is under way was rejected: it saves no sync, and after a
power loss the later write may be there without the earlier one, which cannot be told from damage.

Nothing that counts is ever changed in place. Entries that replace others are appended like any others, and
files are only removed as a whole, from the oldest on, once two snapshots stand for all that is in them: a
damaged snapshot must not be the end of a voter.

A write or a sync that fails leaves nobody knowing what the device holds. The error goes to the caller, who
ends the process (rule 45); until then the journal takes nothing more. The next start writes the last group
once more before it counts: what a failed sync has lost is still in the page cache and looks well. What
lacked a file descriptor, to begin a new file or to sync its name, was not even tried: the next ``sync`` does.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from quorate.core.disk import Disk, File, lacks_descriptors
from quorate.metadata.raft.entries import Entry, Index, SnapshotId
from quorate.metadata.raft.journal_format import encode_group
from quorate.metadata.raft.journal_mark import SyncedMark
from quorate.metadata.raft.journal_recovery import FIRST_GROUP, Recovered, SegmentFile, segment_name

__all__ = ["SEGMENT_BYTES", "Journal", "create_journal"]

#: when a new file is begun. Smaller files are removed sooner after a snapshot
SEGMENT_BYTES: Final = 16 << 20


async def create_journal(disk: Disk, directory: str) -> None:
    """Make the first file, empty: from now on a directory without any has lost its journal."""
    disk.open(f"{directory}/{segment_name(FIRST_GROUP)}", create=True).close()
    await disk.fsync_directory(directory)


class Journal:
    """Belongs to one event loop."""

    def __init__(self, disk: Disk, directory: str, recovered: Recovered, *, segment_bytes: int) -> None:
        """For ``open``."""
        self._disk = disk
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._segments = recovered.segments
        self._next_number = recovered.next_number
        #: no entry may leave a gap behind it
        self._last_index = recovered.replay.last_index
        self._file = disk.open(self._path_of(self._active))
        self._mark = SyncedMark(disk, directory)
        # What waits to be written.
        self._restart_after: SnapshotId | None = None
        self._waiting: list[Entry] = []
        # What was written, and is not known to be durable.
        self._is_unsynced = False
        self._is_name_unsynced = False
        self._syncing = asyncio.Lock()
        self._error: OSError | None = None

    @classmethod
    async def open(
        cls, disk: Disk, directory: str, recovered: Recovered, *, segment_bytes: int = SEGMENT_BYTES
    ) -> Journal:
        """Make durable what was recovered, and nothing behind it."""
        journal = cls(disk, directory, recovered, segment_bytes=segment_bytes)
        try:
            # Even where nothing is to be cut: an earlier start may have failed to sync that it did.
            journal._file.truncate(journal._active.size)
            if recovered.last_group:
                journal._file.pwrite(recovered.last_group, recovered.last_group_position)
            await journal._file.fdatasync()
            # Lower than it was, where the end was found to be gone: that is on record by now.
            journal._mark.set(journal._next_number - 1)
        except BaseException:
            journal.close()
            raise
        return journal

    def append(self, entries: Sequence[Entry]) -> None:
        """Take entries; those from the first one's index on, written or waiting, are replaced."""
        if not entries:
            return
        first = entries[0].index
        assert 1 <= first <= self._last_index + 1, (
            f"entry {first} would leave a gap behind {self._last_index}"
        )
        if self._waiting:
            del self._waiting[max(0, first - self._waiting[0].index) :]
        self._waiting.extend(entries)
        self._last_index = entries[-1].index

    def restart_after(self, snapshot: SnapshotId) -> None:
        """Drop what the journal holds, unless it agrees with the snapshot. Durable with the next sync."""
        assert not self._waiting, (
            "the order of what is appended and what is installed is the caller's to keep"
        )
        self._restart_after = snapshot
        self._last_index = max(self._last_index, snapshot.index)

    async def sync(self) -> None:
        """Returns once all that was appended before the call is durable."""
        async with self._syncing:
            # An earlier call was cancelled: nothing may be written before that is made good.
            if self._is_unsynced:
                await self._sync_file()
            # One group, not all that arrives meanwhile: who comes later waits for the next one.
            if self._waiting or self._restart_after is not None:
                self._write_group()
                await self._sync_file()

    async def trim(self, up_to: Index) -> None:
        """Remove files, from the oldest on, whose entries all have an index of at most ``up_to``.

        The one that is written to stays. What remains starts at ``up_to`` + 1 at the latest.
        """
        count = 0
        while count < len(self._segments) - 1 and self._segments[count].highest_index <= up_to:
            count += 1
        if count == 0:
            return
        removed, self._segments = self._segments[:count], self._segments[count:]
        for segment in removed:
            self._disk.unlink(self._path_of(segment))
        await self._disk.fsync_directory(self._directory)

    def close(self) -> None:
        """What waits is forgotten."""
        self._file.close()
        self._mark.close()

    # --- the one group under way ----------------------------------------------------------------------

    @property
    def _active(self) -> SegmentFile:
        return self._segments[-1]

    def _path_of(self, segment: SegmentFile) -> str:
        return f"{self._directory}/{segment_name(segment.first_number)}"

    @contextmanager
    def _remembering_failure(self) -> Iterator[None]:
        if self._error is not None:
            raise OSError(errno.EIO, f"the journal failed before: {self._error}", self._directory)
        try:
            yield
        except OSError as error:
            if not lacks_descriptors(error):
                self._error = error
            raise

    def _write_group(self) -> None:
        restart_after, entries = self._restart_after, self._waiting
        with self._remembering_failure():
            if self._active.size >= self._segment_bytes:
                self._roll()
            segment = self._active
            buffers = encode_group(self._next_number, restart_after, entries)
            self._is_unsynced = True
            self._file.pwritev(buffers, segment.size)
        self._restart_after, self._waiting = None, []
        self._next_number += 1
        segment.size += sum(map(len, buffers))
        for spoken_of in (restart_after, entries[-1] if entries else None):
            if spoken_of is not None:
                segment.highest_index = max(segment.highest_index, spoken_of.index)

    def _roll(self) -> None:
        segment = SegmentFile(self._next_number)
        file: File = self._disk.open(self._path_of(segment), create=True)
        self._file.close()
        self._file = file
        self._segments.append(segment)
        self._is_name_unsynced = True

    async def _sync_file(self) -> None:
        with self._remembering_failure():
            await self._file.fdatasync()
            if self._is_name_unsynced:
                await self._disk.fsync_directory(self._directory)
            self._mark.set(self._next_number - 1)
        self._is_name_unsynced = False
        self._is_unsynced = False
