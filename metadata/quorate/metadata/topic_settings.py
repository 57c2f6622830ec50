"""Which settings are in force for a topic: its own, else the cluster's, else what is built in.

The controller decides by these values and leaders act on them, so both ask here (rule 29). Values in an
image are in the form that ``TopicConfig.rendered`` writes: the controller brings them into it before it
records them.

*The MinISR in force for a partition* is the topic's setting, but never more than the partition has replicas:
one of a single replica under a MinISR of 2 could not be written at all. Replicas that a reassignment is only
adding do not count yet. So the value stays the same from the start of a reassignment until it completes, or
is called off and undone, and growing a partition from one replica to three does not refuse writes while the
copies are made. At completion it may change, together with the leader epoch: a leader that does not know the
new value yet is in an old epoch, and the controller refuses its wishes. That holds because a leader takes a
new epoch from the metadata alone, and not from the answer to its own AlterPartition, which carries no MinISR.
"""

from __future__ import annotations

from typing import Final

from quorate.core.config.topic import (
    DURABILITY,
    FOLLOWER_REPLICATION_THROTTLED_RATE,
    MIN_INSYNC_REPLICAS,
    UNCLEAN_LEADER_ELECTION_ENABLE,
    Durability,
    TopicConfig,
)
from quorate.core.topic_names import INTERNAL_TOPICS
from quorate.metadata.image import MetadataImage, PartitionImage, TopicImage

__all__ = [
    "BUILT_IN",
    "durability_of",
    "min_insync_replicas",
    "min_insync_replicas_of",
    "replication_factor_of",
    "throttled_rate",
    "unclean_election_enabled",
]

#: every setting with the value that holds where nobody set it
BUILT_IN: Final = TopicConfig().rendered()


def min_insync_replicas(image: MetadataImage, topic: TopicImage) -> int:
    """The setting. What is in force for a partition can be less: ``min_insync_replicas_of``."""
    return int(_value(image, topic, MIN_INSYNC_REPLICAS))


def min_insync_replicas_of(image: MetadataImage, partition: PartitionImage) -> int:
    """The MinISR in force for a partition, at least 1."""
    setting = min_insync_replicas(image, image.topics[partition.topic_id])
    return min(setting, replication_factor_of(partition))


def replication_factor_of(partition: PartitionImage) -> int:
    """How many replicas count: those that a reassignment adds do not until it is complete."""
    return len(partition.replicas) - len(partition.adding_replicas)


def unclean_election_enabled(image: MetadataImage, topic: TopicImage) -> bool:
    """Whether a replica outside ISR and ELR may be elected, at the price of acknowledged records.

    Never in a topic of the system's own: whoever gives up records of all topics does not mean that groups
    forget how far they have come.
    """
    if topic.name in INTERNAL_TOPICS:
        return False
    return _value(image, topic, UNCLEAN_LEADER_ELECTION_ENABLE) == "true"


def durability_of(image: MetadataImage, topic: TopicImage) -> Durability:
    """As far as the metadata knows: a default in some broker's own file does not count."""
    return Durability(_value(image, topic, DURABILITY))


def throttled_rate(image: MetadataImage) -> int:
    """Bytes per second for replicas that reassignments add to a broker; -1: as fast as it goes."""
    key = FOLLOWER_REPLICATION_THROTTLED_RATE
    return int(image.cluster_configs.get(key, BUILT_IN[key]))


def _value(image: MetadataImage, topic: TopicImage, key: str) -> str:
    own = topic.configs.get(key)
    if own is not None:
        return own
    return image.cluster_configs.get(key, BUILT_IN[key])
