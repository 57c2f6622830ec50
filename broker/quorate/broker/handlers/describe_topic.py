"""DescribeTopic."""

from __future__ import annotations

from quorate.broker.handlers.topic_description import describe_topic
from quorate.broker.topic_registry import TopicRegistry
from quorate.core.config import NodeConfig
from quorate.core.transport import Call
from quorate.v1 import admin_pb2

__all__ = ["DescribeTopicHandler"]


class DescribeTopicHandler:
    def __init__(self, config: NodeConfig, topics: TopicRegistry) -> None:
        self._config = config
        self._topics = topics

    async def __call__(
        self, request: admin_pb2.DescribeTopicRequest, _call: Call
    ) -> admin_pb2.DescribeTopicResponse:
        topic = self._topics.find(request.name, request.topic_id)
        return admin_pb2.DescribeTopicResponse(topic=describe_topic(topic, self._config))
