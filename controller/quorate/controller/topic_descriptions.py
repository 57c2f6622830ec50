"""Topics as the metadata has them. Offsets and sizes are known to their leaders alone, and missing here."""

from __future__ import annotations

from quorate.controller.configs import config_entries
from quorate.controller.unclean_leaders import may_lack_records
from quorate.core.config import Durability
from quorate.metadata.image import NO_LEADER, MetadataImage, PartitionImage, Recovery, TopicImage
from quorate.metadata.topic_lookup import find_topic
from quorate.metadata.topic_settings import durability_of, replication_factor_of
from quorate.v1 import admin_pb2

__all__ = ["describe_topic", "list_topics", "topic_description"]


def list_topics(image: MetadataImage, _request: admin_pb2.ListTopicsRequest) -> admin_pb2.ListTopicsResponse:
    listings = []
    for _, topic_id in sorted(image.topic_ids.items()):
        topic = image.topics[topic_id]
        listings.append(
            admin_pb2.TopicListing(
                name=topic.name,
                topic_id=topic_id,
                partition_count=len(topic.partitions),
                replication_factor=_replication_factor(topic),
            )
        )
    return admin_pb2.ListTopicsResponse(topics=listings)


def describe_topic(
    image: MetadataImage, request: admin_pb2.DescribeTopicRequest
) -> admin_pb2.DescribeTopicResponse:
    topic = find_topic(image, request.name, request.topic_id)
    return admin_pb2.DescribeTopicResponse(topic=topic_description(image, topic))


def topic_description(image: MetadataImage, topic: TopicImage) -> admin_pb2.TopicDescription:
    return admin_pb2.TopicDescription(
        name=topic.name,
        topic_id=topic.topic_id,
        replication_factor=_replication_factor(topic),
        configs=config_entries(image, topic),
        config_epoch=topic.config_epoch,
        partitions=[
            _partition_description(each, is_sync_promised=durability_of(image, topic) is Durability.FSYNC)
            for each in topic.partitions
        ],
    )


def _replication_factor(topic: TopicImage) -> int:
    # A single partition can be moved to more or fewer replicas; the first one stands for the topic.
    return replication_factor_of(topic.partitions[0])


def _partition_description(
    partition: PartitionImage, *, is_sync_promised: bool
) -> admin_pb2.PartitionDescription:
    return admin_pb2.PartitionDescription(
        partition=partition.partition,
        leader=None if partition.leader == NO_LEADER else partition.leader,
        leader_epoch=partition.leader_epoch,
        replicas=partition.replicas,
        isr=partition.isr,
        elr=partition.elr,
        partition_epoch=partition.partition_epoch,
        adding_replicas=partition.adding_replicas,
        removing_replicas=partition.removing_replicas,
        is_recovering=partition.recovery is Recovery.RECOVERING,
        is_sync_pending=is_sync_promised and not partition.is_synced,
        may_lack_records=may_lack_records(partition),
    )
