"""GetMetadata: who leads which partition, and where brokers are, as this broker knows it.

Any broker answers, also one that has lost touch with the controller: an old answer sends the client to a
broker that says who leads now, and no answer would send it nowhere. Answers carry offset and epochs, so that
a client never goes back to an older one.
"""

from __future__ import annotations

from quorate.broker.hosted import Hosted
from quorate.core.transport import Call
from quorate.errors import InvalidRequest, QuorateError
from quorate.metadata.image import NO_LEADER, MetadataImage, TopicImage
from quorate.rpc.error_detail import detail_from_error
from quorate.v1 import broker_pb2

__all__ = ["GetMetadataHandler"]


class GetMetadataHandler:
    def __init__(self, hosted: Hosted) -> None:
        self._hosted = hosted

    async def __call__(
        self, request: broker_pb2.GetMetadataRequest, _call: Call
    ) -> broker_pb2.GetMetadataResponse:
        image = self._hosted.image
        if request.all_topics and request.topics:
            raise InvalidRequest("all_topics and a list of topics exclude each other")
        response = broker_pb2.GetMetadataResponse(cluster_id=image.cluster_id, metadata_offset=image.offset)
        _add_brokers(response, image)
        if request.all_topics:
            for name in sorted(image.topic_ids):
                _describe(response.topics.add(), image.topics[image.topic_ids[name]])
        for asked in request.topics:
            self._look_up(response.topics.add(), asked)
        return response

    def _look_up(self, result: broker_pb2.MetadataTopic, asked: broker_pb2.TopicReference) -> None:
        try:
            _describe(result, self._hosted.topic(asked.name, asked.topic_id))
        except QuorateError as error:
            result.name, result.topic_id = asked.name, asked.topic_id
            result.error.CopyFrom(detail_from_error(error))


def _add_brokers(response: broker_pb2.GetMetadataResponse, image: MetadataImage) -> None:
    for broker_id in sorted(image.brokers):
        broker = image.brokers[broker_id]
        if not broker.is_fenced:
            response.brokers.add(broker_id=broker_id, address=broker.address, rack=broker.rack)


def _describe(result: broker_pb2.MetadataTopic, topic: TopicImage) -> None:
    result.name, result.topic_id = topic.name, topic.topic_id
    for partition in topic.partitions:
        result.partitions.add(
            partition=partition.partition,
            leader=partition.leader if partition.leader != NO_LEADER else None,
            leader_epoch=partition.leader_epoch,
            replicas=partition.replicas,
            isr=partition.isr,
        )
