"""Partitions as requests and answers name them."""

from __future__ import annotations

from quorate.core.ids import PartitionId
from quorate.errors import UnknownTopicOrPartition
from quorate.metadata.image import MetadataImage, PartitionImage
from quorate.metadata.topic_lookup import find_topic
from quorate.v1 import admin_pb2

__all__ = ["find_partition", "partition_name"]


def find_partition(image: MetadataImage, named: admin_pb2.PartitionName) -> PartitionImage:
    topic = find_topic(image, named.topic, named.topic_id)
    partition = image.partition(topic.topic_id, PartitionId(named.partition))
    if partition is None:
        raise UnknownTopicOrPartition(
            f"topic {topic.name} has partitions 0 to {len(topic.partitions) - 1}, not {named.partition}",
            topic=topic.name,
            partition=named.partition,
        )
    return partition


def partition_name(image: MetadataImage, partition: PartitionImage) -> admin_pb2.PartitionName:
    return admin_pb2.PartitionName(topic=image.topics[partition.topic_id].name, partition=partition.partition)
