"""What all shards of a broker share: the metadata as groups see it, time, bounds, and the lease."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from quorate.broker.groups.group import Groups
from quorate.broker.groups.records import partition_of_group
from quorate.broker.groups.settings import GroupSettings
from quorate.broker.groups.topics import TopicCatalog
from quorate.broker.hosted import Hosted
from quorate.core.clock import Clock
from quorate.core.config import NodeConfig
from quorate.core.ids import BrokerId, PartitionId
from quorate.core.topic_names import OFFSETS_TOPIC
from quorate.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    GroupError,
    GroupFull,
    NotCoordinator,
)
from quorate.metadata.changes import MetadataDelta
from quorate.metadata.image import NO_LEADER, MetadataImage, TopicImage
from quorate.storage.retention_time import RetentionTime

__all__ = ["GroupContext", "changes_what_is_read"]

#: A message carries more than the batch: names and ids (as in ``NodeConfig``).
_MESSAGE_OVERHEAD_BYTES: Final = 1 << 20


class GroupContext:
    def __init__(
        self, config: NodeConfig, hosted: Hosted, clock: Clock, *, group_count: Callable[[], int]
    ) -> None:
        """``group_count``: of all groups that this broker coordinates."""
        self.broker_id: BrokerId = config.node_id
        self.settings = GroupSettings.of(config.groups)
        self.hosted = hosted
        self.clock = clock
        #: for what goes by age: offsets, and groups without members
        self.retention_time = RetentionTime(clock)
        self.group_count = group_count
        #: what other brokers can be sent
        self._message_bytes_max = config.socket_request_max_bytes - _MESSAGE_OVERHEAD_BYTES
        self._catalog: TopicCatalog | None = None

    # -- topics

    @property
    def topics(self) -> TopicCatalog:
        if self._catalog is None:
            self._catalog = TopicCatalog(self.hosted.image)
        return self._catalog

    def image_changed(self, delta: MetadataDelta | None) -> bool:
        """Whether groups may have something else to read. None: everything is new."""
        is_other = delta is None or changes_what_is_read(delta)
        if is_other or delta is None or delta.brokers:
            self._catalog = None
        return is_other

    # -- who coordinates

    def offsets_topic(self) -> TopicImage:
        topic = self.hosted.image.topic_named(OFFSETS_TOPIC)
        if topic is None:
            raise CoordinatorNotAvailable(
                f"the topic {OFFSETS_TOPIC} does not exist yet; FindCoordinators makes it"
            )
        return topic

    def partition_of(self, group: str) -> PartitionId:
        return partition_of_group(group, len(self.offsets_topic().partitions))

    def elsewhere(self, number: PartitionId) -> GroupError:
        """For whoever asks this broker, and it does not coordinate, or not yet."""
        image = self.hosted.image
        leader = _leader(image, number)
        if leader == NO_LEADER:
            return CoordinatorNotAvailable(f"{OFFSETS_TOPIC}-{number} has no leader", partition=number)
        if leader == self.broker_id:
            return CoordinatorLoadInProgress(
                f"broker {leader} is about to lead {OFFSETS_TOPIC}-{number}", partition=number
            )
        broker = image.brokers.get(leader)
        return NotCoordinator(
            f"broker {leader} coordinates this group, and not {self.broker_id}",
            partition=number,
            broker_id=leader,
            address=None if broker is None else broker.address,
        )

    def not_coordinator(self, number: PartitionId) -> NotCoordinator:
        """For whoever waited when the leadership ended."""
        error = self.elsewhere(number)
        if isinstance(error, NotCoordinator):
            return error
        return NotCoordinator(f"this broker does not coordinate the group any more: {error.message}")

    # -- bounds

    def check_room(self, groups: Groups, group: str) -> None:
        """Before something is written down for a group of the shard that has ``groups``."""
        groups_max = self.settings.groups_max
        if group not in groups and self.group_count() >= groups_max:
            raise GroupFull(
                f"this broker coordinates {groups_max} groups, as many as group.max.count allows",
                group_max_count=groups_max,
            )

    def batch_bytes_max(self) -> int:
        """No larger than followers can be sent, whatever the topic says."""
        topic = self.offsets_topic()
        return min(self.hosted.topic_config(topic.topic_id).max_message_bytes, self._message_bytes_max)


def changes_what_is_read(delta: MetadataDelta) -> bool:
    """Topics or partitions have come or gone; not so for a new leader, nor for another ISR."""
    if delta.created_topics or delta.removed_topics:
        return True
    before, after = delta.before.topics, delta.after.topics
    return any(
        len(before[topic_id].partitions) != len(after[topic_id].partitions)
        for topic_id in {partition.topic_id for partition in delta.partitions}
    )


def _leader(image: MetadataImage, number: PartitionId) -> BrokerId:
    topic = image.topic_named(OFFSETS_TOPIC)
    if topic is None or number >= len(topic.partitions):
        return NO_LEADER
    return topic.partitions[number].leader
