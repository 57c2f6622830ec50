"""The cluster's metadata at one offset, as an immutable value.

Whoever holds an image may keep it, compare it or read it in pieces over many turns of the event loop while
newer ones are made beside it: nothing in it ever changes. A newer image shares with the older one all that
did not change (persistent maps), so making one costs what changed and not what is there.

An image holds facts, not rules. What follows from the facts (who may lead, what MinISR is in force) is
computed by whoever asks; what may become a fact is decided by the controller before a record is written.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace
from typing import Final

from immutables import Map

from quorate.core.ids import BrokerEpoch, BrokerId, LeaderEpoch, PartitionId, ProducerId, TopicId, TopicName

__all__ = [
    "EMPTY_IMAGE",
    "FORGOTTEN_TOPICS_MAX",
    "NO_LEADER",
    "UNCLEAN_EPOCHS_MAX",
    "BrokerImage",
    "MetadataImage",
    "PartitionImage",
    "Recovery",
    "RemovedTopicImage",
    "TopicImage",
]

#: Ids of deleted topics that are remembered when nobody holds anything of them any more: a quarter of a
#: megabyte in each snapshot. A copy of a creation that outlives so many deletions of *other* topics is not
#: noticed.
FORGOTTEN_TOPICS_MAX: Final = 10_000
#: Of a partition, the newest: they are asked whether there was one between a record's epoch and the leader's,
#: and a later one answers that as well as those before it.
UNCLEAN_EPOCHS_MAX: Final = 16
#: the leader of a partition that is offline
NO_LEADER: Final = BrokerId(-1)
_FIRST_PRODUCER_ID: Final = ProducerId(0)


class Recovery(enum.Enum):
    NORMAL = "normal"
    #: an operator chose the leader; the ISR stays at one until it has confirmed (rule 34)
    RECOVERING = "recovering"


@dataclass(frozen=True, slots=True)
class BrokerImage:
    broker_id: BrokerId
    #: the offset of its registration (rule 2)
    broker_epoch: BrokerEpoch
    #: drawn at the start of its process (rule 35)
    incarnation_id: str
    directory_id: str
    address: str
    #: empty: none
    rack: str
    feature_level_min: int
    feature_level_max: int
    is_fenced: bool
    is_shutting_down: bool
    is_draining: bool
    #: its disk held this number in the page cache at least; None: not known (rule 30)
    cache_witness: int | None = None
    #: its directory held this number on the device at least; 0: not known (rule 30)
    device_witness: int = 0

    @property
    def is_active(self) -> bool:
        """May join an ISR, and stay in one that the leader proposes."""
        return not self.is_fenced and not self.is_shutting_down

    def is_as(self, other: BrokerImage | None) -> bool:
        """But for the numbers of its witnesses, of which there are others all the time."""
        if other is None:
            return False
        alike = replace(self, cache_witness=other.cache_witness, device_witness=other.device_witness)
        return alike == other


@dataclass(frozen=True, slots=True)
class PartitionImage:
    topic_id: TopicId
    partition: PartitionId
    #: the preferred leader first; no doubles
    replicas: tuple[BrokerId, ...]
    #: sorted; part of ``replicas``; the leader is always in it
    isr: tuple[BrokerId, ...]
    #: sorted; part of ``replicas``; apart from ``isr`` (rule 29)
    elr: tuple[BrokerId, ...]
    #: sorted; were in ISR or ELR when a lossy start took them out; for ``recover`` alone (rule 33)
    last_known_elr: tuple[BrokerId, ...]
    #: NO_LEADER: offline
    leader: BrokerId
    leader_epoch: LeaderEpoch
    partition_epoch: int
    adding_replicas: tuple[BrokerId, ...] = ()
    removing_replicas: tuple[BrokerId, ...] = ()
    recovery: Recovery = Recovery.NORMAL
    #: leader epochs whose leader may have lacked acknowledged records (rule 11); the newest, in order
    unclean_leader_epochs: tuple[LeaderEpoch, ...] = ()
    #: members of ISR and ELR hold on their devices all that was committed (rule 45)
    is_synced: bool = False

    def unclean_leader_epochs_and(self, leader_epoch: LeaderEpoch) -> tuple[LeaderEpoch, ...]:
        """After one more unclean election."""
        return (*self.unclean_leader_epochs, leader_epoch)[-UNCLEAN_EPOCHS_MAX:]


@dataclass(frozen=True, slots=True)
class TopicImage:
    topic_id: TopicId
    name: TopicName
    #: what was set for this topic alone
    configs: Map[str, str]
    #: by number, gap-free
    partitions: tuple[PartitionImage, ...]
    #: how often a setting of its own was written: a change is made on the settings that somebody has seen,
    #: and a copy of it finds that they are others by now
    config_epoch: int = 0


@dataclass(frozen=True, slots=True)
class RemovedTopicImage:
    """Deleted; kept until every broker has said that it holds nothing of it (rule 42)."""

    topic_id: TopicId
    name: TopicName
    removed_at_ms: int
    #: sorted
    broker_ids: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True)
class MetadataImage:
    #: of the last entry that was applied (inclusive); 0: none
    offset: int = 0
    feature_level: int = 0
    cluster_id: str = ""
    #: 0: not fixed yet
    default_replication_factor: int = 0
    brokers: Map[BrokerId, BrokerImage] = field(default_factory=Map)
    topics: Map[TopicId, TopicImage] = field(default_factory=Map)
    topic_ids: Map[TopicName, TopicId] = field(default_factory=Map)
    removed_topics: Map[TopicId, RemovedTopicImage] = field(default_factory=Map)
    #: deleted topics that every broker has let go, the last one at the end; no more than
    #: ``FORGOTTEN_TOPICS_MAX``. A late copy of their creation must not make them again: their epochs would
    #: begin anew (rule 2)
    forgotten_topics: tuple[TopicId, ...] = ()
    #: settings of every topic that has none of its own
    cluster_configs: Map[str, str] = field(default_factory=Map)
    #: as ``TopicImage.config_epoch``
    cluster_config_epoch: int = 0
    #: the first that was not given away yet
    next_producer_id: ProducerId = _FIRST_PRODUCER_ID
    #: sum over everything above but the offset, kept up to date by ``quorate.metadata.delta``
    digest: int = 0

    def __repr__(self) -> str:
        # asyncio, among others, puts results of tasks into its messages: not a hundred thousand partitions.
        return f"<MetadataImage at {self.offset}: {len(self.topics)} topics, digest {self.digest:032x}>"

    def topic_named(self, name: TopicName) -> TopicImage | None:
        topic_id = self.topic_ids.get(name)
        return None if topic_id is None else self.topics[topic_id]

    def partition(self, topic_id: TopicId, partition: PartitionId) -> PartitionImage | None:
        topic = self.topics.get(topic_id)
        if topic is None or not 0 <= partition < len(topic.partitions):
            return None
        return topic.partitions[partition]


EMPTY_IMAGE: Final = MetadataImage()
