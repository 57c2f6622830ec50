"""OffsetForLeaderEpoch: where a leader epoch ends, for readers that check their position (rule 66)."""

from __future__ import annotations

from quorate.broker.handlers.targets import known_epoch
from quorate.broker.replica.partition import Partition
from quorate.core.ids import LeaderEpoch
from quorate.v1 import broker_pb2

__all__ = ["find_epoch_end"]


def find_epoch_end(
    result: broker_pb2.OffsetForLeaderEpochResult,
    entry: broker_pb2.OffsetForLeaderEpochPartition,
    partition: Partition,
) -> None:
    leadership = partition.require_leadership(known_epoch(entry))
    # An epoch that was never reached ends where the log does: what was read in it is not here.
    found = leadership.end_of_epoch(LeaderEpoch(min(entry.leader_epoch, leadership.epoch)))
    if found is not None:
        result.leader_epoch = found.epoch
        result.end_offset = found.end_offset
