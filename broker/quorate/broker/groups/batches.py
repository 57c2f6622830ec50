"""The records of a decision as batches of the log.

What a decision changes about a group and its members is one batch, so that a coordinator that takes over
finds all of it or nothing: half of it would give a partition to two members, or to nobody. A batch is no
larger than the topic allows. The bounds on members and on what each may subscribe to keep it far below;
where they do not, the decision is refused as a whole, and nothing has changed.

Offsets are different. Each stands for itself, and so do the deletions of each; a commit of very many is
spread over several batches, and each partition has a result of its own. They come before the rest of their
decision: a group whose deletion breaks off in the middle is still there, and is deleted by asking again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from quorate.broker.groups.records import GroupRecord, encode_record
from quorate.core.ids import TimestampMs
from quorate.core.records import HEADER_BYTES, Record, encode_batch
from quorate.errors import GroupFull

__all__ = ["RecordBatch", "batches_of"]

#: that a record takes beside its key and its value, at most
_RECORD_OVERHEAD_BYTES: Final = 32


class RecordBatch(NamedTuple):
    records: Sequence[GroupRecord]
    batch: bytes


class _Encoded(NamedTuple):
    record: GroupRecord
    key: bytes
    value: bytes | None

    @property
    def size(self) -> int:
        return len(self.key) + len(self.value or b"") + _RECORD_OVERHEAD_BYTES


def batches_of(records: Sequence[GroupRecord], *, now_ms: TimestampMs, bytes_max: int) -> list[RecordBatch]:
    """In the order in which they have to be appended. ``GroupFull`` if what belongs together does not fit."""
    encoded = [_Encoded(record, *encode_record(record)) for record in records]
    offsets = [each for each in encoded if _is_offset(each.record)]
    together = [each for each in encoded if not _is_offset(each.record)]
    size = HEADER_BYTES + sum(each.size for each in together)
    if size > bytes_max:
        raise _too_large(together[0].record.key.group, size, bytes_max)
    pieces = list(_pieces(offsets, bytes_max))
    if together:
        pieces.append(together)
    return [_batch(piece, now_ms) for piece in pieces]


def _is_offset(record: GroupRecord) -> bool:
    return bool(record.key.WhichOneof("about") == "offset")


def _pieces(encoded: Sequence[_Encoded], bytes_max: int) -> Iterator[list[_Encoded]]:
    """One record always fits: what is committed with an offset is bounded far below."""
    piece: list[_Encoded] = []
    size = HEADER_BYTES
    for each in encoded:
        if piece and size + each.size > bytes_max:
            yield piece
            piece, size = [], HEADER_BYTES
        piece.append(each)
        size += each.size
    if piece:
        yield piece


def _batch(piece: Sequence[_Encoded], now_ms: TimestampMs) -> RecordBatch:
    batch = encode_batch([Record(0, now_ms, each.key, each.value) for each in piece])
    return RecordBatch([each.record for each in piece], batch)


def _too_large(group: str, size: int, bytes_max: int) -> GroupFull:
    return GroupFull(
        f"group {group}: what its members hold and subscribe to takes {size} bytes, {bytes_max} are possible",
        group=group,
        bytes=size,
        bytes_max=bytes_max,
    )
