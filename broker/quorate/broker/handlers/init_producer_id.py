"""InitProducerId: an id that no other producer has."""

from __future__ import annotations

from quorate.broker.controller_link.producer_ids import ProducerIds
from quorate.core.transport import Call
from quorate.v1 import broker_pb2

__all__ = ["InitProducerIdHandler"]


class InitProducerIdHandler:
    def __init__(self, producer_ids: ProducerIds) -> None:
        self._producer_ids = producer_ids

    async def __call__(
        self, _request: broker_pb2.InitProducerIdRequest, _call: Call
    ) -> broker_pb2.InitProducerIdResponse:
        return broker_pb2.InitProducerIdResponse(
            producer_id=await self._producer_ids.next_id(), producer_epoch=0
        )
