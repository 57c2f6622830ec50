"""ListOffsets: the earliest offset, the latest, or the first at or after a time."""

from __future__ import annotations

from typing import Final

from quorate.broker.handlers.targets import KnownValues, answer_each, known_epoch
from quorate.broker.hosted import Hosted
from quorate.broker.replica.partition import Partition
from quorate.core.config import NodeConfig
from quorate.core.ids import TimestampMs
from quorate.core.transport import Call
from quorate.v1 import broker_pb2

__all__ = ["ListOffsetsHandler"]

_SPECS: Final = KnownValues(broker_pb2.OffsetSpec.DESCRIPTOR, "spec")


class ListOffsetsHandler:
    def __init__(self, config: NodeConfig, hosted: Hosted) -> None:
        self._partitions_max = config.request_partitions_max
        self._hosted = hosted

    async def __call__(
        self, request: broker_pb2.ListOffsetsRequest, _call: Call
    ) -> broker_pb2.ListOffsetsResponse:
        response = broker_pb2.ListOffsetsResponse()
        answer_each(
            self._hosted,
            request.partitions,
            response.partitions.add,
            _find,
            partitions_max=self._partitions_max,
        )
        return response


def _find(
    result: broker_pb2.ListOffsetsPartitionResult,
    entry: broker_pb2.ListOffsetsPartition,
    partition: Partition,
) -> None:
    _SPECS.check(entry.spec)
    leadership = partition.require_leadership(known_epoch(entry))
    result.leader_epoch = leadership.epoch
    if entry.spec == broker_pb2.OFFSET_SPEC_EARLIEST:
        result.offset = partition.log.log_start_offset
        return
    latest = leadership.latest_offset()
    if entry.spec != broker_pb2.OFFSET_SPEC_AT_TIMESTAMP:
        result.offset = latest
        return
    found = leadership.find_timestamp(TimestampMs(entry.timestamp_ms))
    if found is not None:
        result.offset = found.offset
        result.timestamp_ms = found.timestamp
