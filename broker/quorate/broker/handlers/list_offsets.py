"""ListOffsets: the earliest offset, the latest, or the first at or after a time."""

from __future__ import annotations

from functools import partial

from quorate.broker.handlers.targets import answer, check_enum, find_partitions
from quorate.broker.partition import Partition
from quorate.broker.topic_registry import TopicRegistry
from quorate.core.config import NodeConfig
from quorate.core.ids import TimestampMs
from quorate.core.transport import Call
from quorate.v1 import broker_pb2

__all__ = ["ListOffsetsHandler"]


class ListOffsetsHandler:
    def __init__(self, config: NodeConfig, topics: TopicRegistry) -> None:
        self._config = config
        self._topics = topics

    async def __call__(
        self, request: broker_pb2.ListOffsetsRequest, _call: Call
    ) -> broker_pb2.ListOffsetsResponse:
        targets = find_partitions(
            self._topics, request.partitions, partitions_max=self._config.request_partitions_max
        )
        response = broker_pb2.ListOffsetsResponse()
        for entry, target in zip(request.partitions, targets, strict=True):
            result = response.partitions.add()
            answer(result, entry, target, partial(_find, result, entry))
        return response


def _find(
    result: broker_pb2.ListOffsetsPartitionResult,
    entry: broker_pb2.ListOffsetsPartition,
    partition: Partition,
) -> None:
    check_enum(broker_pb2.OffsetSpec.DESCRIPTOR, entry.spec, "spec")
    result.leader_epoch = partition.leader_epoch
    if entry.spec == broker_pb2.OFFSET_SPEC_EARLIEST:
        result.offset = partition.log_start_offset
    elif entry.spec == broker_pb2.OFFSET_SPEC_AT_TIMESTAMP:
        found = partition.find_timestamp(TimestampMs(entry.timestamp_ms))
        if found is not None:
            result.offset = found.offset
            result.timestamp_ms = found.timestamp
    else:
        result.offset = partition.high_watermark
