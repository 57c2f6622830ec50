"""Which leader epoch wrote which offsets (rule 5).

Truncation after a failover is decided by this cache and never by the high watermark, so it has to
be right after any crash. Each entry says: from ``start_offset`` on, batches carry ``epoch``, until
the next entry. Both columns strictly increase.

The checkpoint reaches the page cache before the first batch of a new epoch is appended. So after a
process crash every batch's epoch is in the checkpoint, and one that is not is damage: the epoch
field lies outside the batch's own checksum, and this is what guards it. After a power loss the
checkpoint may be old or gone, and is rebuilt from the batches.

Nobody waits for the device when an election is won. What a power loss can take is the record of an epoch
whose first batch was not synced either, as a flush syncs the batches and then this file. A follower never
saw that epoch in an answer that still counts: a ``replicated`` replica is out of the ISR after a power
loss (rule 30), and one of an ``fsync`` topic has answered for nothing above its last flush. An epoch
without any batch divides nothing from nothing; a start drops it anyway, and whoever leads next gets a new
one. Syncing here was rejected: a broker that dies leaves hundreds of partitions to one successor, whose
first answers would wait for as many syncs in a row.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any, Final, NamedTuple

from quorate.core.disk import Disk
from quorate.core.ids import NO_LEADER_EPOCH, LeaderEpoch, Offset
from quorate.storage.checkpoint import read_checkpoint, write_cached
from quorate.storage.file_writes import sync_file

__all__ = ["EPOCH_CHECKPOINT_NAME", "EpochEnd", "EpochStart", "LeaderEpochCache"]

EPOCH_CHECKPOINT_NAME: Final = "leader-epoch-checkpoint"
_BEYOND_ALL_OFFSETS: Final = Offset((1 << 63) - 1)


class EpochStart(NamedTuple):
    epoch: LeaderEpoch
    start_offset: Offset


class EpochEnd(NamedTuple):
    """Where an epoch ends: the answer to a follower's question (rule 8)."""

    epoch: LeaderEpoch
    end_offset: Offset


class LeaderEpochCache:
    __slots__ = ("_dirty", "_disk", "_epochs", "_path", "_starts", "is_saved", "latest")

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._epochs: list[LeaderEpoch] = []
        self._starts: list[Offset] = []
        #: looked at by every append
        self.latest = NO_LEADER_EPOCH
        #: in the page cache, not yet known to be on the device
        self._dirty = False
        #: the file says the same; if it names an epoch that was taken back, a batch of another epoch
        #: at that offset would pass for damage after a crash
        self.is_saved = True

    @property
    def entries(self) -> list[EpochStart]:
        return [EpochStart(*pair) for pair in zip(self._epochs, self._starts, strict=True)]

    @property
    def earliest(self) -> LeaderEpoch:
        """Of earlier ones nothing is left: neither where they began nor which there were."""
        return self._epochs[0] if self._epochs else NO_LEADER_EPOCH

    def assign(self, epoch: LeaderEpoch, start_offset: Offset) -> bool:
        """Batches from ``start_offset`` on carry ``epoch``. True if that was news.

        Epochs that start there or later have no batch and are dropped, even newer ones: a leader
        notes its epoch before its first batch (rule 6), and may lose leadership before writing one.
        """
        keep = self._count_below(start_offset)
        before = self._epochs[keep - 1] if keep else NO_LEADER_EPOCH
        assert epoch >= before, "leader epochs never decrease along the log"
        news = [epoch] if epoch > before else []
        if self._epochs[keep:] == news:
            return False
        self._epochs[keep:] = news
        self._starts[keep:] = [start_offset] * len(news)
        self._changed()
        return True

    def epoch_at(self, offset: Offset) -> LeaderEpoch:
        """The epoch that a batch at this offset must carry."""
        index = bisect_right(self._starts, offset) - 1
        return self._epochs[index] if index >= 0 else NO_LEADER_EPOCH

    def next_start_after(self, offset: Offset) -> Offset:
        """Where the epoch in force at ``offset`` ends (exclusive); beyond all offsets for the last one."""
        index = bisect_right(self._starts, offset)
        return self._starts[index] if index < len(self._starts) else _BEYOND_ALL_OFFSETS

    def end_of(self, epoch: LeaderEpoch, *, log_end_offset: Offset) -> EpochEnd | None:
        """The largest epoch at or below the one asked for, and where it ends (exclusive).

        None when the cache knows nothing of it: a newer epoch than any here, or an empty cache.
        """
        if not self._epochs or epoch > self.latest:
            return None
        if epoch == self.latest:
            return EpochEnd(epoch, log_end_offset)
        index = bisect_right(self._epochs, epoch) - 1
        if index < 0:
            # Older than all that is left here: everything of it lies before the log's start.
            return EpochEnd(epoch, self._starts[0])
        return EpochEnd(self._epochs[index], self._starts[index + 1])

    def truncate_from_end(self, offset: Offset) -> bool:
        """The log now ends at ``offset``: epochs that start there or later have no batch left."""
        return self._keep(slice(0, self._count_below(offset)))

    def truncate_from_start(self, log_start_offset: Offset) -> bool:
        """The log now starts at ``log_start_offset``: keep the epoch in force there."""
        index = bisect_right(self._starts, log_start_offset) - 1
        if index < 0 or self._starts[index] == log_start_offset:
            return self._keep(slice(max(index, 0), None))
        self._keep(slice(index, None))
        self._starts[0] = log_start_offset
        self.is_saved = False
        return True

    def clear(self) -> None:
        """The file is gone, or not to be believed."""
        self.replace([])
        self._dirty = False

    def replace(self, entries: list[EpochStart]) -> None:
        self._epochs = [entry.epoch for entry in entries]
        self._starts = [entry.start_offset for entry in entries]
        self._changed()

    def _count_below(self, offset: Offset) -> int:
        """How many epochs start strictly before the offset."""
        return bisect_right(self._starts, offset - 1)

    def _keep(self, kept: slice) -> bool:
        before = len(self._epochs)
        self._epochs = self._epochs[kept]
        self._starts = self._starts[kept]
        if len(self._epochs) == before:
            return False
        self._changed()
        return True

    def _changed(self) -> None:
        self.latest = self._epochs[-1] if self._epochs else NO_LEADER_EPOCH
        self.is_saved = False

    # -- persistence

    def load(self) -> bool:
        """False where there is no checkpoint; raises DamagedCheckpoint where it is damaged."""
        state = read_checkpoint(self._disk, self._path)
        if state is None:
            return False
        self.replace([EpochStart(LeaderEpoch(e), Offset(s)) for e, s in state["epochs"]])
        self.is_saved = True
        return True

    def _state(self) -> dict[str, Any]:
        return {"epochs": [list(entry) for entry in self.entries]}

    def save_cached(self) -> None:
        """Enough against a process crash; ``sync`` makes it durable."""
        write_cached(self._disk, self._path, self._state())
        self.is_saved = True
        self._dirty = True

    def remove_file(self) -> None:
        """Better none than one that is wrong: without, the next start takes epochs from the batches."""
        if self._disk.exists(self._path):
            self._disk.unlink(self._path)
        self._dirty = False

    async def sync(self) -> None:
        if not self._dirty:
            return
        # Cleared first: an assignment during the await makes it dirty again. The file is synced as
        # it stands, not written anew, so that a sync can never put an older state over a newer one.
        self._dirty = False
        try:
            await sync_file(self._disk, self._path)
            await self._disk.fsync_directory(self._path.rpartition("/")[0])
        except OSError:
            self._dirty = True
            raise

    def validate(self) -> None:
        assert self.latest == (self._epochs[-1] if self._epochs else NO_LEADER_EPOCH)
        assert len(self._epochs) == len(self._starts)
        assert all(a < b for a, b in zip(self._epochs, self._epochs[1:], strict=False))
        assert all(a < b for a, b in zip(self._starts, self._starts[1:], strict=False))
