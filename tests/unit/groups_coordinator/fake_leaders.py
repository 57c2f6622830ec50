"""Brokers that lead partitions and say what a test has them say."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from quorate.chaos.sim.server import SimServer
from quorate.chaos.sim.transport import SimTransport
from quorate.core.ids import BrokerId, LeaderEpoch
from quorate.core.transport import Service
from quorate.errors import QuorateError, UnsupportedOperation
from quorate.rpc.error_detail import detail_from_error
from quorate.v1 import replica_pb2
from quorate.v1.replica_pb2 import DescribeEndsRequest, DescribeEndsResponse, PartitionEnd
from tests.unit.groups_coordinator.group_world import GroupWorld


class FakeLeader:
    """``ends``: by the number of the partition; an error is what it answers."""

    def __init__(self, world: GroupWorld, broker_id: BrokerId, ends: dict[int, int | QuorateError]) -> None:
        self._world = world
        self._broker_id = broker_id
        self.ends = ends
        #: the partitions of every question
        self.questions: list[list[int]] = []
        self.at_once = 0
        self.at_once_most = 0
        #: clear it, and answers are kept back
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self._server: SimServer | None = None

    async def serve(self) -> None:
        name = f"broker{self._broker_id}"
        service = Service(
            replica_pb2.DESCRIPTOR.services_by_name["ReplicaService"],
            {
                "DescribeEnds": self._describe_ends,
                "DescribeLogEnds": _refuse,
                "DescribeReplicas": _refuse,
                "Replicate": _refuse_stream,
            },
            is_internal=True,
        )
        self._server = await SimTransport(self._world.network, name).serve(f"{name}:9092", [service])

    def lead(self, *numbers: int, topic: str = "t") -> None:
        for number in numbers:
            epoch = self._world.image.topics[self._world.topic_id(topic)].partitions[number].leader_epoch
            self._world.change(
                number, topic=topic, leader=self._broker_id, leader_epoch=LeaderEpoch(epoch + 1)
            )
        self._world.tell()

    def die(self) -> None:
        assert self._server is not None
        self._server.kill()

    async def _describe_ends(self, request: DescribeEndsRequest, _call: Any) -> DescribeEndsResponse:
        self.questions.append([each.replica.partition for each in request.partitions])
        answers = [self._end(each.replica.partition) for each in request.partitions]
        self.at_once += 1
        self.at_once_most = max(self.at_once, self.at_once_most)
        try:
            await self.may_answer.wait()
        finally:
            self.at_once -= 1
        return DescribeEndsResponse(ends=answers)

    def _end(self, number: int) -> PartitionEnd:
        end = self.ends.get(number, 0)
        if isinstance(end, QuorateError):
            return PartitionEnd(error=detail_from_error(end))
        return PartitionEnd(high_watermark=end)


async def _refuse(_request: Any, _call: Any) -> Any:
    raise UnsupportedOperation("not here")


async def _refuse_stream(_requests: AsyncIterator[Any], _call: Any) -> AsyncGenerator[Any, None]:
    raise UnsupportedOperation("not here")
    yield
