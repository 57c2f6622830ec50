"""How far the partitions reach that this broker leads, for those who coordinate consumer groups.

Coordinators refuse a commit beyond the end of a partition, and tell people how far behind a group is. Both
rest on the leader's word alone, so it is given with the lease or not at all: one that was replaced without
knowing would say that records do not exist which others have read (rule 37). A new leader says nothing before
it knows that all is committed that the one before may have served (rule 17).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from quorate.broker.controller_link.lease import Lease, fenced
from quorate.broker.replica.leadership import Leadership
from quorate.broker.replica.partition import Partition
from quorate.core.ids import Offset
from quorate.core.records import decode_batch, parse_header, split_batches
from quorate.core.transport import Call
from quorate.errors import InvalidRequest, QuorateError
from quorate.rpc.error_detail import detail_from_error
from quorate.v1.replica_pb2 import DescribeEndsRequest, DescribeEndsResponse, PartitionEnd, PartitionPosition

__all__ = ["ENDS_PER_QUESTION_MAX", "PartitionEnds"]

#: partitions in one request
ENDS_PER_QUESTION_MAX: Final = 2_000
#: a look into a log reads a batch from disk: so many of them in one turn of the loop
_LOOKS_PER_TURN: Final = 8
#: larger ones are not unpacked for the time of one record; their first one stands for it
_UNPACKED_BYTES_MAX: Final = 1 << 16
_DECOMPRESSED_BYTES_MAX: Final = 1 << 20


class PartitionEnds:
    """Handler of ReplicaService.DescribeEnds; brokers ask themselves without a call."""

    def __init__(self, find: Callable[[str, int], Partition], lease: Lease) -> None:
        """``find`` raises for a replica that is not here, or cannot be used."""
        self._find = find
        self._lease = lease

    async def describe(self, request: DescribeEndsRequest, _call: Call | None = None) -> DescribeEndsResponse:
        if len(request.partitions) > ENDS_PER_QUESTION_MAX:
            raise InvalidRequest(
                f"the request names {len(request.partitions)} partitions, {ENDS_PER_QUESTION_MAX} are allowed"
            )
        ends = []
        looks = 0
        for position in request.partitions:
            ends.append(self._describe(position))
            looks += position.HasField("offset")
            if looks >= _LOOKS_PER_TURN:
                looks = 0
                await asyncio.sleep(0)
        # Last, because the answer leaves now.
        if not self._lease.is_valid:
            refusal = PartitionEnd(error=detail_from_error(fenced()))
            return DescribeEndsResponse(ends=[refusal] * len(ends))
        return DescribeEndsResponse(ends=ends)

    def _describe(self, position: PartitionPosition) -> PartitionEnd:
        try:
            replica = self._find(position.replica.topic_id, position.replica.partition)
            leadership = replica.require_leadership(None)
            end = PartitionEnd(
                high_watermark=leadership.latest_offset(), log_start_offset=leadership.log_start_offset
            )
            unread_from = max(Offset(position.offset), leadership.log_start_offset)
            if position.HasField("offset") and unread_from < end.high_watermark:
                timestamp_ms = _timestamp_from(leadership, unread_from)
                if timestamp_ms is not None:
                    end.timestamp_ms = timestamp_ms
                end.unread_bytes = leadership.bytes_from(unread_from)
        except QuorateError as error:
            return PartitionEnd(error=detail_from_error(error))
        return end


def _timestamp_from(leadership: Leadership, from_offset: Offset) -> int | None:
    """Of the first record from there on, which is committed; None: it has no time."""
    batch = next(split_batches(leadership.read(from_offset, bytes_max=1).batches))
    timestamp_ms: int = parse_header(batch).base_timestamp
    if len(batch) <= _UNPACKED_BYTES_MAX:
        timestamp_ms = _unpacked(batch, from_offset, otherwise=timestamp_ms)
    return timestamp_ms if timestamp_ms >= 0 else None


def _unpacked(batch: memoryview, from_offset: Offset, *, otherwise: int) -> int:
    try:
        records = decode_batch(batch, decompressed_bytes_max=_DECOMPRESSED_BYTES_MAX)
    except QuorateError:
        # The checksum is right, so a client wrote it like this: nothing to look into, and no damage.
        return otherwise
    return next((record.timestamp for record in records if record.offset >= from_offset), otherwise)
