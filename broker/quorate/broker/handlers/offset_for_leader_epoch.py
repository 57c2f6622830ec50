"""OffsetForLeaderEpoch: where a leader epoch ends, for readers that check their position (rule 66)."""

from __future__ import annotations

from quorate.broker.handlers.targets import answer_each, known_epoch
from quorate.broker.hosted import Hosted
from quorate.broker.replica.partition import Partition
from quorate.core.config import NodeConfig
from quorate.core.ids import LeaderEpoch
from quorate.core.transport import Call
from quorate.v1 import broker_pb2

__all__ = ["OffsetForLeaderEpochHandler"]


class OffsetForLeaderEpochHandler:
    def __init__(self, config: NodeConfig, hosted: Hosted) -> None:
        self._partitions_max = config.request_partitions_max
        self._hosted = hosted

    async def __call__(
        self, request: broker_pb2.OffsetForLeaderEpochRequest, _call: Call
    ) -> broker_pb2.OffsetForLeaderEpochResponse:
        response = broker_pb2.OffsetForLeaderEpochResponse()
        answer_each(
            self._hosted,
            request.partitions,
            response.partitions.add,
            _find,
            partitions_max=self._partitions_max,
        )
        return response


def _find(
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
