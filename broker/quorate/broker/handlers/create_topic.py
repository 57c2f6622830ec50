"""CreateTopic."""

from __future__ import annotations

from quorate.broker.handlers.topic_description import REPLICATION_FACTOR, describe_topic
from quorate.broker.topic_registry import TopicRegistry
from quorate.core.config import NodeConfig
from quorate.core.transport import Call
from quorate.errors import InvalidTopic
from quorate.v1 import admin_pb2

__all__ = ["CreateTopicHandler"]


class CreateTopicHandler:
    def __init__(self, config: NodeConfig, topics: TopicRegistry) -> None:
        self._config = config
        self._topics = topics

    async def __call__(
        self, request: admin_pb2.CreateTopicRequest, _call: Call
    ) -> admin_pb2.CreateTopicResponse:
        if request.HasField("replication_factor") and request.replication_factor != REPLICATION_FACTOR:
            raise InvalidTopic(
                f"topic {request.name}: {request.replication_factor} copies wanted, but there is one broker",
                replication_factor=request.replication_factor,
                brokers=1,
            )
        topic = await self._topics.create(
            request.name,
            partition_count=(
                request.partition_count
                if request.HasField("partition_count")
                else self._config.num_partitions
            ),
            configs=dict(request.configs),
        )
        return admin_pb2.CreateTopicResponse(topic=describe_topic(topic, self._config))
