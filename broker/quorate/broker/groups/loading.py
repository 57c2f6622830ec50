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
from collections.abc import AsyncIterator
from typing import Final

from quorate.broker.groups.group import Groups
from quorate.broker.groups.records import decode_record
from quorate.broker.replica.leadership import Leadership
from quorate.core.ids import Offset
from quorate.core.records import decode_batch, parse_header, split_batches
from quorate.errors import CoordinatorNotAvailable, QuorateError, StorageError

__all__ = ["load"]

#: read from disk, checked and taken apart in one turn of the loop
_SLICE_BYTES: Final = 64 << 10
#: applied in one turn, also of a batch that is larger than a slice
_RECORDS_PER_TURN: Final = 256


async def load(leadership: Leadership, end_offset: Offset) -> Groups:
    """Everything below ``end_offset``. Raises what the leadership does when it is over, or cannot be read."""
    groups = Groups()
    count = 0
    async for batch in _batches(leadership, end_offset):
        base_offset = parse_header(batch).base_offset
        try:
            records = decode_batch(batch)
        except QuorateError as error:
            raise _unreadable(Offset(base_offset), error) from error
        for record in records:
            try:
                decoded = decode_record(record.key or b"", record.value)
            except StorageError as error:
                raise _unreadable(Offset(record.offset), error) from error
            if decoded is not None:
                groups.apply(decoded)
            count += 1
            if count % _RECORDS_PER_TURN == 0:
                await asyncio.sleep(0)
    return groups


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
