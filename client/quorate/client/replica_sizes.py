"""How much each replica of a partition holds, asked from the brokers that hold them.

Descriptions of topics tell of leaders alone. How far a new replica has come only its own broker knows. One
that does not answer, or has not made the replica yet, is left out: progress is shown without it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Final, NamedTuple, Self

from quorate.client.transport import client_transport
from quorate.core.transport import Channel, Transport, method_of
from quorate.errors import QuorateError
from quorate.v1 import replica_pb2
from quorate.v1.controller_pb2 import ReplicaName

__all__ = ["ReplicaOf", "ReplicaSizes"]

_DESCRIBE: Final = method_of(
    replica_pb2.DESCRIPTOR.services_by_name["ReplicaService"],
    "DescribeReplicas",
    replica_pb2.DescribeReplicasRequest,
    replica_pb2.DescribeReplicasResponse,
)
_TIMEOUT_S: Final = 2.0


class ReplicaOf(NamedTuple):
    topic_id: str
    partition: int


class ReplicaSizes:
    """Use as an asynchronous context manager."""

    def __init__(self, addresses: Mapping[int, str], *, transport: Transport | None = None) -> None:
        """``addresses``: of brokers, by id. The transport is for simulations."""
        self._addresses = dict(addresses)
        self._transport = transport or client_transport()
        self._channels: dict[str, Channel] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for channel in self._channels.values():
            await channel.close()
        self._channels.clear()

    async def ask(self, wanted: Mapping[int, Iterable[ReplicaOf]]) -> dict[tuple[int, ReplicaOf], int]:
        """Bytes, by broker and replica."""
        answers = await asyncio.gather(
            *(self._ask_one(broker_id, names) for broker_id, names in wanted.items())
        )
        return {key: size for answer in answers for key, size in answer.items()}

    async def _ask_one(self, broker_id: int, names: Iterable[ReplicaOf]) -> dict[tuple[int, ReplicaOf], int]:
        address = self._addresses.get(broker_id)
        if address is None:
            return {}
        request = replica_pb2.DescribeReplicasRequest(
            replicas=[ReplicaName(topic_id=each.topic_id, partition=each.partition) for each in names]
        )
        channel = self._channels.get(address)
        if channel is None:
            channel = self._channels[address] = self._transport.connect(address)
        try:
            answer = await channel.call(_DESCRIBE, request, timeout_s=_TIMEOUT_S)
        except QuorateError:
            return {}
        return {
            (broker_id, ReplicaOf(each.replica.topic_id, each.replica.partition)): each.size_bytes
            for each in answer.replicas
            # One that has no room for more has an error, and tells its size all the same.
            if each.size_bytes or not each.HasField("error")
        }
