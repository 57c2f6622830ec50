"""Batches on their way into the log by one write.

Staging gives each batch its offset and tells the producer state of it, so that a second batch of
the same producer in the group is judged after the first. If the write then fails, ``undo`` takes
all of that back: the log is as if nobody had asked.

If it failed for want of room, some batches of the group may lie whole in the file. They count. Cutting
them off again is not enough: until the cut is on the device a power loss can undo it, and a batch that
was refused would be back where another replica has the one that came after it, in the same epoch, so
that nothing would ever tell the two apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from quorate.core.disk import Bytes
from quorate.core.ids import LeaderEpoch, Offset, ProducerId, TimestampMs
from quorate.core.records import LEADER_EPOCH_END, BatchHeader, scan_batches, stamped_prefix
from quorate.storage.leader_epochs import EpochStart
from quorate.storage.producer_state import ProducerEntry, ProducerStates
from quorate.storage.segment import Segment

__all__ = ["AppendGroup", "Appended"]


class Appended(NamedTuple):
    """Where a batch lies in the log."""

    base_offset: Offset
    #: inclusive
    last_offset: Offset
    max_timestamp: TimestampMs
    #: it was there before: an idempotent producer's retry
    is_duplicate: bool = False


class AppendGroup:
    __slots__ = (
        "_producers",
        "_staged",
        "_undo",
        "base_offset",
        "buffers",
        "epochs_before",
        "members",
        "next_offset",
        "size",
    )

    def __init__(self, producers: ProducerStates, next_offset: Offset) -> None:
        self._producers = producers
        self._staged: list[tuple[BatchHeader, Offset]] = []
        #: producer entries as they were before the group, in the order they were replaced
        self._undo: list[tuple[ProducerId, ProducerEntry | None]] = []
        #: the leader epochs as they were before the group, if it brought a new one
        self.epochs_before: list[EpochStart] | None = None
        self.buffers: list[Bytes] = []
        #: which of the caller's outcomes hold only if the write succeeds
        self.members: list[int] = []
        self.size = 0
        self.base_offset = self.next_offset = next_offset

    def add_stamped(self, header: BatchHeader, batch: Bytes, leader_epoch: LeaderEpoch) -> None:
        """A client's batch: stamp offset and epoch into its first bytes, copy nothing else.

        To be called before the batch is staged, while ``next_offset`` is still its own.
        """
        prefix = stamped_prefix(header, base_offset=self.next_offset, leader_epoch=leader_epoch)
        self.buffers += (prefix, memoryview(batch)[LEADER_EPOCH_END:])

    def stage(self, header: BatchHeader) -> Appended:
        """Give the batch its place in the log; its bytes go to ``buffers``."""
        base_offset = self.next_offset
        if header.producer_id >= 0:
            producer_id = header.producer_id
            self._undo.append((producer_id, self._producers.get(producer_id)))
            self._producers.apply(header, base_offset)
        last_offset = Offset(base_offset + header.last_offset_delta)
        self._staged.append((header, last_offset))
        self.size += header.size_in_bytes
        self.next_offset = Offset(last_offset + 1)
        return Appended(base_offset, last_offset, header.max_timestamp)

    def write_to(self, segment: Segment) -> None:
        """One write; then, and only then, the batches count."""
        segment.write(self.buffers)
        self._count(segment, self._staged)

    def keep_what_fitted(self, segment: Segment) -> None:
        """The disk was full in the middle of the write: batches that lie whole in the file count."""
        fitted = scan_batches(segment.file.pread(self.size, segment.size)).headers
        self._count(segment, self._staged[: len(fitted)])
        del self._undo[: sum(header.producer_id >= 0 for header in fitted)]

    @staticmethod
    def _count(segment: Segment, staged: Sequence[tuple[BatchHeader, Offset]]) -> None:
        add_batch = segment.add_batch
        for header, last_offset in staged:
            add_batch(
                last_offset=last_offset,
                size_in_bytes=header.size_in_bytes,
                max_timestamp=header.max_timestamp,
            )

    def undo(self) -> None:
        """Forget what producers wrote by the batches that do not count."""
        while self._undo:
            self._producers.restore(*self._undo.pop())
