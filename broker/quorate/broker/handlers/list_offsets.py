"""ListOffsets: the earliest offset, the latest, or the first at or after a time."""

from __future__ import annotations

from typing import Final

from quorate.broker.handlers.targets import KnownValues, known_epoch
from quorate.broker.replica.partition import Partition
from quorate.core.ids import TimestampMs
from quorate.v1 import broker_pb2

__all__ = ["find_offset"]

_SPECS: Final = KnownValues(broker_pb2.OffsetSpec.DESCRIPTOR, "spec")


def find_offset(
    result: broker_pb2.ListOffsetsPartitionResult,
    entry: broker_pb2.ListOffsetsPartition,
    partition: Partition,
) -> None:
    _SPECS.check(entry.spec)
    leadership = partition.require_leadership(known_epoch(entry))
    result.leader_epoch = leadership.epoch
    if entry.spec == broker_pb2.OFFSET_SPEC_EARLIEST:
        result.offset = leadership.earliest_offset()
        return
    latest = leadership.latest_offset()
    if entry.spec != broker_pb2.OFFSET_SPEC_AT_TIMESTAMP:
        result.offset = latest
        return
    found = leadership.find_timestamp(TimestampMs(entry.timestamp_ms))
    if found is None:
        result.end_offset = latest
    else:
        result.offset = found.offset
        result.timestamp_ms = found.timestamp
