"""Producer ids, given away in blocks: no id is ever given twice."""

from __future__ import annotations

from typing import Final

from quorate.controller.brokers import require_broker_epoch
from quorate.controller.decision import Decision
from quorate.metadata.image import MetadataImage
from quorate.v1.controller_pb2 import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from quorate.v1.metadata_pb2 import MetadataRecord, ProducerIdsRecord

__all__ = ["PRODUCER_IDS_IN_BLOCK", "allocate_producer_ids"]

PRODUCER_IDS_IN_BLOCK: Final = 1_000


def allocate_producer_ids(
    image: MetadataImage, request: AllocateProducerIdsRequest
) -> Decision[AllocateProducerIdsResponse]:
    """The next block. A broker that asks again gets another one: ids are plenty, doubles are fatal."""
    require_broker_epoch(image, request.broker_id, request.broker_epoch)
    first = image.next_producer_id
    record = ProducerIdsRecord(
        broker_id=request.broker_id,
        broker_epoch=request.broker_epoch,
        next_producer_id=first + PRODUCER_IDS_IN_BLOCK,
    )
    return Decision(
        (MetadataRecord(producer_ids=record),),
        AllocateProducerIdsResponse(first_producer_id=first, count=PRODUCER_IDS_IN_BLOCK),
    )
