"""The ghost of what is committed in a compacted topic: of every key the last word counts (rule 48).

A log holds it up to an offset if it covers all offsets, epoch by epoch, and each record is there unchanged or
is missing for a reason:

- a later record of its key is committed;
- it is a tombstone that was committed ``delete.retention.ms`` ago, or longer.

So who holds all that is committed has the last word on every key, whatever was compacted there. One thing
more must never be: a tombstone is gone and something that it deleted is not. Then a key is back that had been
deleted, and will never go again (``resurrected``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from quorate.chaos.invariants.copies import Batch, CommittedLog, Copy, KeyedRecord
from quorate.core.ids import LeaderEpoch, Offset

__all__ = ["CompactedLog"]

#: clocks may run a little fast (``faults.clocks``)
_HASTE: Final = 0.9


class CompactedLog(CommittedLog):
    def __init__(self, *, now_s: Callable[[], float], delete_retention_s: float) -> None:
        super().__init__()
        self._now_s = now_s
        self._delete_retention_s = _HASTE * delete_retention_s
        #: committed offsets of each key, ascending
        self._offsets: dict[bytes, list[Offset]] = {}
        #: when tombstones were committed
        self._deleted_s: dict[Offset, float] = {}
        #: a record that a copy holds although it was deleted; set when a copy is compared
        self.resurrected: KeyedRecord | None = None

    def extend(self, batches: Iterable[Batch], epoch: LeaderEpoch) -> None:
        fresh = list(batches)
        super().extend(fresh, epoch)
        for batch in fresh:
            for record in batch.records:
                self._offsets.setdefault(record.key, []).append(record.offset)
                if record.value is None:
                    self._deleted_s[record.offset] = self._now_s()

    def cut_to(self, offset: Offset) -> list[Batch]:
        given_up = super().cut_to(offset)
        for batch in given_up:
            for record in reversed(batch.records):
                self._offsets[record.key].remove(record.offset)
        return given_up

    def _holds(self, copy: Copy, batch: Batch) -> bool:
        if super()._holds(copy, batch):
            return True
        held = copy.covering(batch.base_offset)
        if held is None or held.next_offset < batch.next_offset or held.epoch != batch.epoch:
            return False
        left = {
            record.offset: record
            for record in held.records
            if batch.base_offset <= record.offset < batch.next_offset
        }
        for record in batch.records:
            found = left.pop(record.offset, None)
            if found is None and not self._may_be_gone(copy, record):
                return False
            if found is not None and found != record:
                return False
        return not left

    def _may_be_gone(self, copy: Copy, record: KeyedRecord) -> bool:
        offsets = self._offsets.get(record.key, ())
        if offsets and offsets[-1] > record.offset:
            return True
        if record.value is not None:
            return False
        if self._now_s() - self._deleted_s[record.offset] < self._delete_retention_s:
            return False
        for offset in offsets:
            if copy.log_start_offset <= offset < record.offset:
                self.resurrected = copy.record_at(offset) or self.resurrected
        return True
