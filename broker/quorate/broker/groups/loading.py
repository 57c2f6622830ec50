"""Reading a partition of the topic of offsets back into memory, from its start to its end (rule 63).

In slices, with a turn of the loop in between for everybody else: a partition may hold hundreds of thousands
of records, and the broker that reads them leads other things as well. Nobody appends meanwhile, because
only the coordinator does, and it answers nothing before this is done. So the end is where the log ended
when it began.

All of it or an error. Whatever cannot be read, or is no record of a group, could be the offset that some
group has come to; to go on without it would be to say "nothing is committed" where something is.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Final, NamedTuple

from quorate.broker.groups.group import Groups
from quorate.broker.groups.records import decode_record
from quorate.broker.groups.revisions import Revision
from quorate.broker.replica.leadership import Leadership
from quorate.core.ids import Offset
from quorate.core.records import Record, decode_batch, parse_header, split_batches
from quorate.errors import CoordinatorNotAvailable, QuorateError, StorageError

__all__ = ["load"]

#: Read from disk, checked and taken apart in one turn of the loop: two milliseconds. Members that look for
#: their coordinator fill the turns in between, so that many small ones would take longest when it hurts most.
_SLICE_BYTES: Final = 256 << 10
#: understood and applied in one turn
_RECORDS_PER_TURN: Final = 256


class _InEpoch(NamedTuple):
    record: Record
    #: in which it was appended
    leader_epoch: int


async def load(leadership: Leadership, end_offset: Offset) -> Groups:
    """Everything below ``end_offset``. Raises what the leadership does when it is over, or cannot be read."""
    groups = Groups()
    latest = await _latest_records(leadership, end_offset)
    for count, (record, leader_epoch) in enumerate(latest.values(), start=1):
        try:
            decoded = decode_record(record.key or b"", record.value)
        except StorageError as error:
            raise _unreadable(Offset(record.offset), error) from error
        if decoded is not None:
            groups.apply(decoded, Revision(leader_epoch, record.offset))
        if count % _RECORDS_PER_TURN == 0:
            await asyncio.sleep(0)
    # What was removed before may have left no trace: it counts as removed just now.
    groups.forgotten_at = Revision(leadership.epoch, end_offset - 1)
    return groups


async def _latest_records(leadership: Leadership, end_offset: Offset) -> dict[bytes, _InEpoch]:
    """Of each key, in their order in the log: what compaction would leave of it.

    A key that is written every second has thousands of records between two compactions. Only the last one
    is understood, which costs ten times what it costs to pass over it.
    """
    latest: dict[bytes, _InEpoch] = {}
    async for batch in _batches(leadership, end_offset):
        header = parse_header(batch)
        try:
            records = decode_batch(batch)
        except QuorateError as error:
            raise _unreadable(Offset(header.base_offset), error) from error
        _take_over(latest, records, header.leader_epoch)
    return latest


def _take_over(latest: dict[bytes, _InEpoch], records: Sequence[Record], leader_epoch: int) -> None:
    for record in records:
        key = record.key or b""
        latest.pop(key, None)
        if record.value is not None:
            latest[key] = _InEpoch(record, leader_epoch)


async def _batches(leadership: Leadership, end_offset: Offset) -> AsyncIterator[memoryview]:
    offset = leadership.log_start_offset
    while offset < end_offset:
        read = leadership.read_for_follower(offset, bytes_max=_SLICE_BYTES)
        if read.next_offset <= offset:
            raise CoordinatorNotAvailable(
                f"the topic of offsets cannot be read from {offset} on, though it ends at {end_offset}",
                offset=offset,
            )
        for batch in split_batches(read.batches):
            if not parse_header(batch).is_control:
                yield batch
        offset = read.next_offset
        await asyncio.sleep(0)


def _unreadable(offset: Offset, error: QuorateError) -> CoordinatorNotAvailable:
    return CoordinatorNotAvailable(
        f"the topic of offsets cannot be loaded: at offset {offset}, {error.message}",
        offset=offset,
        cause=error.code,
    )
