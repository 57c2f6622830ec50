"""A topic as the admin service tells it."""

from __future__ import annotations

from typing import Final

from quorate.broker.partition import Partition
from quorate.broker.topic import Topic
from quorate.core.config import NodeConfig, TopicConfig
from quorate.core.ids import BrokerId
from quorate.errors import QuorateError
from quorate.rpc.error_detail import detail_from_error
from quorate.v1 import admin_pb2

__all__ = ["REPLICATION_FACTOR", "describe_topic"]

#: one node, one copy
REPLICATION_FACTOR: Final = 1


def describe_topic(topic: Topic, config: NodeConfig) -> admin_pb2.TopicDescription:
    return admin_pb2.TopicDescription(
        name=topic.name,
        topic_id=topic.topic_id,
        replication_factor=REPLICATION_FACTOR,
        configs=_configs(topic),
        partitions=[
            _partition(number, partition, config.node_id) for number, partition in enumerate(topic.partitions)
        ],
    )


def _configs(topic: Topic) -> list[admin_pb2.ConfigEntry]:
    built_in = TopicConfig().rendered()
    return [
        admin_pb2.ConfigEntry(
            name=key, value=value, source=_source(topic, key, is_default=built_in[key] == value)
        )
        for key, value in sorted(topic.config.rendered().items())
    ]


def _source(topic: Topic, key: str, *, is_default: bool) -> admin_pb2.ConfigSource:
    if key in topic.overrides:
        return admin_pb2.CONFIG_SOURCE_TOPIC
    return admin_pb2.CONFIG_SOURCE_DEFAULT if is_default else admin_pb2.CONFIG_SOURCE_BROKER


def _partition(
    number: int, partition: Partition | QuorateError, node_id: BrokerId
) -> admin_pb2.PartitionDescription:
    description = admin_pb2.PartitionDescription(partition=number, replicas=[node_id])
    if isinstance(partition, QuorateError):
        description.error.CopyFrom(detail_from_error(partition))
        return description
    description.leader_epoch = partition.leader_epoch
    description.log_start_offset = partition.log_start_offset
    description.high_watermark = partition.high_watermark
    description.size_bytes = partition.size_in_bytes
    if partition.failure is None:
        description.leader = node_id
        description.isr.append(node_id)
    else:
        description.error.CopyFrom(detail_from_error(partition.failure))
    return description
