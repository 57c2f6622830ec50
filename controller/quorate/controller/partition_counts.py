"""Adding partitions to a topic. The request names the count it wants, so that asking twice adds them once."""

from __future__ import annotations

import random

from quorate.controller.decision import ControllerEvent, Decision
from quorate.controller.new_partitions import first_state, placed_by_controller, placed_by_hand
from quorate.controller.topic_descriptions import topic_description
from quorate.core.ids import BrokerId
from quorate.core.topic_names import check_not_internal, check_partition_count
from quorate.errors import InvalidReplicaAssignment, InvalidTopic
from quorate.metadata.delta import apply_batch
from quorate.metadata.image import MetadataImage, TopicImage
from quorate.metadata.records import partition_record
from quorate.metadata.topic_lookup import find_topic
from quorate.metadata.topic_settings import replication_factor_of
from quorate.v1 import admin_pb2

__all__ = ["create_partitions"]


def create_partitions(
    image: MetadataImage,
    request: admin_pb2.CreatePartitionsRequest,
    *,
    next_offset: int,
    rng: random.Random,
) -> Decision[admin_pb2.CreatePartitionsResponse]:
    topic = find_topic(image, request.name, request.topic_id)
    # The number decides in which partition a group has its state: with another one, nobody would find it.
    check_not_internal(topic.name, "given more partitions")
    existing = len(topic.partitions)
    if request.partition_count == existing:
        return Decision((), admin_pb2.CreatePartitionsResponse(topic=topic_description(image, topic)))
    if request.partition_count < existing:
        raise InvalidTopic(
            f"topic {topic.name} has {existing} partitions, and {request.partition_count} are wanted; they "
            "cannot become fewer, because records would be lost",
            topic=topic.name,
            partitions=existing,
        )
    check_partition_count(topic.name, request.partition_count)
    replicas = _replicas(image, topic, request, rng)
    records = [
        partition_record(first_state(image, topic, number, each))
        for number, each in enumerate(replicas, start=existing)
    ]
    after = apply_batch(image, records, next_offset)
    description = topic_description(after, after.topics[topic.topic_id])
    response = admin_pb2.CreatePartitionsResponse(topic=description)
    if request.validate_only:
        return Decision((), response)
    event = ControllerEvent(
        "partitions_added", {"topic": topic.name, "partitions": request.partition_count, "before": existing}
    )
    return Decision(tuple(records), response, (event,))


def _replicas(
    image: MetadataImage,
    topic: TopicImage,
    request: admin_pb2.CreatePartitionsRequest,
    rng: random.Random,
) -> list[tuple[BrokerId, ...]]:
    existing = len(topic.partitions)
    replication_factor = replication_factor_of(topic.partitions[0])
    if not request.assignments:
        return placed_by_controller(
            image,
            partition_count=request.partition_count - existing,
            replication_factor=replication_factor,
            existing=topic.partitions,
            rng=rng,
        )
    if len(request.assignments) != request.partition_count - existing:
        raise InvalidReplicaAssignment(
            f"{request.partition_count - existing} new partitions are wanted, and {len(request.assignments)} "
            "are assigned"
        )
    return placed_by_hand(image, request.assignments, first=existing, replication_factor=replication_factor)
