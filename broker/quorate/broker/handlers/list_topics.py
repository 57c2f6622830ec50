"""ListTopics."""

from __future__ import annotations

from quorate.broker.handlers.topic_description import REPLICATION_FACTOR
from quorate.broker.topic_registry import TopicRegistry
from quorate.core.transport import Call
from quorate.v1 import admin_pb2

__all__ = ["ListTopicsHandler"]


class ListTopicsHandler:
    def __init__(self, topics: TopicRegistry) -> None:
        self._topics = topics

    async def __call__(
        self, _request: admin_pb2.ListTopicsRequest, _call: Call
    ) -> admin_pb2.ListTopicsResponse:
        listings = [
            admin_pb2.TopicListing(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_count=len(topic.partitions),
                replication_factor=REPLICATION_FACTOR,
            )
            for topic in self._topics.all()
        ]
        return admin_pb2.ListTopicsResponse(topics=listings)
