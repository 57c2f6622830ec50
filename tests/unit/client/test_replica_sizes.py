"""How much replicas hold, as their brokers tell it."""

from __future__ import annotations

from typing import Any

from quorate.client.replica_sizes import ReplicaOf, ReplicaSizes
from quorate.core.transport import Call, Service, methods_of
from quorate.v1 import replica_pb2
from quorate.v1.errors_pb2 import ErrorDetail
from tests.unit.console.direct_transport import DirectTransport

SERVICE = replica_pb2.DESCRIPTOR.services_by_name["ReplicaService"]


async def test_replica_without_room_is_told_and_one_that_is_of_no_use_is_not() -> None:
    async def describe(
        request: replica_pb2.DescribeReplicasRequest, _call: Call
    ) -> replica_pb2.DescribeReplicasResponse:
        full, damaged = request.replicas
        return replica_pb2.DescribeReplicasResponse(
            replicas=[
                replica_pb2.ReplicaDescription(
                    replica=full, log_end_offset=3, size_bytes=100, error=ErrorDetail(code="DISK_FULL")
                ),
                replica_pb2.ReplicaDescription(replica=damaged, error=ErrorDetail(code="LOG_DAMAGED")),
            ]
        )

    handlers: dict[str, Any] = {**dict.fromkeys(methods_of(SERVICE), describe)}
    wanted = {1: [ReplicaOf("id", 0), ReplicaOf("id", 1)]}
    async with ReplicaSizes({1: "b:1"}, transport=DirectTransport(Service(SERVICE, handlers))) as sizes:
        assert await sizes.ask(wanted) == {(1, ReplicaOf("id", 0)): 100}
