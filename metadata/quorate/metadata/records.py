"""Records as bytes, and the guard against records that this software does not know.

A field that protobuf does not know is dropped in silence when a message is turned into an image. Two nodes
of different versions would then hold different images at the same offset, and neither would notice. So
whatever arrives as bytes is looked through once, as a whole, and anything unknown in it stops the node.
Which records and fields may be written is settled by the *feature level* of the cluster, which only rises
once every node supports it: a node that meets something unknown is too old for the cluster (docs/adr/0010).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from google.protobuf.message import DecodeError, Message

from quorate.core.ids import ProducerId, TopicId, TopicName
from quorate.errors import InconsistentMetadata, UnsupportedFeatureLevel
from quorate.metadata.image import PartitionImage, Recovery
from quorate.v1.metadata_pb2 import (
    CONFIG_RESOURCE_CLUSTER,
    CONFIG_RESOURCE_TOPIC,
    RECOVERY_STATE_NORMAL,
    RECOVERY_STATE_RECOVERING,
    ClusterRecord,
    ConfigRecord,
    FeatureLevelRecord,
    MetadataBatch,
    MetadataRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RecoveryState,
    TopicRecord,
)

__all__ = [
    "FEATURE_LEVEL_MAX",
    "FEATURE_LEVEL_MIN",
    "RECOVERY_OF_STATE",
    "STATE_OF_RECOVERY",
    "cluster_record",
    "config_record",
    "decode_batch",
    "encode_batch",
    "feature_level_record",
    "has_unknown_fields",
    "partition_record",
    "producer_ids_record",
    "refuse_unknown_fields",
    "topic_record",
    "unsupported",
]

#: what this software can run on (both inclusive)
FEATURE_LEVEL_MIN: Final = 1
FEATURE_LEVEL_MAX: Final = 1

STATE_OF_RECOVERY: Final[dict[Recovery, RecoveryState]] = {
    Recovery.NORMAL: RECOVERY_STATE_NORMAL,
    Recovery.RECOVERING: RECOVERY_STATE_RECOVERING,
}
RECOVERY_OF_STATE: Final[dict[RecoveryState, Recovery]] = {
    state: recovery for recovery, state in STATE_OF_RECOVERY.items()
}


def encode_batch(records: Iterable[MetadataRecord]) -> bytes:
    return MetadataBatch(records=records).SerializeToString()


def decode_batch(encoded: bytes) -> MetadataBatch:
    """What ``encode_batch`` made, here or on another node; every field in it is known to this software."""
    batch = MetadataBatch()
    try:
        batch.ParseFromString(encoded)
    except DecodeError as error:
        raise InconsistentMetadata(f"{len(encoded)} bytes are not a metadata batch: {error}") from None
    refuse_unknown_fields(batch)
    return batch


def has_unknown_fields(message: Message) -> bool:
    """Whether it, or any message in it, holds fields that this software does not know; they are gone then."""
    # Both calls walk the whole tree in C. Looking at each message from Python costs as much as applying it.
    size = message.ByteSize()
    message.DiscardUnknownFields()
    return message.ByteSize() != size


def refuse_unknown_fields(message: Message) -> None:
    """A message that was just parsed, and that is to become part of an image."""
    if has_unknown_fields(message):
        raise unsupported(f"a {type(message).__name__} has fields that this software does not know")


def unsupported(finding: str) -> UnsupportedFeatureLevel:
    """The metadata is newer than this software: it must not go on, and somebody has to act."""
    return UnsupportedFeatureLevel(
        f"{finding}: the metadata was written for a feature level beyond {FEATURE_LEVEL_MAX}; "
        "install the version of quorate that the rest of the cluster runs on this node, and start it again",
        feature_level_max=FEATURE_LEVEL_MAX,
    )


# --- records that controller and snapshot both write ---------------------------------------------------


def feature_level_record(level: int) -> MetadataRecord:
    return MetadataRecord(feature_level=FeatureLevelRecord(level=level))


def cluster_record(cluster_id: str, default_replication_factor: int) -> MetadataRecord:
    return MetadataRecord(
        cluster=ClusterRecord(cluster_id=cluster_id, default_replication_factor=default_replication_factor)
    )


def topic_record(topic_id: TopicId, name: TopicName) -> MetadataRecord:
    return MetadataRecord(topic=TopicRecord(topic_id=topic_id, name=name))


def partition_record(partition: PartitionImage) -> MetadataRecord:
    return MetadataRecord(
        partition=PartitionRecord(
            topic_id=partition.topic_id,
            partition=partition.partition,
            replicas=partition.replicas,
            isr=partition.isr,
            elr=partition.elr,
            last_known_elr=partition.last_known_elr,
            leader=partition.leader,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            adding_replicas=partition.adding_replicas,
            removing_replicas=partition.removing_replicas,
            recovery_state=STATE_OF_RECOVERY[partition.recovery],
            unclean_leader_epochs=partition.unclean_leader_epochs,
            is_synced=partition.is_synced,
        )
    )


def config_record(topic_id: TopicId | None, key: str, value: str | None) -> MetadataRecord:
    """``topic_id`` None: of the whole cluster. ``value`` None: back to the default."""
    resource = CONFIG_RESOURCE_CLUSTER if topic_id is None else CONFIG_RESOURCE_TOPIC
    return MetadataRecord(
        config=ConfigRecord(resource=resource, topic_id=topic_id or "", key=key, value=value)
    )


def producer_ids_record(next_producer_id: ProducerId) -> MetadataRecord:
    """As a snapshot has it: who got the last block is not part of the image."""
    return MetadataRecord(producer_ids=ProducerIdsRecord(next_producer_id=next_producer_id))
