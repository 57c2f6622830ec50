"""A broker on the network that takes everything at once and keeps nothing: for the synchronous producer."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, NoReturn

from quorate.client.transport import client_transport
from quorate.core.records import parse_header
from quorate.core.transport import Call, Server, Service
from quorate.errors import UnsupportedOperation
from quorate.v1 import broker_pb2

__all__ = ["NullBroker"]


class NullBroker:
    """Leads every partition of every topic."""

    def __init__(self, partitions: int = 1) -> None:
        self._partitions = partitions
        self._server: Server | None = None
        self.next_offsets: Counter[tuple[str, int]] = Counter()

    async def start(self, address: str = "127.0.0.1:0") -> str:
        handlers = dict.fromkeys(
            ["Produce", "Fetch", "FetchStream", "ListOffsets", "OffsetForLeaderEpoch"], self._refuse
        )
        service = Service(
            broker_pb2.DESCRIPTOR.services_by_name["BrokerService"],
            {
                **handlers,
                "ProduceStream": self._produce_stream,
                "GetMetadata": self._get_metadata,
                "InitProducerId": self._init_producer_id,
            },
        )
        self._server = await client_transport().serve(address, [service])
        return self._server.address

    async def stop(self) -> None:
        assert self._server is not None
        await self._server.stop(0)

    async def _refuse(self, request: Any, call: Call) -> NoReturn:
        raise UnsupportedOperation("not here")

    async def _init_producer_id(
        self, request: broker_pb2.InitProducerIdRequest, call: Call
    ) -> broker_pb2.InitProducerIdResponse:
        return broker_pb2.InitProducerIdResponse(producer_id=1)

    async def _get_metadata(
        self, request: broker_pb2.GetMetadataRequest, call: Call
    ) -> broker_pb2.GetMetadataResponse:
        assert self._server is not None
        response = broker_pb2.GetMetadataResponse(cluster_id="c", metadata_offset=1)
        response.brokers.add(broker_id=1, address=self._server.address)
        for reference in request.topics:
            topic = response.topics.add(name=reference.name, topic_id="x" * 22)
            for number in range(self._partitions):
                topic.partitions.add(partition=number, leader=1, leader_epoch=1, replicas=[1], isr=[1])
        return response

    async def _produce_stream(
        self, requests: AsyncIterator[broker_pb2.ProduceStreamRequest], call: Call
    ) -> AsyncGenerator[broker_pb2.ProduceStreamResponse, None]:
        async for request in requests:
            response = broker_pb2.ProduceResponse()
            for asked in request.request.partitions:
                place = (asked.topic, asked.partition)
                base = self.next_offsets[place]
                self.next_offsets[place] = base + parse_header(asked.batch).record_count
                response.partitions.add(topic=asked.topic, partition=asked.partition, base_offset=base)
            yield broker_pb2.ProduceStreamResponse(correlation_id=request.correlation_id, response=response)
