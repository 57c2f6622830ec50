"""What requests find on this broker: replicas by name, the metadata, the lease, and settings of topics.

Handlers see this and nothing else of the broker. Until the broker has applied its own registration it hosts
nothing, and says so by an error that sends clients to another one.
"""

from __future__ import annotations

from typing import Final, Protocol

from quorate.broker.controller_link.lease import Lease
from quorate.broker.replica.partition import Partition
from quorate.core.config import NodeConfig, TopicConfig
from quorate.core.ids import BrokerId, PartitionId, TopicId
from quorate.errors import (
    BrokerFenced,
    NotLeaderOrFollower,
    QuorateError,
    UnknownTopicOrPartition,
)
from quorate.metadata.image import MetadataImage, PartitionImage, TopicImage
from quorate.metadata.topic_lookup import find_topic

__all__ = ["Hosted", "HostedReplicas", "topic_config_of"]

#: topics whose settings are kept ready; each is a small object
_CONFIGS_KEPT_MAX: Final = 10_000


class HostedReplicas(Protocol):
    """Every replica of this broker."""

    def get(self, topic_id: TopicId, partition: PartitionId) -> Partition | QuorateError | None:
        """An error: it is here and cannot be used. None: it is not here."""
        ...


class Hosted:
    def __init__(
        self, config: NodeConfig, broker_id: BrokerId, replicas: HostedReplicas, lease: Lease
    ) -> None:
        self._config = config
        self._broker_id = broker_id
        self._replicas = replicas
        self.lease = lease
        self._image: MetadataImage | None = None
        self._configs: dict[TopicId, TopicConfig] = {}
        #: by what requests call them; as of this image. No more than three names for each replica here
        self._found: dict[tuple[str, str, int], Partition] = {}

    @property
    def image(self) -> MetadataImage:
        if self._image is None:
            # A definite refusal: nothing was done.
            raise BrokerFenced(f"broker {self._broker_id} is starting; ask another one")
        return self._image

    def image_changed(self, image: MetadataImage) -> None:
        """From when the broker has applied its own registration."""
        before, self._image = self._image, image
        # Nothing else makes another replica of a name: one goes only because the metadata says so.
        self._found.clear()
        if (
            before is None
            or before.topics is not image.topics
            or before.cluster_configs is not image.cluster_configs
        ):
            self._configs.clear()

    def topic(self, name: str, topic_id: str) -> TopicImage:
        """By name, by id, or by both, which then have to agree (rule 43)."""
        return find_topic(self.image, name, topic_id)

    def find(self, name: str, topic_id: str, partition: int) -> Partition:
        """The replica on this broker; an error names the leader where there is none."""
        known_as = (name, topic_id, partition)
        found = self._found.get(known_as)
        if found is None:
            found = self._found[known_as] = self._look_up(name, topic_id, partition)
        return found

    def _look_up(self, name: str, topic_id: str, partition: int) -> Partition:
        topic = self.topic(name, topic_id)
        if not 0 <= partition < len(topic.partitions):
            raise UnknownTopicOrPartition(
                f"topic {topic.name} has {len(topic.partitions)} partition(s), and no partition {partition}",
                topic=topic.name,
                partition=partition,
            )
        found = self._replicas.get(topic.topic_id, PartitionId(partition))
        if found is None:
            raise self.not_here(topic.partitions[partition])
        if isinstance(found, QuorateError):
            raise found
        return found

    def find_by_id(self, topic_id: str, partition: int) -> Partition:
        """For other brokers, which know topics by their ids alone."""
        return self.find("", topic_id, partition)

    def not_here(self, partition: PartitionImage) -> NotLeaderOrFollower:
        """Says who leads, as far as this broker knows."""
        image = self.image
        topic = image.topics[partition.topic_id]
        leader = image.brokers.get(partition.leader)
        if leader is None:
            reason = "nobody does right now"
        elif partition.leader == self._broker_id:
            reason = "it is about to"
        else:
            reason = f"broker {partition.leader} does"
        return NotLeaderOrFollower(
            f"broker {self._broker_id} does not lead {topic.name}-{partition.partition}; {reason}",
            topic=topic.name,
            partition=partition.partition,
            leader=partition.leader,
            leader_epoch=partition.leader_epoch,
            leader_address=leader.address if leader is not None else None,
        )

    def topic_config(self, topic_id: TopicId) -> TopicConfig:
        """Every setting of a topic, as this broker has to act on it."""
        found = self._configs.get(topic_id)
        if found is None:
            if len(self._configs) >= _CONFIGS_KEPT_MAX:
                self._configs.clear()
            image = self.image
            found = self._configs[topic_id] = topic_config_of(self._config, image, image.topics[topic_id])
        return found


def topic_config_of(config: NodeConfig, image: MetadataImage, topic: TopicImage) -> TopicConfig:
    """The topic's own settings, else the cluster's, else this node's.

    Not checked against this node's limits: what the metadata says is in force, and a batch that does not fit
    into a message never gets here.
    """
    return config.topic_defaults.with_overrides({**image.cluster_configs, **topic.configs})
