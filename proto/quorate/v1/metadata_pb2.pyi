from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RecoveryState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RECOVERY_STATE_UNSPECIFIED: _ClassVar[RecoveryState]
    RECOVERY_STATE_NORMAL: _ClassVar[RecoveryState]
    RECOVERY_STATE_RECOVERING: _ClassVar[RecoveryState]

class ConfigResource(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CONFIG_RESOURCE_UNSPECIFIED: _ClassVar[ConfigResource]
    CONFIG_RESOURCE_TOPIC: _ClassVar[ConfigResource]
    CONFIG_RESOURCE_CLUSTER: _ClassVar[ConfigResource]
RECOVERY_STATE_UNSPECIFIED: RecoveryState
RECOVERY_STATE_NORMAL: RecoveryState
RECOVERY_STATE_RECOVERING: RecoveryState
CONFIG_RESOURCE_UNSPECIFIED: ConfigResource
CONFIG_RESOURCE_TOPIC: ConfigResource
CONFIG_RESOURCE_CLUSTER: ConfigResource

class MetadataBatch(_message.Message):
    __slots__ = ("records",)
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    records: _containers.RepeatedCompositeFieldContainer[MetadataRecord]
    def __init__(self, records: _Optional[_Iterable[_Union[MetadataRecord, _Mapping]]] = ...) -> None: ...

class MetadataRecord(_message.Message):
    __slots__ = ("feature_level", "cluster", "register_broker", "broker_change", "unregister_broker", "topic", "remove_topic", "replicas_removed", "partition", "partition_change", "config", "producer_ids")
    FEATURE_LEVEL_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    REGISTER_BROKER_FIELD_NUMBER: _ClassVar[int]
    BROKER_CHANGE_FIELD_NUMBER: _ClassVar[int]
    UNREGISTER_BROKER_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    REMOVE_TOPIC_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_REMOVED_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    PARTITION_CHANGE_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_IDS_FIELD_NUMBER: _ClassVar[int]
    feature_level: FeatureLevelRecord
    cluster: ClusterRecord
    register_broker: RegisterBrokerRecord
    broker_change: BrokerChangeRecord
    unregister_broker: UnregisterBrokerRecord
    topic: TopicRecord
    remove_topic: RemoveTopicRecord
    replicas_removed: ReplicasRemovedRecord
    partition: PartitionRecord
    partition_change: PartitionChangeRecord
    config: ConfigRecord
    producer_ids: ProducerIdsRecord
    def __init__(self, feature_level: _Optional[_Union[FeatureLevelRecord, _Mapping]] = ..., cluster: _Optional[_Union[ClusterRecord, _Mapping]] = ..., register_broker: _Optional[_Union[RegisterBrokerRecord, _Mapping]] = ..., broker_change: _Optional[_Union[BrokerChangeRecord, _Mapping]] = ..., unregister_broker: _Optional[_Union[UnregisterBrokerRecord, _Mapping]] = ..., topic: _Optional[_Union[TopicRecord, _Mapping]] = ..., remove_topic: _Optional[_Union[RemoveTopicRecord, _Mapping]] = ..., replicas_removed: _Optional[_Union[ReplicasRemovedRecord, _Mapping]] = ..., partition: _Optional[_Union[PartitionRecord, _Mapping]] = ..., partition_change: _Optional[_Union[PartitionChangeRecord, _Mapping]] = ..., config: _Optional[_Union[ConfigRecord, _Mapping]] = ..., producer_ids: _Optional[_Union[ProducerIdsRecord, _Mapping]] = ...) -> None: ...

class FeatureLevelRecord(_message.Message):
    __slots__ = ("level",)
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    level: int
    def __init__(self, level: _Optional[int] = ...) -> None: ...

class ClusterRecord(_message.Message):
    __slots__ = ("cluster_id", "default_replication_factor")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_REPLICATION_FACTOR_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    default_replication_factor: int
    def __init__(self, cluster_id: _Optional[str] = ..., default_replication_factor: _Optional[int] = ...) -> None: ...

class RegisterBrokerRecord(_message.Message):
    __slots__ = ("broker_id", "incarnation_id", "directory_id", "address", "rack", "feature_level_min", "feature_level_max", "is_draining", "cache_witness", "device_witness")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_ID_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    RACK_FIELD_NUMBER: _ClassVar[int]
    FEATURE_LEVEL_MIN_FIELD_NUMBER: _ClassVar[int]
    FEATURE_LEVEL_MAX_FIELD_NUMBER: _ClassVar[int]
    IS_DRAINING_FIELD_NUMBER: _ClassVar[int]
    CACHE_WITNESS_FIELD_NUMBER: _ClassVar[int]
    DEVICE_WITNESS_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    incarnation_id: str
    directory_id: str
    address: str
    rack: str
    feature_level_min: int
    feature_level_max: int
    is_draining: bool
    cache_witness: int
    device_witness: int
    def __init__(self, broker_id: _Optional[int] = ..., incarnation_id: _Optional[str] = ..., directory_id: _Optional[str] = ..., address: _Optional[str] = ..., rack: _Optional[str] = ..., feature_level_min: _Optional[int] = ..., feature_level_max: _Optional[int] = ..., is_draining: _Optional[bool] = ..., cache_witness: _Optional[int] = ..., device_witness: _Optional[int] = ...) -> None: ...

class BrokerChangeRecord(_message.Message):
    __slots__ = ("broker_id", "broker_epoch", "is_fenced", "is_shutting_down", "is_draining", "cache_witness", "device_witness")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    IS_FENCED_FIELD_NUMBER: _ClassVar[int]
    IS_SHUTTING_DOWN_FIELD_NUMBER: _ClassVar[int]
    IS_DRAINING_FIELD_NUMBER: _ClassVar[int]
    CACHE_WITNESS_FIELD_NUMBER: _ClassVar[int]
    DEVICE_WITNESS_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    broker_epoch: int
    is_fenced: bool
    is_shutting_down: bool
    is_draining: bool
    cache_witness: int
    device_witness: int
    def __init__(self, broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ..., is_fenced: _Optional[bool] = ..., is_shutting_down: _Optional[bool] = ..., is_draining: _Optional[bool] = ..., cache_witness: _Optional[int] = ..., device_witness: _Optional[int] = ...) -> None: ...

class UnregisterBrokerRecord(_message.Message):
    __slots__ = ("broker_id", "broker_epoch")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    broker_epoch: int
    def __init__(self, broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ...) -> None: ...

class TopicRecord(_message.Message):
    __slots__ = ("topic_id", "name")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    name: str
    def __init__(self, topic_id: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class RemoveTopicRecord(_message.Message):
    __slots__ = ("topic_id", "removed_at_ms")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    REMOVED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    removed_at_ms: int
    def __init__(self, topic_id: _Optional[str] = ..., removed_at_ms: _Optional[int] = ...) -> None: ...

class ReplicasRemovedRecord(_message.Message):
    __slots__ = ("topic_id", "broker_id")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    broker_id: int
    def __init__(self, topic_id: _Optional[str] = ..., broker_id: _Optional[int] = ...) -> None: ...

class PartitionRecord(_message.Message):
    __slots__ = ("topic_id", "partition", "replicas", "isr", "elr", "last_known_elr", "leader", "leader_epoch", "partition_epoch", "adding_replicas", "removing_replicas", "recovery_state", "unclean_leader_epochs", "is_synced")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    ISR_FIELD_NUMBER: _ClassVar[int]
    ELR_FIELD_NUMBER: _ClassVar[int]
    LAST_KNOWN_ELR_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    PARTITION_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ADDING_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    REMOVING_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    RECOVERY_STATE_FIELD_NUMBER: _ClassVar[int]
    UNCLEAN_LEADER_EPOCHS_FIELD_NUMBER: _ClassVar[int]
    IS_SYNCED_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    partition: int
    replicas: _containers.RepeatedScalarFieldContainer[int]
    isr: _containers.RepeatedScalarFieldContainer[int]
    elr: _containers.RepeatedScalarFieldContainer[int]
    last_known_elr: _containers.RepeatedScalarFieldContainer[int]
    leader: int
    leader_epoch: int
    partition_epoch: int
    adding_replicas: _containers.RepeatedScalarFieldContainer[int]
    removing_replicas: _containers.RepeatedScalarFieldContainer[int]
    recovery_state: RecoveryState
    unclean_leader_epochs: _containers.RepeatedScalarFieldContainer[int]
    is_synced: bool
    def __init__(self, topic_id: _Optional[str] = ..., partition: _Optional[int] = ..., replicas: _Optional[_Iterable[int]] = ..., isr: _Optional[_Iterable[int]] = ..., elr: _Optional[_Iterable[int]] = ..., last_known_elr: _Optional[_Iterable[int]] = ..., leader: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., partition_epoch: _Optional[int] = ..., adding_replicas: _Optional[_Iterable[int]] = ..., removing_replicas: _Optional[_Iterable[int]] = ..., recovery_state: _Optional[_Union[RecoveryState, str]] = ..., unclean_leader_epochs: _Optional[_Iterable[int]] = ..., is_synced: _Optional[bool] = ...) -> None: ...

class BrokerList(_message.Message):
    __slots__ = ("broker_ids",)
    BROKER_IDS_FIELD_NUMBER: _ClassVar[int]
    broker_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, broker_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class PartitionChangeRecord(_message.Message):
    __slots__ = ("topic_id", "partition", "partition_epoch", "replicas", "isr", "elr", "last_known_elr", "leader", "leader_epoch", "adding_replicas", "removing_replicas", "recovery_state", "is_unclean", "is_synced")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    PARTITION_EPOCH_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    ISR_FIELD_NUMBER: _ClassVar[int]
    ELR_FIELD_NUMBER: _ClassVar[int]
    LAST_KNOWN_ELR_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ADDING_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    REMOVING_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    RECOVERY_STATE_FIELD_NUMBER: _ClassVar[int]
    IS_UNCLEAN_FIELD_NUMBER: _ClassVar[int]
    IS_SYNCED_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    partition: int
    partition_epoch: int
    replicas: BrokerList
    isr: BrokerList
    elr: BrokerList
    last_known_elr: BrokerList
    leader: int
    leader_epoch: int
    adding_replicas: BrokerList
    removing_replicas: BrokerList
    recovery_state: RecoveryState
    is_unclean: bool
    is_synced: bool
    def __init__(self, topic_id: _Optional[str] = ..., partition: _Optional[int] = ..., partition_epoch: _Optional[int] = ..., replicas: _Optional[_Union[BrokerList, _Mapping]] = ..., isr: _Optional[_Union[BrokerList, _Mapping]] = ..., elr: _Optional[_Union[BrokerList, _Mapping]] = ..., last_known_elr: _Optional[_Union[BrokerList, _Mapping]] = ..., leader: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., adding_replicas: _Optional[_Union[BrokerList, _Mapping]] = ..., removing_replicas: _Optional[_Union[BrokerList, _Mapping]] = ..., recovery_state: _Optional[_Union[RecoveryState, str]] = ..., is_unclean: _Optional[bool] = ..., is_synced: _Optional[bool] = ...) -> None: ...

class ConfigRecord(_message.Message):
    __slots__ = ("resource", "topic_id", "key", "value")
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    resource: ConfigResource
    topic_id: str
    key: str
    value: str
    def __init__(self, resource: _Optional[_Union[ConfigResource, str]] = ..., topic_id: _Optional[str] = ..., key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class ProducerIdsRecord(_message.Message):
    __slots__ = ("broker_id", "broker_epoch", "next_producer_id")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    NEXT_PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    broker_epoch: int
    next_producer_id: int
    def __init__(self, broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ..., next_producer_id: _Optional[int] = ...) -> None: ...

class SnapshotHeader(_message.Message):
    __slots__ = ("offset", "digest", "record_count")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    RECORD_COUNT_FIELD_NUMBER: _ClassVar[int]
    offset: int
    digest: bytes
    record_count: int
    def __init__(self, offset: _Optional[int] = ..., digest: _Optional[bytes] = ..., record_count: _Optional[int] = ...) -> None: ...

class BrokerSnapshotRecord(_message.Message):
    __slots__ = ("registration", "broker_epoch", "is_fenced", "is_shutting_down", "is_draining", "cache_witness", "device_witness")
    REGISTRATION_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    IS_FENCED_FIELD_NUMBER: _ClassVar[int]
    IS_SHUTTING_DOWN_FIELD_NUMBER: _ClassVar[int]
    IS_DRAINING_FIELD_NUMBER: _ClassVar[int]
    CACHE_WITNESS_FIELD_NUMBER: _ClassVar[int]
    DEVICE_WITNESS_FIELD_NUMBER: _ClassVar[int]
    registration: RegisterBrokerRecord
    broker_epoch: int
    is_fenced: bool
    is_shutting_down: bool
    is_draining: bool
    cache_witness: int
    device_witness: int
    def __init__(self, registration: _Optional[_Union[RegisterBrokerRecord, _Mapping]] = ..., broker_epoch: _Optional[int] = ..., is_fenced: _Optional[bool] = ..., is_shutting_down: _Optional[bool] = ..., is_draining: _Optional[bool] = ..., cache_witness: _Optional[int] = ..., device_witness: _Optional[int] = ...) -> None: ...

class RemovedTopicSnapshotRecord(_message.Message):
    __slots__ = ("topic_id", "name", "removed_at_ms", "broker_ids")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    REMOVED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    BROKER_IDS_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    name: str
    removed_at_ms: int
    broker_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, topic_id: _Optional[str] = ..., name: _Optional[str] = ..., removed_at_ms: _Optional[int] = ..., broker_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class ConfigEpochSnapshotRecord(_message.Message):
    __slots__ = ("topic_id", "config_epoch")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    CONFIG_EPOCH_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    config_epoch: int
    def __init__(self, topic_id: _Optional[str] = ..., config_epoch: _Optional[int] = ...) -> None: ...

class ForgottenTopicsSnapshotRecord(_message.Message):
    __slots__ = ("topic_ids",)
    TOPIC_IDS_FIELD_NUMBER: _ClassVar[int]
    topic_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, topic_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class SnapshotRecord(_message.Message):
    __slots__ = ("metadata", "broker", "removed_topic", "config_epoch", "forgotten_topics")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    BROKER_FIELD_NUMBER: _ClassVar[int]
    REMOVED_TOPIC_FIELD_NUMBER: _ClassVar[int]
    CONFIG_EPOCH_FIELD_NUMBER: _ClassVar[int]
    FORGOTTEN_TOPICS_FIELD_NUMBER: _ClassVar[int]
    metadata: MetadataRecord
    broker: BrokerSnapshotRecord
    removed_topic: RemovedTopicSnapshotRecord
    config_epoch: ConfigEpochSnapshotRecord
    forgotten_topics: ForgottenTopicsSnapshotRecord
    def __init__(self, metadata: _Optional[_Union[MetadataRecord, _Mapping]] = ..., broker: _Optional[_Union[BrokerSnapshotRecord, _Mapping]] = ..., removed_topic: _Optional[_Union[RemovedTopicSnapshotRecord, _Mapping]] = ..., config_epoch: _Optional[_Union[ConfigEpochSnapshotRecord, _Mapping]] = ..., forgotten_topics: _Optional[_Union[ForgottenTopicsSnapshotRecord, _Mapping]] = ...) -> None: ...
