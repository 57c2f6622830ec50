"""Making and deleting topics.

A topic is its id; the name is a label that is free again as soon as the topic is deleted (rule 43). The id
is drawn by whoever asks, so that a request whose answer was lost finds its own topic when it is sent again,
instead of "already exists". Data of a deleted topic goes from each disk later, and only because of the
committed deletion of that very id (rule 42); until every broker has said that it is gone, the topic stays on
record.

Requests arrive late, and twice. A deletion names the id, so a copy never hits the next topic of that name.
A creation must not bring a deleted topic back under its own id: its epochs would begin anew, while somebody
may still speak of the old ones (rule 2). So ids stay on record after the topic has gone from every disk,
the last ten thousand of them (``FORGOTTEN_TOPICS_MAX``). Binding each creation to a metadata offset that
its caller has read was rejected: it would need no list, and cost everybody who creates a topic a question
before, and a refusal whenever another topic has gone meanwhile.
"""

from __future__ import annotations

import random
from typing import Final

from quorate.controller.brokers import require_broker_epoch
from quorate.controller.configs import canonical_configs, unclean_election_allowed
from quorate.controller.decision import ControllerEvent, Decision
from quorate.controller.new_partitions import first_state, placed_by_controller, placed_by_hand
from quorate.controller.topic_descriptions import topic_description
from quorate.core.config.topic import UNCLEAN_LEADER_ELECTION_ENABLE
from quorate.core.ids import BrokerId, TopicId, TopicName
from quorate.core.topic_names import (
    check_not_internal,
    check_not_reserved,
    check_partition_count,
    check_topic_id,
    check_topic_name,
)
from quorate.errors import (
    InvalidReplicaAssignment,
    InvalidRequest,
    NotEnoughReplicas,
    TopicAlreadyExists,
)
from quorate.metadata.delta import apply_batch
from quorate.metadata.image import MetadataImage
from quorate.metadata.records import cluster_record, config_record, partition_record, topic_record
from quorate.metadata.topic_lookup import find_topic
from quorate.v1 import admin_pb2, controller_pb2
from quorate.v1.metadata_pb2 import MetadataRecord, RemoveTopicRecord, ReplicasRemovedRecord

__all__ = ["confirm_topics_removed", "create_topic", "delete_topic", "make_topic"]

#: copies of a partition where neither the request nor the cluster says how many, if there are enough brokers
_REPLICATION_FACTOR: Final = 3


def create_topic(
    image: MetadataImage,
    request: admin_pb2.CreateTopicRequest,
    *,
    next_offset: int,
    default_partition_count: int,
    rng: random.Random,
) -> Decision[admin_pb2.CreateTopicResponse]:
    """The request carries the topic's id: whoever took it from a client has drawn one (rule 43)."""
    check_not_reserved(request.name)
    return make_topic(
        image,
        request,
        next_offset=next_offset,
        default_partition_count=default_partition_count,
        rng=rng,
    )


def make_topic(
    image: MetadataImage,
    request: admin_pb2.CreateTopicRequest,
    *,
    next_offset: int,
    default_partition_count: int,
    rng: random.Random,
) -> Decision[admin_pb2.CreateTopicResponse]:
    """As ``create_topic``, also for names that people cannot use."""
    name = check_topic_name(request.name)
    topic_id = check_topic_id(request.topic_id)
    if _was_made_before(image, name, topic_id):
        description = topic_description(image, image.topics[topic_id])
        return Decision((), admin_pb2.CreateTopicResponse(topic=description))
    configs = canonical_configs(request.configs, of_topic=True)
    replicas, records = _replicas_of_new_topic(image, request, default_partition_count, rng)
    records.append(topic_record(topic_id, name))
    records += [config_record(topic_id, key, value) for key, value in configs.items()]
    begun = apply_batch(image, records, next_offset)
    topic = begun.topics[topic_id]
    records += [
        partition_record(first_state(begun, topic, number, each)) for number, each in enumerate(replicas)
    ]
    after = apply_batch(image, records, next_offset)
    response = admin_pb2.CreateTopicResponse(topic=topic_description(after, after.topics[topic_id]))
    if request.validate_only:
        return Decision((), response)
    events = [
        ControllerEvent(
            "topic_created",
            {
                "topic": name,
                "topic_id": topic_id,
                "partitions": len(replicas),
                "replication_factor": len(replicas[0]),
            },
        )
    ]
    if configs.get(UNCLEAN_LEADER_ELECTION_ENABLE) == "true":
        events.append(unclean_election_allowed(name))
    return Decision(tuple(records), response, tuple(events))


def _was_made_before(image: MetadataImage, name: TopicName, topic_id: TopicId) -> bool:
    """Whether this very topic exists; raises where the name or the id belongs to another one."""
    known = image.topics.get(topic_id)
    if known is not None and known.name == name:
        return True
    if known is not None or topic_id in image.removed_topics or topic_id in image.forgotten_topics:
        raise InvalidRequest(
            f"topic id {topic_id} was used before, by another topic or by a deleted one; draw a new one",
            topic_id=topic_id,
        )
    if name in image.topic_ids:
        raise TopicAlreadyExists(f"there is a topic {name} already", topic=name)
    return False


def _replicas_of_new_topic(
    image: MetadataImage,
    request: admin_pb2.CreateTopicRequest,
    default_partition_count: int,
    rng: random.Random,
) -> tuple[list[tuple[BrokerId, ...]], list[MetadataRecord]]:
    """For each partition, with the record that fixes the cluster's default where it is needed first."""
    if request.assignments:
        return _replicas_by_hand(image, request), []
    partition_count = (
        request.partition_count if request.HasField("partition_count") else default_partition_count
    )
    check_partition_count(request.name, partition_count)
    records: list[MetadataRecord] = []
    if request.HasField("replication_factor"):
        replication_factor = request.replication_factor
    elif image.default_replication_factor:
        replication_factor = image.default_replication_factor
    else:
        replication_factor = min(_REPLICATION_FACTOR, len(image.brokers))
        if not replication_factor:
            raise NotEnoughReplicas("no broker has registered yet", brokers=0)
        records.append(cluster_record(image.cluster_id, replication_factor))
    replicas = placed_by_controller(
        image, partition_count=partition_count, replication_factor=replication_factor, existing=(), rng=rng
    )
    return replicas, records


def _replicas_by_hand(
    image: MetadataImage, request: admin_pb2.CreateTopicRequest
) -> list[tuple[BrokerId, ...]]:
    check_partition_count(request.name, len(request.assignments))
    if request.HasField("partition_count") and request.partition_count != len(request.assignments):
        raise InvalidReplicaAssignment(
            f"{request.partition_count} partitions are wanted, and {len(request.assignments)} are assigned"
        )
    return placed_by_hand(
        image,
        request.assignments,
        first=0,
        replication_factor=request.replication_factor if request.HasField("replication_factor") else None,
    )


def delete_topic(
    image: MetadataImage, request: admin_pb2.DeleteTopicRequest, *, now_ms: int
) -> Decision[admin_pb2.DeleteTopicResponse]:
    """``now_ms``: milliseconds since 1970."""
    topic_id = _id_of_deletion(request)
    removed = image.removed_topics.get(topic_id)
    is_removed = removed is not None and request.name in ("", removed.name)
    if is_removed or topic_id in image.forgotten_topics:
        # The answer to the first request was lost.
        return Decision((), admin_pb2.DeleteTopicResponse(topic_id=topic_id))
    topic = find_topic(image, request.name, topic_id)
    check_not_internal(topic.name, "deleted")
    record = MetadataRecord(remove_topic=RemoveTopicRecord(topic_id=topic.topic_id, removed_at_ms=now_ms))
    event = ControllerEvent("topic_deleted", {"topic": topic.name, "topic_id": topic.topic_id})
    return Decision((record,), admin_pb2.DeleteTopicResponse(topic_id=topic.topic_id), (event,))


def _id_of_deletion(request: admin_pb2.DeleteTopicRequest) -> TopicId:
    if not request.topic_id:
        raise InvalidRequest(
            "a topic is deleted by its id, which DescribeTopic tells: a request by name that arrives late "
            "would delete the next topic of that name",
            topic=request.name or None,
        )
    return TopicId(request.topic_id)


def confirm_topics_removed(
    image: MetadataImage, request: controller_pb2.ConfirmTopicsRemovedRequest
) -> Decision[controller_pb2.ConfirmTopicsRemovedResponse]:
    """A broker's disk holds nothing of these topics any more; once no disk does, a topic is forgotten."""
    broker = require_broker_epoch(image, request.broker_id, request.broker_epoch)
    records = []
    for topic_id in sorted(set(map(TopicId, request.topic_ids))):
        if topic_id in image.topics:
            # It can only have deleted what was never deleted: nothing may be built on what it says (rule 42).
            raise InvalidRequest(
                f"broker {broker.broker_id} says that it removed topic {topic_id}, which was never deleted",
                broker_id=broker.broker_id,
                topic_id=topic_id,
            )
        removed = image.removed_topics.get(topic_id)
        # Not there: said before, and forgotten since.
        if removed is not None and broker.broker_id in removed.broker_ids:
            record = ReplicasRemovedRecord(topic_id=topic_id, broker_id=broker.broker_id)
            records.append(MetadataRecord(replicas_removed=record))
    return Decision(tuple(records), controller_pb2.ConfirmTopicsRemovedResponse())
