"""Finding in an image what a request names."""

from __future__ import annotations

from quorate.core.ids import PartitionId, TopicId, TopicName
from quorate.errors import InvalidRequest, UnknownTopicOrPartition
from quorate.metadata.image import MetadataImage, PartitionImage, TopicImage
from quorate.v1 import admin_pb2

__all__ = ["find_partition", "find_topic", "partition_name"]


def find_topic(image: MetadataImage, name: str, topic_id: str = "") -> TopicImage:
    """By name, by id, or by both, which then have to agree (rule 43)."""
    if not name and not topic_id:
        raise InvalidRequest("a topic is named by its name or by its id; both are missing")
    topic = image.topics.get(TopicId(topic_id)) if topic_id else image.topic_named(TopicName(name))
    if topic is None:
        raise UnknownTopicOrPartition(
            f"there is no topic {name or topic_id}", topic=name or None, topic_id=topic_id or None
        )
    if name and topic.name != name:
        raise UnknownTopicOrPartition(
            f"topic id {topic_id} belongs to {topic.name}, not to {name}", topic=name, topic_id=topic_id
        )
    return topic


def find_partition(image: MetadataImage, named: admin_pb2.PartitionName) -> PartitionImage:
    topic = find_topic(image, named.topic)
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
