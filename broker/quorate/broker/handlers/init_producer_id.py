"""InitProducerId: an id that no other producer has."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from quorate.core.ids import ProducerId
from quorate.core.transport import Call
from quorate.v1 import broker_pb2

__all__ = ["InitProducerIdHandler"]


class InitProducerIdHandler:
    def __init__(self, next_id: Callable[[], Awaitable[ProducerId]]) -> None:
        self._next_id = next_id

    async def __call__(
        self, _request: broker_pb2.InitProducerIdRequest, _call: Call
    ) -> broker_pb2.InitProducerIdResponse:
        return broker_pb2.InitProducerIdResponse(producer_id=await self._next_id(), producer_epoch=0)
