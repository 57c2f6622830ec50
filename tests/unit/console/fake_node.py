"""A node for ``produce`` and ``consume``: a topic in memory, described as an administrator sees it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any, NoReturn

import pytest

from quorate.core.records import check_batch, decode_batch
from quorate.core.transport import Call, Service, methods_of
from quorate.errors import QuorateError, UnknownTopicOrPartition, UnsupportedOperation
from quorate.rpc.error_detail import detail_from_error
from quorate.v1 import admin_pb2, broker_pb2
from tests.unit.client.fake_log_broker import FakeBroker, FakeState
from tests.unit.console.direct_transport import DirectTransport

__all__ = ["FakeNode"]

_ADMIN = admin_pb2.DESCRIPTOR.services_by_name["AdminService"]
_BROKER = broker_pb2.DESCRIPTOR.services_by_name["BrokerService"]


class FakeNode(FakeState):
    """Leads every partition. What is produced is kept apart from what is there to be fetched."""

    def __init__(self, *, partitions: int = 1, max_message_bytes: int = 1_000_000) -> None:
        super().__init__({1: DirectTransport.address})
        self.max_message_bytes = max_message_bytes
        self.produced: list[broker_pb2.ProduceRequest] = []
        #: what becomes of a batch: None is stored
        self.refuse: Callable[[broker_pb2.ProducePartition], BaseException | None] = lambda _asked: None
        self._next_offsets = [0] * partitions
        topic = self.add_topic(partitions=partitions)
        for partition in topic.partitions:
            partition.leader, partition.isr = 1, [1]

    def install(self, monkeypatch: pytest.MonkeyPatch) -> FakeNode:
        DirectTransport(self._broker_service(), self._admin_service()).install(monkeypatch)
        return self

    def values(self) -> list[bytes | None]:
        """Of all records that were produced."""
        batches = [each.batch for request in self.produced for each in request.partitions]
        return [record.value for batch in batches for record in decode_batch(batch)]

    def _broker_service(self) -> Service:
        reading = FakeBroker(1, self)
        return Service(
            _BROKER,
            {
                **dict.fromkeys(["Produce", "Fetch"], _refuse),
                "ProduceStream": self._produce_stream,
                "InitProducerId": self._init_producer_id,
                "FetchStream": reading.fetch_stream,
                "ListOffsets": reading.list_offsets,
                "OffsetForLeaderEpoch": reading.offset_for_leader_epoch,
                "GetMetadata": reading.get_metadata,
            },
        )

    def _admin_service(self) -> Service:
        handlers: dict[str, Any] = dict.fromkeys(methods_of(_ADMIN), _refuse)
        return Service(_ADMIN, {**handlers, "DescribeTopic": self._describe_topic})

    async def _describe_topic(
        self, request: admin_pb2.DescribeTopicRequest, _call: Call
    ) -> admin_pb2.DescribeTopicResponse:
        topic = self.topics.get(request.name)
        if topic is None:
            raise UnknownTopicOrPartition(f"there is no topic {request.name}")
        limit = admin_pb2.ConfigEntry(name="max.message.bytes", value=str(self.max_message_bytes))
        described = admin_pb2.TopicDescription(name=topic.name, topic_id=topic.topic_id, configs=[limit])
        for number in range(len(topic.partitions)):
            described.partitions.add(partition=number, leader=1)
        return admin_pb2.DescribeTopicResponse(topic=described)

    async def _init_producer_id(
        self, _request: broker_pb2.InitProducerIdRequest, _call: Call
    ) -> broker_pb2.InitProducerIdResponse:
        return broker_pb2.InitProducerIdResponse(producer_id=1)

    async def _produce_stream(
        self, requests: AsyncIterator[broker_pb2.ProduceStreamRequest], _call: Call
    ) -> AsyncGenerator[broker_pb2.ProduceStreamResponse, None]:
        async for request in requests:
            response = broker_pb2.ProduceResponse()
            self.produced.append(broker_pb2.ProduceRequest(acks=request.request.acks))
            for asked in request.request.partitions:
                result = response.partitions.add(topic=asked.topic, partition=asked.partition)
                try:
                    result.base_offset = self._append(asked)
                except QuorateError as error:
                    result.error.CopyFrom(detail_from_error(error))
            yield broker_pb2.ProduceStreamResponse(correlation_id=request.correlation_id, response=response)

    def _append(self, asked: broker_pb2.ProducePartition) -> int:
        refusal = self.refuse(asked)
        if refusal is not None:
            raise refusal
        self.produced[-1].partitions.append(asked)
        base = self._next_offsets[asked.partition]
        self._next_offsets[asked.partition] += check_batch(asked.batch).record_count
        return base


async def _refuse(_request: Any, _call: Call) -> NoReturn:
    raise UnsupportedOperation("not here")
