"""Which records of a batch stay, and what becomes of the batch.

A record stays if nothing newer of its key is known. Also:

- one without a key: it is from before the topic was compacted, and nothing has replaced it. Kafka drops it;
- a tombstone, until it has been the only record of its key for ``delete.retention.ms``.

A batch that loses nothing stays as it is, byte for byte. So does one that cannot be taken apart, although its
checksum holds: it is what a client wrote, and not ours to judge. One that loses all its records stays as a
header if a producer's next sequence number is judged by it (rule 48), and else leaves only its offsets.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from quorate.core.ids import Offset
from quorate.core.records import BatchHeader, Buffer, RecordKey, decode_keys, emptied, is_filler, thinned
from quorate.errors import QuorateError
from quorate.storage.offset_map import OffsetMap
from quorate.storage.steps import Steps

__all__ = ["RECORDS_PER_STEP", "BatchCleaner", "keys_in"]

#: as many take some milliseconds to look at
RECORDS_PER_STEP: Final = 1000


def keys_in(header: BatchHeader, batch: Buffer) -> list[RecordKey]:
    """Of the records that compaction may look at."""
    if header.record_count == 0 or header.is_control:
        return []
    try:
        return decode_keys(batch)
    except QuorateError:
        return []


class BatchCleaner:
    __slots__ = (
        "_end_offset",
        "_first_dirty_offset",
        "_newest",
        "_remembered",
        "_tombstones_end",
        "has_new_tombstones",
        "records_removed",
    )

    def __init__(
        self,
        newest: OffsetMap,
        *,
        first_dirty_offset: Offset,
        end_offset: Offset,
        tombstones_end: Offset,
        remembered: Collection[int],
    ) -> None:
        # Only where every key has one record at most a tombstone deletes nothing any more.
        assert tombstones_end <= first_dirty_offset <= end_offset
        #: of the records from ``first_dirty_offset`` to ``end_offset``
        self._newest = newest
        self._first_dirty_offset = first_dirty_offset
        self._end_offset = end_offset
        #: tombstones below go (exclusive)
        self._tombstones_end = tombstones_end
        #: base offsets of batches by which producers are known
        self._remembered = remembered
        self.records_removed = 0
        #: some were met that no horizon covers yet
        self.has_new_tombstones = False

    def clean(self, header: BatchHeader, batch: Buffer) -> Steps[Buffer | None]:
        """The batch as it stays; None if it leaves nothing but its offsets."""
        if header.base_offset >= self._end_offset:
            return batch
        if header.record_count == 0:
            return self._without_records(header)
        keys = keys_in(header, batch)
        if not keys:
            return batch
        kept: list[bool] = []
        for count, record in enumerate(keys):
            if count and count % RECORDS_PER_STEP == 0:
                yield
            kept.append(self._stays(record))
        removed = len(kept) - sum(kept)
        self.records_removed += removed
        if removed == 0:
            return batch
        return self._without_records(header) if removed == len(kept) else thinned(header, batch, kept)

    def _without_records(self, header: BatchHeader) -> bytes | None:
        if is_filler(header) or header.base_offset not in self._remembered:
            return None
        return emptied(header)

    def _stays(self, record: RecordKey) -> bool:
        if record.key is None:
            return True
        if not self._newest.is_newest(record.key, record.offset):
            return False
        if not record.is_tombstone:
            return True
        self.has_new_tombstones |= record.offset >= self._first_dirty_offset
        return record.offset >= self._tombstones_end
