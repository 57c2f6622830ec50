"""How far one replica's log is committed, as far as this replica knows, and who waits to read it.

The high watermark is the exclusive end of what is committed. The leader computes it (``Leadership``), a
follower is told; the number itself outlives both roles, so it has a place of its own. It is a lower bound of
what is committed in the cluster, and never a point to truncate to (rules 8 and 18).

Invariant: log_start_offset <= high watermark <= log_end_offset, and it never moves back, with one exception:
a log that was cut below it, because an unclean leader lacks what was committed (rule 11), takes it along.
"""

from __future__ import annotations

from quorate.broker.replica.fetch_watch import FetchWatch
from quorate.core.ids import Offset
from quorate.storage import PartitionLog

__all__ = ["HighWatermark"]


class HighWatermark:
    __slots__ = ("_log", "_uncommitted_bytes", "_watches", "offset")

    def __init__(self, partition_log: PartitionLog, checkpointed: Offset) -> None:
        """``checkpointed`` is from an earlier run: the log may have been cut or trimmed since (rule 18)."""
        self._log = partition_log
        #: about the bytes between the high watermark and the end of the log, as the leader appended them
        self._uncommitted_bytes = 0
        #: an ordered set: the same events wake in the same order, in a simulation too
        self._watches: dict[FetchWatch, None] = {}
        #: exclusive
        self.offset = checkpointed
        self.clamp()

    def clamp(self) -> None:
        """The log was opened, cut or trimmed: only what it holds can be committed here."""
        self.offset = min(max(self.offset, self._log.log_start_offset), self._log.log_end_offset)

    def count_appended(self, size_in_bytes: int) -> None:
        self._uncommitted_bytes += size_in_bytes

    def advance(self, offset: Offset) -> None:
        log_end_offset = self._log.log_end_offset
        before = self.offset
        assert offset > before, "the high watermark never moves back (rule 13)"
        assert offset <= log_end_offset
        readable_bytes = self._uncommitted_bytes
        if readable_bytes and offset < log_end_offset:
            # By the share of offsets: a record of its sizes would cost every append. The sum is right
            # whenever the log is quiet, and one byte is enough for most fetches.
            readable_bytes = round(readable_bytes * (offset - before) / (log_end_offset - before))
        self._uncommitted_bytes -= readable_bytes
        self.offset = offset
        for watch in self._watches:
            watch.add_bytes(readable_bytes or 1)

    def forget_sizes(self) -> None:
        """A leadership begins or ends: what was appended in it is no longer counted."""
        self._uncommitted_bytes = 0

    def watch(self, watch: FetchWatch) -> None:
        """Report to ``watch`` what becomes readable from now on. ``unwatch`` must follow."""
        self._watches[watch] = None

    def unwatch(self, watch: FetchWatch) -> None:
        self._watches.pop(watch, None)

    def wake_watches(self) -> None:
        """Something has changed about who may read here, or nobody knows how many bytes came."""
        for watch in self._watches:
            watch.wake()
