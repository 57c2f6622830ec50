"""A partition log that is a list: what a leadership needs of one, without files.

One record to a batch, so offsets are indexes. Everything survives but what the test takes away.
"""

from __future__ import annotations

from typing import NamedTuple, cast

from quorate.core.disk import Bytes
from quorate.core.ids import LeaderEpoch, Offset, TimestampMs
from quorate.errors import QuorateError
from quorate.storage import Appended, PartitionLog
from quorate.storage.leader_epochs import EpochEnd

__all__ = ["Entry", "PlainLog"]


class Entry(NamedTuple):
    leader_epoch: int
    value: bytes


class PlainLog:
    def __init__(self) -> None:
        self.entries: list[Entry] = []
        #: (leader epoch, first offset), as a leader noted them or a follower found them
        self.epochs: list[tuple[int, int]] = []
        self.is_being_cut = False
        self.failure: QuorateError | None = None
        self.log_start_offset = Offset(0)
        #: what lies before it is past its retention
        self.expired = Offset(0)

    def as_log(self) -> PartitionLog:
        return cast(PartitionLog, self)

    @property
    def log_end_offset(self) -> Offset:
        return Offset(len(self.entries))

    @property
    def recovery_point(self) -> Offset:
        return self.log_end_offset

    @property
    def latest_leader_epoch(self) -> LeaderEpoch:
        return LeaderEpoch(self.epochs[-1][0] if self.epochs else -1)

    @property
    def earliest_leader_epoch(self) -> LeaderEpoch:
        return LeaderEpoch(self.epochs[0][0] if self.epochs else -1)

    @property
    def last_fetched_epoch(self) -> int:
        return self.entries[-1].leader_epoch if self.log_start_offset < self.log_end_offset else -1

    def leader_epoch_at(self, offset: Offset) -> LeaderEpoch:
        return LeaderEpoch(max((epoch for epoch, start in self.epochs if start <= offset), default=-1))

    def reject_epochs_beyond(self, newest: LeaderEpoch) -> None:
        """Nothing rots here."""
        assert self.latest_leader_epoch <= newest

    def expired_below(self, *, high_watermark: Offset) -> Offset:
        return max(self.log_start_offset, min(self.expired, high_watermark))

    def become_leader(self, leader_epoch: LeaderEpoch) -> None:
        self._assign(leader_epoch, len(self.entries))

    def note_complete(self) -> None:
        """Nothing is compacted here."""

    def append_as_leader(self, batch: Bytes, *, leader_epoch: LeaderEpoch) -> Appended:
        offset = self.log_end_offset
        assert leader_epoch == self.latest_leader_epoch
        self.entries.append(Entry(leader_epoch, bytes(batch)))
        return Appended(offset, offset, TimestampMs(0))

    def find_duplicate(self, _batch: Bytes) -> Appended | None:
        """Producers without numbers."""
        return None

    def append_as_follower(self, entries: list[Entry]) -> None:
        for entry in entries:
            # Also where an epoch stands without records: this replica led, and wrote nothing.
            if entry.leader_epoch != self.latest_leader_epoch:
                self._assign(entry.leader_epoch, len(self.entries))
            self.entries.append(entry)

    def _assign(self, leader_epoch: int, offset: int) -> None:
        self.epochs = [each for each in self.epochs if each[1] < offset]
        assert not self.epochs or self.epochs[-1][0] <= leader_epoch
        if not self.epochs or self.epochs[-1][0] < leader_epoch:
            self.epochs.append((leader_epoch, offset))

    def advance_log_start(self, offset: Offset) -> None:
        """What is gone is known to nobody: neither which epochs there were, nor where they ended."""
        self.log_start_offset = offset
        in_force = [epoch for epoch, start in self.epochs if start <= offset][-1:]
        later = [each for each in self.epochs if each[1] > offset]
        self.epochs = [(epoch, offset) for epoch in in_force] + later

    def reset_to(self, log_start_offset: Offset, leader: PlainLog) -> None:
        """Begin where the leader begins. What lies before that is kept, to count offsets by."""
        self.log_start_offset = log_start_offset
        self.entries = leader.entries[:log_start_offset]
        self.epochs = []

    def truncate_to(self, offset: int) -> None:
        del self.entries[offset:]
        self.epochs = [each for each in self.epochs if each[1] < offset]

    def end_of_epoch(self, leader_epoch: LeaderEpoch) -> EpochEnd | None:
        if leader_epoch > self.latest_leader_epoch or not self.epochs:
            return None
        if leader_epoch == self.latest_leader_epoch:
            return EpochEnd(leader_epoch, self.log_end_offset)
        known = [each for each in self.epochs if each[0] <= leader_epoch]
        following = self.epochs[len(known)]
        return EpochEnd(LeaderEpoch(known[-1][0] if known else leader_epoch), Offset(following[1]))

    def validate(self) -> None:
        epochs = [entry.leader_epoch for entry in self.entries]
        assert epochs == sorted(epochs)
