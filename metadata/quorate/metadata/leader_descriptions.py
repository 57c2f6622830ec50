"""What only leaders know of a topic: offsets and sizes, asked from each of them for a description.

A description must not hang on one dead broker, so every leader has the same short time, at the same time.
Where one does not answer, its partitions say so in place of their offsets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from quorate.core.ids import BrokerId
from quorate.core.transport import Transport, call_once, method_of
from quorate.errors import BrokerNotAvailable, NotLeaderOrFollower, QuorateError
from quorate.metadata.image import BrokerImage
from quorate.rpc.error_detail import detail_from_error
from quorate.v1 import replica_pb2
from quorate.v1.admin_pb2 import PartitionDescription, TopicDescription
from quorate.v1.controller_pb2 import ReplicaName
from quorate.v1.replica_pb2 import DescribeReplicasRequest, DescribeReplicasResponse, ReplicaDescription

__all__ = ["LeaderDescriptions"]

_DESCRIBE_REPLICAS: Final = method_of(
    replica_pb2.DESCRIPTOR.services_by_name["ReplicaService"],
    "DescribeReplicas",
    DescribeReplicasRequest,
    DescribeReplicasResponse,
)
#: people wait for it
_TIMEOUT_S: Final = 2.0


class LeaderDescriptions:
    """``brokers``: as the committed metadata has them at the moment."""

    def __init__(self, transport: Transport, brokers: Callable[[], Mapping[BrokerId, BrokerImage]]) -> None:
        self._transport = transport
        self._brokers = brokers

    async def complete(self, topic: TopicDescription, *, timeout_s: float) -> None:
        """Fill in what the leaders say; a partition without a leader stays as it is."""
        led: dict[BrokerId, list[PartitionDescription]] = {}
        for partition in topic.partitions:
            if partition.HasField("leader"):
                led.setdefault(BrokerId(partition.leader), []).append(partition)
        timeout_s = min(timeout_s, _TIMEOUT_S)
        async with asyncio.TaskGroup() as tasks:
            for leader, partitions in led.items():
                asking = self._complete_from(leader, topic.topic_id, partitions, timeout_s)
                tasks.create_task(asking, name=f"describe-replicas-{leader}")

    async def _complete_from(
        self, leader: BrokerId, topic_id: str, partitions: Sequence[PartitionDescription], timeout_s: float
    ) -> None:
        try:
            answer = await self._ask(leader, topic_id, partitions, timeout_s)
        except QuorateError as error:
            error.facts["broker_id"] = leader
            for partition in partitions:
                partition.error.CopyFrom(detail_from_error(error))
            return
        described = {
            each.replica.partition: each for each in answer.replicas if each.replica.topic_id == topic_id
        }
        for partition in partitions:
            _fill_in(partition, described.get(partition.partition), leader)

    async def _ask(
        self, leader: BrokerId, topic_id: str, partitions: Sequence[PartitionDescription], timeout_s: float
    ) -> DescribeReplicasResponse:
        broker = self._brokers().get(leader)
        if broker is None:
            raise BrokerNotAvailable(f"this node does not know the address of broker {leader} yet")
        request = DescribeReplicasRequest(
            replicas=(ReplicaName(topic_id=topic_id, partition=each.partition) for each in partitions)
        )
        return await call_once(
            self._transport, broker.address, _DESCRIBE_REPLICAS, request, timeout_s=timeout_s
        )


def _fill_in(partition: PartitionDescription, replica: ReplicaDescription | None, leader: BrokerId) -> None:
    if replica is None:
        error = NotLeaderOrFollower(f"broker {leader} does not know yet that it leads", broker_id=leader)
        partition.error.CopyFrom(detail_from_error(error))
        return
    if replica.HasField("error"):
        partition.error.CopyFrom(replica.error)
        # A full disk takes no records, and what is on it is served: then there are offsets beside the error.
        if replica.log_end_offset == 0:
            return
    partition.log_start_offset = replica.log_start_offset
    partition.high_watermark = replica.high_watermark
    partition.size_bytes = replica.size_bytes
