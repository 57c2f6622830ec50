"""One number that stands for everything an image holds.

Two nodes at the same offset must hold the same image. Comparing their digests shows whether they do, and
costs nothing: the digest of an image is the *sum* of the digests of its facts, modulo 2^128, so that whoever
changes a fact subtracts the old one and adds the new one, whatever else is there and in whatever order.

A fact is hashed as the ASCII text of a tuple that starts with its kind. Not as protobuf: its bytes are not
promised to stay the same from one library version to the next. What is absent adds nothing, so an empty image
has the digest 0. The offset is not part of it: two images that differ in nothing else hold the same facts.
A field that is added one day must change no digest while it has its default: snapshots outlive versions.

The sum finds bugs and damage. It is not meant to withstand somebody who chooses facts so that they cancel
out; such a person could as well change the digest.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from quorate.core.ids import ProducerId, TopicId, TopicName
from quorate.metadata.image import BrokerImage, MetadataImage, PartitionImage, RemovedTopicImage

__all__ = [
    "DIGEST_BYTES",
    "DIGEST_MODULUS",
    "broker_digest",
    "cluster_digest",
    "config_digest",
    "config_epoch_digest",
    "digest_from_bytes",
    "digest_to_bytes",
    "forgotten_topic_digest",
    "full_digest",
    "partition_digest",
    "producer_ids_digest",
    "removed_topic_digest",
    "topic_digest",
]

DIGEST_BYTES: Final = 16
DIGEST_MODULUS: Final = 1 << (8 * DIGEST_BYTES)


def full_digest(image: MetadataImage) -> int:
    """From scratch. ``image.digest`` must always equal this."""
    total = cluster_digest(image.feature_level, image.cluster_id, image.default_replication_factor)
    total += producer_ids_digest(image.next_producer_id)
    total += sum(map(broker_digest, image.brokers.values()))
    total += sum(map(removed_topic_digest, image.removed_topics.values()))
    total += sum(map(forgotten_topic_digest, image.forgotten_topics))
    total += sum(config_digest(None, key, value) for key, value in image.cluster_configs.items())
    total += config_epoch_digest(None, image.cluster_config_epoch)
    for topic in image.topics.values():
        total += topic_digest(topic.topic_id, topic.name)
        total += config_epoch_digest(topic.topic_id, topic.config_epoch)
        total += sum(config_digest(topic.topic_id, key, value) for key, value in topic.configs.items())
        total += sum(map(partition_digest, topic.partitions))
    return total % DIGEST_MODULUS


def digest_to_bytes(digest: int) -> bytes:
    return digest.to_bytes(DIGEST_BYTES, "big")


def digest_from_bytes(encoded: bytes) -> int:
    return int.from_bytes(encoded, "big")


def cluster_digest(feature_level: int, cluster_id: str, default_replication_factor: int) -> int:
    if not (feature_level or cluster_id or default_replication_factor):
        return 0
    return _hash(("cluster", feature_level, cluster_id, default_replication_factor))


def producer_ids_digest(next_producer_id: ProducerId) -> int:
    return _hash(("producer ids", next_producer_id)) if next_producer_id else 0


def broker_digest(broker: BrokerImage) -> int:
    return _hash(
        (
            "broker",
            broker.broker_id,
            broker.broker_epoch,
            broker.incarnation_id,
            broker.directory_id,
            broker.address,
            broker.rack,
            broker.feature_level_min,
            broker.feature_level_max,
            broker.is_fenced,
            broker.is_shutting_down,
            broker.is_draining,
            # Absent where it is not known, as it was before there was such a thing.
            *([] if broker.cache_witness is None else [broker.cache_witness]),
            *(["device", broker.device_witness] if broker.device_witness else []),
        )
    )


def topic_digest(topic_id: TopicId, name: TopicName) -> int:
    return _hash(("topic", topic_id, name))


def config_digest(topic_id: TopicId | None, key: str, value: str) -> int:
    """``topic_id`` is None for a setting of the whole cluster."""
    return _hash(("config", topic_id, key, value))


def config_epoch_digest(topic_id: TopicId | None, config_epoch: int) -> int:
    """``topic_id`` is None for the whole cluster."""
    return _hash(("config epoch", topic_id, config_epoch)) if config_epoch else 0


def partition_digest(partition: PartitionImage) -> int:
    return _hash(
        (
            "partition",
            partition.topic_id,
            partition.partition,
            partition.replicas,
            partition.isr,
            partition.elr,
            partition.last_known_elr,
            partition.leader,
            partition.leader_epoch,
            partition.partition_epoch,
            partition.adding_replicas,
            partition.removing_replicas,
            partition.recovery.value,
            partition.unclean_leader_epochs,
            # Absent where it does not hold, as it was before there was such a thing.
            *(["synced"] if partition.is_synced else []),
        )
    )


def removed_topic_digest(topic: RemovedTopicImage) -> int:
    return _hash(("removed topic", topic.topic_id, topic.name, topic.removed_at_ms, topic.broker_ids))


def forgotten_topic_digest(topic_id: TopicId) -> int:
    return _hash(("forgotten topic", topic_id))


def _hash(fact: tuple[object, ...]) -> int:
    # ascii(), not repr(): which characters repr() escapes depends on the Unicode tables of this Python.
    return int.from_bytes(blake2b(ascii(fact).encode("ascii"), digest_size=DIGEST_BYTES).digest(), "big")
