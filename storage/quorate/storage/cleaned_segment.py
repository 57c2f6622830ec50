"""A segment in the making: what compaction leaves of one segment, or of several neighbours.

It covers their offsets without a gap. In the place of batches that are gone, however many, lies an empty one
that covers their offsets, for each leader epoch of theirs: so whoever relies on offsets that follow each
other (recovery, followers, truncation), or finds an epoch by its batches, has nothing to learn.
"""

from __future__ import annotations

import errno
import os
from typing import Final, NamedTuple

from quorate.core.ids import LeaderEpoch, Offset, TimestampMs
from quorate.core.records import FILLED_OFFSETS_MAX, BatchHeader, Buffer, filler
from quorate.storage.log_config import LogConfig
from quorate.storage.log_context import LogContext
from quorate.storage.log_files import CLEANED_SUFFIX, Span
from quorate.storage.segment import Segment

__all__ = ["CleanedSegment"]

_WRITE_BYTES: Final = 1 << 20


class _Removed(NamedTuple):
    """Neighbouring batches of one leader epoch that are gone."""

    base_offset: Offset
    #: exclusive
    next_offset: Offset
    leader_epoch: LeaderEpoch
    max_timestamp: TimestampMs


class CleanedSegment:
    def __init__(self, context: LogContext, config: LogConfig, directory: str, span: Span) -> None:
        self._disk = context.disk
        self._directory = directory
        self.span = span
        #: counts what was added, with its indexes in memory
        self.segment = Segment(
            context, config, directory, span.base_offset, path=span.path(directory, CLEANED_SUFFIX)
        )
        self.segment.forget_batches()
        self._removed: _Removed | None = None
        self._buffers: list[Buffer] = []
        self._buffered_bytes = 0
        self._written_bytes = 0
        self._file = self._disk.open(self.segment.path, create=True)
        self._file.truncate(0)

    def keep(self, header: BatchHeader, batch: Buffer) -> None:
        """``batch`` is what is left of the one with that header."""
        self._fill_in()
        assert header.base_offset == self.segment.next_offset
        self._add(batch, last_offset=header.last_offset, max_timestamp=header.max_timestamp)

    def drop(self, header: BatchHeader) -> None:
        """Nothing is left of the batch."""
        before = self._removed
        if before is not None and not _may_be_joined(before, header):
            self._fill_in()
            before = None
        if before is None:
            assert header.base_offset == self.segment.next_offset
            self._removed = _Removed(
                header.base_offset, header.next_offset, header.leader_epoch, header.max_timestamp
            )
        else:
            newest = max(before.max_timestamp, header.max_timestamp)
            self._removed = before._replace(next_offset=header.next_offset, max_timestamp=newest)

    def _fill_in(self) -> None:
        removed, self._removed = self._removed, None
        if removed is not None:
            last_offset = Offset(removed.next_offset - 1)
            batch = filler(
                base_offset=removed.base_offset,
                last_offset=last_offset,
                leader_epoch=removed.leader_epoch,
                max_timestamp=removed.max_timestamp,
            )
            self._add(batch, last_offset=last_offset, max_timestamp=removed.max_timestamp)

    def _add(self, batch: Buffer, *, last_offset: Offset, max_timestamp: TimestampMs) -> None:
        self._buffers.append(batch)
        self._buffered_bytes += len(batch)
        self.segment.add_batch(last_offset=last_offset, size_in_bytes=len(batch), max_timestamp=max_timestamp)
        if self._buffered_bytes >= _WRITE_BYTES:
            self._write()

    def _write(self) -> None:
        # Half of the room is left to appends: they must not be refused for the sake of this.
        if self._disk.free_bytes(self._directory) < self._written_bytes + 2 * self._buffered_bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.segment.path)
        self._file.pwrite(b"".join(self._buffers), self._written_bytes)
        self._written_bytes += self._buffered_bytes
        self._buffers.clear()
        self._buffered_bytes = 0

    async def finish(self) -> None:
        """Everything is added. On the device when this returns, all but the name."""
        self._fill_in()
        self._write()
        assert self.segment.next_offset == self.span.end_offset
        assert self.segment.size == self._written_bytes
        await self._file.fdatasync()
        self._file.close()

    def discard(self) -> None:
        """It is not needed, or could not be finished. Once it has another name it is the log, and stays."""
        self._file.close()
        path = self.span.path(self._directory, CLEANED_SUFFIX)
        if self.segment.path == path:
            self.segment.retire()
            if self._disk.exists(path):
                self._disk.unlink(path)


def _may_be_joined(removed: _Removed, header: BatchHeader) -> bool:
    assert header.base_offset == removed.next_offset
    is_same_epoch = header.leader_epoch == removed.leader_epoch
    return is_same_epoch and header.next_offset - removed.base_offset <= FILLED_OFFSETS_MAX
