"""BrokerService of one node, called as it is: no metadata, no other node, nothing repeated."""

from __future__ import annotations

from types import TracebackType
from typing import Final, Self

from quorate.client.transport import client_transport
from quorate.core.transport import method_of
from quorate.v1 import broker_pb2, records_pb2

__all__ = ["BrokerCalls", "fetch_request", "produce_request"]

_SERVICE: Final = broker_pb2.DESCRIPTOR.services_by_name["BrokerService"]
_PRODUCE: Final = method_of(_SERVICE, "Produce", broker_pb2.ProduceRequest, broker_pb2.ProduceResponse)
_FETCH: Final = method_of(_SERVICE, "Fetch", broker_pb2.FetchRequest, broker_pb2.FetchResponse)
#: beyond what the request itself allows
_MARGIN_S: Final = 10.0


def produce_request(
    value: bytes,
    *,
    topic: str,
    acks: broker_pb2.Acks = broker_pb2.ACKS_ALL,
    timeout_ms: int = 10_000,
) -> broker_pb2.ProduceRequest:
    """One structured record for partition 0."""
    entry = broker_pb2.ProducePartition(topic=topic, records=[records_pb2.Record(value=value)])
    return broker_pb2.ProduceRequest(acks=acks, timeout_ms=timeout_ms, partitions=[entry])


def fetch_request(topic: str, *, max_wait_ms: int = 0) -> broker_pb2.FetchRequest:
    """Of partition 0, from its beginning."""
    return broker_pb2.FetchRequest(
        max_wait_ms=max_wait_ms,
        format=broker_pb2.RECORD_FORMAT_RECORDS,
        partitions=[broker_pb2.FetchPartition(topic=topic)],
    )


class BrokerCalls:
    """As an asynchronous context manager. Answers are about the only partition of the request."""

    def __init__(self, address: str) -> None:
        self._channel = client_transport().connect(address)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._channel.close()

    async def produce(self, request: broker_pb2.ProduceRequest) -> broker_pb2.ProducePartitionResult:
        timeout_s = request.timeout_ms / 1000 + _MARGIN_S
        [result] = (await self._channel.call(_PRODUCE, request, timeout_s=timeout_s)).partitions
        return result

    async def fetch(self, request: broker_pb2.FetchRequest) -> broker_pb2.FetchPartitionResult:
        timeout_s = request.max_wait_ms / 1000 + _MARGIN_S
        [result] = (await self._channel.call(_FETCH, request, timeout_s=timeout_s)).partitions
        return result
