"""What administration answers, as plain values.

The fields have the names of the messages in admin.proto, where each is described; here stands what differs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from quorate.client.listed_offsets import ListedOffset
from quorate.core.ids import TopicPartition
from quorate.errors import QuorateError

__all__ = [
    "BrokerDescription",
    "ClusterDescription",
    "ConfigEntry",
    "ControllerDescription",
    "DecommissionProgress",
    "ElectionResult",
    "ListedOffset",
    "PartitionDescription",
    "QuorumDescription",
    "Reassignment",
    "RecoveryCandidate",
    "RecoveryResult",
    "RestartCheck",
    "TopicDescription",
    "TopicListing",
    "VoterDescription",
]


@dataclass(frozen=True, slots=True)
class TopicListing:
    name: str
    topic_id: str
    partition_count: int
    replication_factor: int


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    name: str
    value: str
    #: "topic", "broker", "cluster" or "default"; "unknown": one that only newer brokers have
    source: str


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    partition: int
    #: None: offline
    leader: int | None
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]
    #: the offsets and the size are None where the leader could not be asked
    log_start_offset: int | None
    high_watermark: int | None
    size_bytes: int | None
    is_recovering: bool
    #: changed to durability=fsync, and not everything is synced yet
    is_sync_pending: bool
    #: chosen by an operator or uncleanly, the leader may lack acknowledged records, and leads still
    may_lack_records: bool
    #: why it cannot be served; None: it can
    error: QuorateError | None


@dataclass(frozen=True, slots=True)
class TopicDescription:
    name: str
    topic_id: str
    replication_factor: int
    #: by name
    configs: Mapping[str, ConfigEntry]
    partitions: tuple[PartitionDescription, ...]


@dataclass(frozen=True, slots=True)
class BrokerDescription:
    broker_id: int
    broker_epoch: int
    address: str
    rack: str
    is_fenced: bool
    is_shutting_down: bool
    is_draining: bool
    leader_count: int
    replica_count: int


@dataclass(frozen=True, slots=True)
class ControllerDescription:
    node_id: int
    address: str


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    cluster_id: str
    #: None: nobody is the active controller
    controller: int | None
    brokers: tuple[BrokerDescription, ...]
    controllers: tuple[ControllerDescription, ...]
    topic_count: int
    partition_count: int
    offline_partition_count: int
    under_replicated_partition_count: int
    under_min_isr_partition_count: int
    reassigning_partition_count: int
    recovering_partition_count: int
    feature_level: int
    metadata_offset: int
    unclean_election_topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class VoterDescription:
    node_id: int
    directory_id: str
    address: str
    state: str
    match_index: int
    last_heard_ms: int
    applied_index: int | None
    digest: str
    is_digest_equal: bool | None


@dataclass(frozen=True, slots=True)
class QuorumDescription:
    leader: int
    term: int
    commit_index: int
    voters: tuple[VoterDescription, ...]
    learners: tuple[VoterDescription, ...]
    digest_offset: int
    digest: str


@dataclass(frozen=True, slots=True)
class ElectionResult:
    moved: tuple[TopicPartition, ...]
    #: why each of the others kept its leader
    refused: Mapping[TopicPartition, QuorateError]


@dataclass(frozen=True, slots=True)
class Reassignment:
    partition: TopicPartition
    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RecoveryCandidate:
    broker_id: int
    last_epoch: int
    log_end_offset: int
    is_missing: bool


@dataclass(frozen=True, slots=True)
class RecoveryResult:
    leader: int
    candidates: tuple[RecoveryCandidate, ...]


@dataclass(frozen=True, slots=True)
class RestartCheck:
    is_safe: bool
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DecommissionProgress:
    remaining_replica_count: int
    moving_count: int
    is_removed: bool
