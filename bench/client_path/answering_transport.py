"""A broker inside the client's own process: it takes every batch at once, and has one answer to every fetch.

So what is measured is the client alone: nothing is serialized, nothing crosses a socket, nobody else runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterable, Sequence
from typing import Any

from quorate.core.transport import Channel, Method, Server, Service
from quorate.errors import UnsupportedOperation
from quorate.v1 import broker_pb2

__all__ = ["ADDRESS", "AnsweringTransport"]

ADDRESS = "127.0.0.1:1"


class AnsweringTransport:
    """Leads every partition of every topic, and keeps nothing of what it is sent."""

    def __init__(self, partitions: int = 1) -> None:
        self.partitions = partitions

    def connect(self, address: str) -> Channel:
        return _Channel(self, address)

    async def serve(self, _address: str, _services: Sequence[Service], *, serving: bool = True) -> Server:
        raise UnsupportedOperation(f"nobody is served here, {serving=}")

    async def is_refused(self, _address: str, *, timeout_s: float) -> bool:
        return timeout_s < 0


class _Channel:
    def __init__(self, transport: AnsweringTransport, address: str) -> None:
        self._transport = transport
        self.address = address
        self._next_offsets: Counter[tuple[str, int]] = Counter()

    async def call(self, method: Method[Any, Any], request: Any, **_: Any) -> Any:
        if isinstance(request, broker_pb2.InitProducerIdRequest):
            return broker_pb2.InitProducerIdResponse(producer_id=1)
        if isinstance(request, broker_pb2.GetMetadataRequest):
            return self._metadata(request)
        raise UnsupportedOperation(f"{method} is not answered here")

    def stream(
        self, method: Method[Any, Any], requests: AsyncIterable[Any], **_: Any
    ) -> AsyncGenerator[Any, None]:
        if method.name != "ProduceStream":
            raise UnsupportedOperation(f"{method} is not answered here")
        return self._produced(requests)

    async def _produced(self, requests: AsyncIterable[Any]) -> AsyncGenerator[Any, None]:
        async for request in requests:
            answer = broker_pb2.ProduceStreamResponse(correlation_id=request.correlation_id)
            for asked in request.request.partitions:
                place = (asked.topic, asked.partition)
                answer.response.partitions.add(
                    topic=asked.topic, partition=asked.partition, base_offset=self._next_offsets[place]
                )
                # How many it has is at the end of a batch's header.
                self._next_offsets[place] += int.from_bytes(asked.batch[57:61], "big")
            yield answer

    def _metadata(self, request: broker_pb2.GetMetadataRequest) -> broker_pb2.GetMetadataResponse:
        response = broker_pb2.GetMetadataResponse(cluster_id="c", metadata_offset=1)
        response.brokers.add(broker_id=1, address=self.address)
        for reference in request.topics:
            topic = response.topics.add(name=reference.name, topic_id="x" * 22)
            for number in range(self._transport.partitions):
                topic.partitions.add(partition=number, leader=1, leader_epoch=1, replicas=[1], isr=[1])
        return response

    async def close(self) -> None: ...
