"""A leader's batches on their way into a follower's log by one write.

Staging counts each batch and tells the producer state of it. If the write then fails, ``undo`` takes
all of that back: the log is as if nobody had asked.

If it failed for want of room, some batches of the group may lie whole in the file. They count. Cutting
them off again is not enough: until the cut is on the device a power loss can undo it, and a batch that
was refused would be back where another replica has the one that came after it, in the same epoch, so
that nothing would ever tell the two apart.
"""

from __future__ import annotations

from collections.abc import Sequence

from quorate.core.disk import Bytes
from quorate.core.ids import Offset, ProducerId
from quorate.core.records import BatchHeader, scan_batches
from quorate.storage.leader_epochs import EpochStart
from quorate.storage.producer_state import ProducerEntry, ProducerStates
from quorate.storage.segment import Segment

__all__ = ["AppendGroup"]


class AppendGroup:
    __slots__ = (
        "_producers",
        "_staged",
        "_undo",
        "base_offset",
        "epochs_before",
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
        self.size = 0
        self.base_offset = self.next_offset = next_offset

    def stage(self, header: BatchHeader) -> None:
        """Take in the batch that goes to ``next_offset``."""
        base_offset = self.next_offset
        if header.producer_id >= 0:
            self._undo.append((header.producer_id, self._producers.apply(header, base_offset)))
        last_offset = Offset(base_offset + header.last_offset_delta)
        self._staged.append((header, last_offset))
        self.size += header.size_in_bytes
        self.next_offset = Offset(last_offset + 1)

    def write_to(self, segment: Segment, batches: Bytes) -> None:
        """One write of all that was staged; then, and only then, the batches count."""
        segment.write((batches,))
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
