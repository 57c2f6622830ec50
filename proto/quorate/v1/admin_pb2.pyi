from quorate.v1 import errors_pb2 as _errors_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ConfigSource(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CONFIG_SOURCE_UNSPECIFIED: _ClassVar[ConfigSource]
    CONFIG_SOURCE_TOPIC: _ClassVar[ConfigSource]
    CONFIG_SOURCE_BROKER: _ClassVar[ConfigSource]
    CONFIG_SOURCE_DEFAULT: _ClassVar[ConfigSource]
    CONFIG_SOURCE_CLUSTER: _ClassVar[ConfigSource]
CONFIG_SOURCE_UNSPECIFIED: ConfigSource
CONFIG_SOURCE_TOPIC: ConfigSource
CONFIG_SOURCE_BROKER: ConfigSource
CONFIG_SOURCE_DEFAULT: ConfigSource
CONFIG_SOURCE_CLUSTER: ConfigSource

class CreateTopicRequest(_message.Message):
    __slots__ = ("name", "partition_count", "replication_factor", "configs", "topic_id", "assignments", "validate_only")
    class ConfigsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    PARTITION_COUNT_FIELD_NUMBER: _ClassVar[int]
    REPLICATION_FACTOR_FIELD_NUMBER: _ClassVar[int]
    CONFIGS_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENTS_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    name: str
    partition_count: int
    replication_factor: int
    configs: _containers.ScalarMap[str, str]
    topic_id: str
    assignments: _containers.RepeatedCompositeFieldContainer[ReplicaAssignment]
    validate_only: bool
    def __init__(self, name: _Optional[str] = ..., partition_count: _Optional[int] = ..., replication_factor: _Optional[int] = ..., configs: _Optional[_Mapping[str, str]] = ..., topic_id: _Optional[str] = ..., assignments: _Optional[_Iterable[_Union[ReplicaAssignment, _Mapping]]] = ..., validate_only: _Optional[bool] = ...) -> None: ...

class ReplicaAssignment(_message.Message):
    __slots__ = ("partition", "replicas")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    partition: int
    replicas: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, partition: _Optional[int] = ..., replicas: _Optional[_Iterable[int]] = ...) -> None: ...

class CreateTopicResponse(_message.Message):
    __slots__ = ("topic",)
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    topic: TopicDescription
    def __init__(self, topic: _Optional[_Union[TopicDescription, _Mapping]] = ...) -> None: ...

class ListTopicsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListTopicsResponse(_message.Message):
    __slots__ = ("topics",)
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedCompositeFieldContainer[TopicListing]
    def __init__(self, topics: _Optional[_Iterable[_Union[TopicListing, _Mapping]]] = ...) -> None: ...

class TopicListing(_message.Message):
    __slots__ = ("name", "topic_id", "partition_count", "replication_factor")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_COUNT_FIELD_NUMBER: _ClassVar[int]
    REPLICATION_FACTOR_FIELD_NUMBER: _ClassVar[int]
    name: str
    topic_id: str
    partition_count: int
    replication_factor: int
    def __init__(self, name: _Optional[str] = ..., topic_id: _Optional[str] = ..., partition_count: _Optional[int] = ..., replication_factor: _Optional[int] = ...) -> None: ...

class DescribeTopicRequest(_message.Message):
    __slots__ = ("name", "topic_id")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    name: str
    topic_id: str
    def __init__(self, name: _Optional[str] = ..., topic_id: _Optional[str] = ...) -> None: ...

class DescribeTopicResponse(_message.Message):
    __slots__ = ("topic",)
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    topic: TopicDescription
    def __init__(self, topic: _Optional[_Union[TopicDescription, _Mapping]] = ...) -> None: ...

class TopicDescription(_message.Message):
    __slots__ = ("name", "topic_id", "replication_factor", "configs", "partitions", "config_epoch")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    REPLICATION_FACTOR_FIELD_NUMBER: _ClassVar[int]
    CONFIGS_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    CONFIG_EPOCH_FIELD_NUMBER: _ClassVar[int]
    name: str
    topic_id: str
    replication_factor: int
    configs: _containers.RepeatedCompositeFieldContainer[ConfigEntry]
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionDescription]
    config_epoch: int
    def __init__(self, name: _Optional[str] = ..., topic_id: _Optional[str] = ..., replication_factor: _Optional[int] = ..., configs: _Optional[_Iterable[_Union[ConfigEntry, _Mapping]]] = ..., partitions: _Optional[_Iterable[_Union[PartitionDescription, _Mapping]]] = ..., config_epoch: _Optional[int] = ...) -> None: ...

class ConfigEntry(_message.Message):
    __slots__ = ("name", "value", "source")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: str
    source: ConfigSource
    def __init__(self, name: _Optional[str] = ..., value: _Optional[str] = ..., source: _Optional[_Union[ConfigSource, str]] = ...) -> None: ...

class PartitionDescription(_message.Message):
    __slots__ = ("partition", "leader", "leader_epoch", "replicas", "isr", "log_start_offset", "high_watermark", "size_bytes", "error", "elr", "partition_epoch", "adding_replicas", "removing_replicas", "is_recovering", "is_sync_pending", "may_lack_records")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    ISR_FIELD_NUMBER: _ClassVar[int]
    LOG_START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    HIGH_WATERMARK_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ELR_FIELD_NUMBER: _ClassVar[int]
    PARTITION_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ADDING_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    REMOVING_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    IS_RECOVERING_FIELD_NUMBER: _ClassVar[int]
    IS_SYNC_PENDING_FIELD_NUMBER: _ClassVar[int]
    MAY_LACK_RECORDS_FIELD_NUMBER: _ClassVar[int]
    partition: int
    leader: int
    leader_epoch: int
    replicas: _containers.RepeatedScalarFieldContainer[int]
    isr: _containers.RepeatedScalarFieldContainer[int]
    log_start_offset: int
    high_watermark: int
    size_bytes: int
    error: _errors_pb2.ErrorDetail
    elr: _containers.RepeatedScalarFieldContainer[int]
    partition_epoch: int
    adding_replicas: _containers.RepeatedScalarFieldContainer[int]
    removing_replicas: _containers.RepeatedScalarFieldContainer[int]
    is_recovering: bool
    is_sync_pending: bool
    may_lack_records: bool
    def __init__(self, partition: _Optional[int] = ..., leader: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., replicas: _Optional[_Iterable[int]] = ..., isr: _Optional[_Iterable[int]] = ..., log_start_offset: _Optional[int] = ..., high_watermark: _Optional[int] = ..., size_bytes: _Optional[int] = ..., error: _Optional[_Union[_errors_pb2.ErrorDetail, _Mapping]] = ..., elr: _Optional[_Iterable[int]] = ..., partition_epoch: _Optional[int] = ..., adding_replicas: _Optional[_Iterable[int]] = ..., removing_replicas: _Optional[_Iterable[int]] = ..., is_recovering: _Optional[bool] = ..., is_sync_pending: _Optional[bool] = ..., may_lack_records: _Optional[bool] = ...) -> None: ...

class DeleteTopicRequest(_message.Message):
    __slots__ = ("name", "topic_id")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    name: str
    topic_id: str
    def __init__(self, name: _Optional[str] = ..., topic_id: _Optional[str] = ...) -> None: ...

class DeleteTopicResponse(_message.Message):
    __slots__ = ("topic_id",)
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    def __init__(self, topic_id: _Optional[str] = ...) -> None: ...

class CreatePartitionsRequest(_message.Message):
    __slots__ = ("name", "partition_count", "assignments", "validate_only", "topic_id")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PARTITION_COUNT_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENTS_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    name: str
    partition_count: int
    assignments: _containers.RepeatedCompositeFieldContainer[ReplicaAssignment]
    validate_only: bool
    topic_id: str
    def __init__(self, name: _Optional[str] = ..., partition_count: _Optional[int] = ..., assignments: _Optional[_Iterable[_Union[ReplicaAssignment, _Mapping]]] = ..., validate_only: _Optional[bool] = ..., topic_id: _Optional[str] = ...) -> None: ...

class CreatePartitionsResponse(_message.Message):
    __slots__ = ("topic",)
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    topic: TopicDescription
    def __init__(self, topic: _Optional[_Union[TopicDescription, _Mapping]] = ...) -> None: ...

class ConfigChange(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: str
    def __init__(self, name: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class AlterConfigsRequest(_message.Message):
    __slots__ = ("topic", "changes", "validate_only", "topic_id", "config_epoch")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    CONFIG_EPOCH_FIELD_NUMBER: _ClassVar[int]
    topic: str
    changes: _containers.RepeatedCompositeFieldContainer[ConfigChange]
    validate_only: bool
    topic_id: str
    config_epoch: int
    def __init__(self, topic: _Optional[str] = ..., changes: _Optional[_Iterable[_Union[ConfigChange, _Mapping]]] = ..., validate_only: _Optional[bool] = ..., topic_id: _Optional[str] = ..., config_epoch: _Optional[int] = ...) -> None: ...

class AlterConfigsResponse(_message.Message):
    __slots__ = ("configs", "topic_id", "config_epoch")
    CONFIGS_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    CONFIG_EPOCH_FIELD_NUMBER: _ClassVar[int]
    configs: _containers.RepeatedCompositeFieldContainer[ConfigEntry]
    topic_id: str
    config_epoch: int
    def __init__(self, configs: _Optional[_Iterable[_Union[ConfigEntry, _Mapping]]] = ..., topic_id: _Optional[str] = ..., config_epoch: _Optional[int] = ...) -> None: ...

class DescribeClusterRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DescribeClusterResponse(_message.Message):
    __slots__ = ("cluster_id", "controller", "brokers", "topic_count", "partition_count", "offline_partition_count", "under_replicated_partition_count", "under_min_isr_partition_count", "reassigning_partition_count", "feature_level", "metadata_offset", "controllers", "unclean_election_topics", "recovering_partition_count", "config_epoch")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_FIELD_NUMBER: _ClassVar[int]
    BROKERS_FIELD_NUMBER: _ClassVar[int]
    TOPIC_COUNT_FIELD_NUMBER: _ClassVar[int]
    PARTITION_COUNT_FIELD_NUMBER: _ClassVar[int]
    OFFLINE_PARTITION_COUNT_FIELD_NUMBER: _ClassVar[int]
    UNDER_REPLICATED_PARTITION_COUNT_FIELD_NUMBER: _ClassVar[int]
    UNDER_MIN_ISR_PARTITION_COUNT_FIELD_NUMBER: _ClassVar[int]
    REASSIGNING_PARTITION_COUNT_FIELD_NUMBER: _ClassVar[int]
    FEATURE_LEVEL_FIELD_NUMBER: _ClassVar[int]
    METADATA_OFFSET_FIELD_NUMBER: _ClassVar[int]
    CONTROLLERS_FIELD_NUMBER: _ClassVar[int]
    UNCLEAN_ELECTION_TOPICS_FIELD_NUMBER: _ClassVar[int]
    RECOVERING_PARTITION_COUNT_FIELD_NUMBER: _ClassVar[int]
    CONFIG_EPOCH_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    controller: int
    brokers: _containers.RepeatedCompositeFieldContainer[BrokerDescription]
    topic_count: int
    partition_count: int
    offline_partition_count: int
    under_replicated_partition_count: int
    under_min_isr_partition_count: int
    reassigning_partition_count: int
    feature_level: int
    metadata_offset: int
    controllers: _containers.RepeatedCompositeFieldContainer[ControllerDescription]
    unclean_election_topics: _containers.RepeatedScalarFieldContainer[str]
    recovering_partition_count: int
    config_epoch: int
    def __init__(self, cluster_id: _Optional[str] = ..., controller: _Optional[int] = ..., brokers: _Optional[_Iterable[_Union[BrokerDescription, _Mapping]]] = ..., topic_count: _Optional[int] = ..., partition_count: _Optional[int] = ..., offline_partition_count: _Optional[int] = ..., under_replicated_partition_count: _Optional[int] = ..., under_min_isr_partition_count: _Optional[int] = ..., reassigning_partition_count: _Optional[int] = ..., feature_level: _Optional[int] = ..., metadata_offset: _Optional[int] = ..., controllers: _Optional[_Iterable[_Union[ControllerDescription, _Mapping]]] = ..., unclean_election_topics: _Optional[_Iterable[str]] = ..., recovering_partition_count: _Optional[int] = ..., config_epoch: _Optional[int] = ...) -> None: ...

class ControllerDescription(_message.Message):
    __slots__ = ("node_id", "address")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    address: str
    def __init__(self, node_id: _Optional[int] = ..., address: _Optional[str] = ...) -> None: ...

class BrokerDescription(_message.Message):
    __slots__ = ("broker_id", "broker_epoch", "address", "rack", "is_fenced", "is_shutting_down", "is_draining", "leader_count", "replica_count")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    RACK_FIELD_NUMBER: _ClassVar[int]
    IS_FENCED_FIELD_NUMBER: _ClassVar[int]
    IS_SHUTTING_DOWN_FIELD_NUMBER: _ClassVar[int]
    IS_DRAINING_FIELD_NUMBER: _ClassVar[int]
    LEADER_COUNT_FIELD_NUMBER: _ClassVar[int]
    REPLICA_COUNT_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    broker_epoch: int
    address: str
    rack: str
    is_fenced: bool
    is_shutting_down: bool
    is_draining: bool
    leader_count: int
    replica_count: int
    def __init__(self, broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ..., address: _Optional[str] = ..., rack: _Optional[str] = ..., is_fenced: _Optional[bool] = ..., is_shutting_down: _Optional[bool] = ..., is_draining: _Optional[bool] = ..., leader_count: _Optional[int] = ..., replica_count: _Optional[int] = ...) -> None: ...

class DescribeQuorumRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DescribeQuorumResponse(_message.Message):
    __slots__ = ("leader", "term", "commit_index", "voters", "digest_offset", "digest", "learners")
    LEADER_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    COMMIT_INDEX_FIELD_NUMBER: _ClassVar[int]
    VOTERS_FIELD_NUMBER: _ClassVar[int]
    DIGEST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    LEARNERS_FIELD_NUMBER: _ClassVar[int]
    leader: int
    term: int
    commit_index: int
    voters: _containers.RepeatedCompositeFieldContainer[VoterDescription]
    digest_offset: int
    digest: str
    learners: _containers.RepeatedCompositeFieldContainer[VoterDescription]
    def __init__(self, leader: _Optional[int] = ..., term: _Optional[int] = ..., commit_index: _Optional[int] = ..., voters: _Optional[_Iterable[_Union[VoterDescription, _Mapping]]] = ..., digest_offset: _Optional[int] = ..., digest: _Optional[str] = ..., learners: _Optional[_Iterable[_Union[VoterDescription, _Mapping]]] = ...) -> None: ...

class VoterDescription(_message.Message):
    __slots__ = ("node_id", "directory_id", "address", "state", "match_index", "last_heard_ms", "applied_index", "digest", "is_digest_equal")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    MATCH_INDEX_FIELD_NUMBER: _ClassVar[int]
    LAST_HEARD_MS_FIELD_NUMBER: _ClassVar[int]
    APPLIED_INDEX_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    IS_DIGEST_EQUAL_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    directory_id: str
    address: str
    state: str
    match_index: int
    last_heard_ms: int
    applied_index: int
    digest: str
    is_digest_equal: bool
    def __init__(self, node_id: _Optional[int] = ..., directory_id: _Optional[str] = ..., address: _Optional[str] = ..., state: _Optional[str] = ..., match_index: _Optional[int] = ..., last_heard_ms: _Optional[int] = ..., applied_index: _Optional[int] = ..., digest: _Optional[str] = ..., is_digest_equal: _Optional[bool] = ...) -> None: ...

class AddVoterRequest(_message.Message):
    __slots__ = ("node_id", "address")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    address: str
    def __init__(self, node_id: _Optional[int] = ..., address: _Optional[str] = ...) -> None: ...

class AddVoterResponse(_message.Message):
    __slots__ = ("directory_id",)
    DIRECTORY_ID_FIELD_NUMBER: _ClassVar[int]
    directory_id: str
    def __init__(self, directory_id: _Optional[str] = ...) -> None: ...

class RemoveVoterRequest(_message.Message):
    __slots__ = ("node_id", "directory_id")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_ID_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    directory_id: str
    def __init__(self, node_id: _Optional[int] = ..., directory_id: _Optional[str] = ...) -> None: ...

class RemoveVoterResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class TransferControllerRequest(_message.Message):
    __slots__ = ("node_id",)
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    def __init__(self, node_id: _Optional[int] = ...) -> None: ...

class TransferControllerResponse(_message.Message):
    __slots__ = ("controller",)
    CONTROLLER_FIELD_NUMBER: _ClassVar[int]
    controller: int
    def __init__(self, controller: _Optional[int] = ...) -> None: ...

class UpdateFeatureLevelRequest(_message.Message):
    __slots__ = ("level",)
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    level: int
    def __init__(self, level: _Optional[int] = ...) -> None: ...

class UpdateFeatureLevelResponse(_message.Message):
    __slots__ = ("level",)
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    level: int
    def __init__(self, level: _Optional[int] = ...) -> None: ...

class PartitionName(_message.Message):
    __slots__ = ("topic", "partition", "topic_id")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    topic_id: str
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., topic_id: _Optional[str] = ...) -> None: ...

class ElectPreferredLeadersRequest(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionName]
    def __init__(self, partitions: _Optional[_Iterable[_Union[PartitionName, _Mapping]]] = ...) -> None: ...

class ElectPreferredLeadersResponse(_message.Message):
    __slots__ = ("moved", "refused")
    MOVED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    moved: _containers.RepeatedCompositeFieldContainer[PartitionName]
    refused: _containers.RepeatedCompositeFieldContainer[PartitionRefusal]
    def __init__(self, moved: _Optional[_Iterable[_Union[PartitionName, _Mapping]]] = ..., refused: _Optional[_Iterable[_Union[PartitionRefusal, _Mapping]]] = ...) -> None: ...

class PartitionRefusal(_message.Message):
    __slots__ = ("partition", "error")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    partition: PartitionName
    error: _errors_pb2.ErrorDetail
    def __init__(self, partition: _Optional[_Union[PartitionName, _Mapping]] = ..., error: _Optional[_Union[_errors_pb2.ErrorDetail, _Mapping]] = ...) -> None: ...

class PartitionMove(_message.Message):
    __slots__ = ("partition", "replicas")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    partition: PartitionName
    replicas: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, partition: _Optional[_Union[PartitionName, _Mapping]] = ..., replicas: _Optional[_Iterable[int]] = ...) -> None: ...

class ReassignPartitionsRequest(_message.Message):
    __slots__ = ("moves", "validate_only")
    MOVES_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    moves: _containers.RepeatedCompositeFieldContainer[PartitionMove]
    validate_only: bool
    def __init__(self, moves: _Optional[_Iterable[_Union[PartitionMove, _Mapping]]] = ..., validate_only: _Optional[bool] = ...) -> None: ...

class ReassignPartitionsResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListReassignmentsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListReassignmentsResponse(_message.Message):
    __slots__ = ("reassignments",)
    REASSIGNMENTS_FIELD_NUMBER: _ClassVar[int]
    reassignments: _containers.RepeatedCompositeFieldContainer[Reassignment]
    def __init__(self, reassignments: _Optional[_Iterable[_Union[Reassignment, _Mapping]]] = ...) -> None: ...

class Reassignment(_message.Message):
    __slots__ = ("partition", "replicas", "adding_replicas", "removing_replicas", "isr")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    ADDING_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    REMOVING_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    ISR_FIELD_NUMBER: _ClassVar[int]
    partition: PartitionName
    replicas: _containers.RepeatedScalarFieldContainer[int]
    adding_replicas: _containers.RepeatedScalarFieldContainer[int]
    removing_replicas: _containers.RepeatedScalarFieldContainer[int]
    isr: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, partition: _Optional[_Union[PartitionName, _Mapping]] = ..., replicas: _Optional[_Iterable[int]] = ..., adding_replicas: _Optional[_Iterable[int]] = ..., removing_replicas: _Optional[_Iterable[int]] = ..., isr: _Optional[_Iterable[int]] = ...) -> None: ...

class RecoverPartitionRequest(_message.Message):
    __slots__ = ("partition", "leader", "accept_missing_replicas", "leader_epoch")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    ACCEPT_MISSING_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    partition: PartitionName
    leader: int
    accept_missing_replicas: bool
    leader_epoch: int
    def __init__(self, partition: _Optional[_Union[PartitionName, _Mapping]] = ..., leader: _Optional[int] = ..., accept_missing_replicas: _Optional[bool] = ..., leader_epoch: _Optional[int] = ...) -> None: ...

class RecoverPartitionResponse(_message.Message):
    __slots__ = ("leader", "candidates")
    LEADER_FIELD_NUMBER: _ClassVar[int]
    CANDIDATES_FIELD_NUMBER: _ClassVar[int]
    leader: int
    candidates: _containers.RepeatedCompositeFieldContainer[RecoveryCandidate]
    def __init__(self, leader: _Optional[int] = ..., candidates: _Optional[_Iterable[_Union[RecoveryCandidate, _Mapping]]] = ...) -> None: ...

class RecoveryCandidate(_message.Message):
    __slots__ = ("broker_id", "last_epoch", "log_end_offset", "is_missing")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    LAST_EPOCH_FIELD_NUMBER: _ClassVar[int]
    LOG_END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    IS_MISSING_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    last_epoch: int
    log_end_offset: int
    is_missing: bool
    def __init__(self, broker_id: _Optional[int] = ..., last_epoch: _Optional[int] = ..., log_end_offset: _Optional[int] = ..., is_missing: _Optional[bool] = ...) -> None: ...

class CheckBrokerRestartRequest(_message.Message):
    __slots__ = ("broker_id",)
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    def __init__(self, broker_id: _Optional[int] = ...) -> None: ...

class CheckBrokerRestartResponse(_message.Message):
    __slots__ = ("is_safe", "reasons")
    IS_SAFE_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    is_safe: bool
    reasons: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, is_safe: _Optional[bool] = ..., reasons: _Optional[_Iterable[str]] = ...) -> None: ...

class DrainBrokerRequest(_message.Message):
    __slots__ = ("broker_id", "cancel")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    cancel: bool
    def __init__(self, broker_id: _Optional[int] = ..., cancel: _Optional[bool] = ...) -> None: ...

class DrainBrokerResponse(_message.Message):
    __slots__ = ("remaining_leaders",)
    REMAINING_LEADERS_FIELD_NUMBER: _ClassVar[int]
    remaining_leaders: _containers.RepeatedCompositeFieldContainer[PartitionName]
    def __init__(self, remaining_leaders: _Optional[_Iterable[_Union[PartitionName, _Mapping]]] = ...) -> None: ...

class DecommissionBrokerRequest(_message.Message):
    __slots__ = ("broker_id", "cancel")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    cancel: bool
    def __init__(self, broker_id: _Optional[int] = ..., cancel: _Optional[bool] = ...) -> None: ...

class DecommissionBrokerResponse(_message.Message):
    __slots__ = ("remaining_replica_count", "moving_count", "is_removed", "offline_count", "offline_partitions")
    REMAINING_REPLICA_COUNT_FIELD_NUMBER: _ClassVar[int]
    MOVING_COUNT_FIELD_NUMBER: _ClassVar[int]
    IS_REMOVED_FIELD_NUMBER: _ClassVar[int]
    OFFLINE_COUNT_FIELD_NUMBER: _ClassVar[int]
    OFFLINE_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    remaining_replica_count: int
    moving_count: int
    is_removed: bool
    offline_count: int
    offline_partitions: _containers.RepeatedCompositeFieldContainer[PartitionName]
    def __init__(self, remaining_replica_count: _Optional[int] = ..., moving_count: _Optional[int] = ..., is_removed: _Optional[bool] = ..., offline_count: _Optional[int] = ..., offline_partitions: _Optional[_Iterable[_Union[PartitionName, _Mapping]]] = ...) -> None: ...
