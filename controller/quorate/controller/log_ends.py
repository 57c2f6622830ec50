"""Asks brokers where the logs of a partition's replicas end, before an operator's recovery (rule 33)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from quorate.controller.recover import ReplicaEnd
from quorate.core.ids import BrokerId, LeaderEpoch, Offset
from quorate.core.transport import Transport, call_once, method_of
from quorate.errors import QuorateError
from quorate.metadata.image import MetadataImage, PartitionImage
from quorate.v1 import controller_pb2, replica_pb2

__all__ = ["LogEnds"]

_DESCRIBE_LOG_ENDS: Final = method_of(
    replica_pb2.DESCRIPTOR.services_by_name["ReplicaService"],
    "DescribeLogEnds",
    replica_pb2.DescribeLogEndsRequest,
    replica_pb2.DescribeLogEndsResponse,
)
_TIMEOUT_S: Final = 3.0


class LogEnds:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def ask(
        self, image: MetadataImage, partition: PartitionImage, broker_ids: Sequence[BrokerId]
    ) -> dict[BrokerId, ReplicaEnd]:
        """Only those that answered, and have the replica."""
        registered = [broker_id for broker_id in broker_ids if broker_id in image.brokers]
        ends = await asyncio.gather(
            *(self._ask(image.brokers[broker_id].address, partition) for broker_id in registered)
        )
        return {broker_id: end for broker_id, end in zip(registered, ends, strict=True) if end is not None}

    async def _ask(self, address: str, partition: PartitionImage) -> ReplicaEnd | None:
        name = controller_pb2.ReplicaName(topic_id=partition.topic_id, partition=partition.partition)
        request = replica_pb2.DescribeLogEndsRequest(replicas=[name])
        try:
            response = await call_once(
                self._transport, address, _DESCRIBE_LOG_ENDS, request, timeout_s=_TIMEOUT_S
            )
        except QuorateError:
            return None
        for end in response.log_ends:
            if end.replica == name:
                return ReplicaEnd(LeaderEpoch(end.last_epoch), Offset(end.log_end_offset))
        return None
