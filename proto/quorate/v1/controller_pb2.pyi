from quorate.v1 import errors_pb2 as _errors_pb2
from quorate.v1 import metadata_pb2 as _metadata_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PreviousRun(_message.Message):
    __slots__ = ("broker_epoch", "is_clean", "is_same_boot", "is_intact", "unnoted_incarnation_ids", "cache_witness", "device_witness")
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    IS_CLEAN_FIELD_NUMBER: _ClassVar[int]
    IS_SAME_BOOT_FIELD_NUMBER: _ClassVar[int]
    IS_INTACT_FIELD_NUMBER: _ClassVar[int]
    UNNOTED_INCARNATION_IDS_FIELD_NUMBER: _ClassVar[int]
    CACHE_WITNESS_FIELD_NUMBER: _ClassVar[int]
    DEVICE_WITNESS_FIELD_NUMBER: _ClassVar[int]
    broker_epoch: int
    is_clean: bool
    is_same_boot: bool
    is_intact: bool
    unnoted_incarnation_ids: _containers.RepeatedScalarFieldContainer[str]
    cache_witness: int
    device_witness: int
    def __init__(self, broker_epoch: _Optional[int] = ..., is_clean: _Optional[bool] = ..., is_same_boot: _Optional[bool] = ..., is_intact: _Optional[bool] = ..., unnoted_incarnation_ids: _Optional[_Iterable[str]] = ..., cache_witness: _Optional[int] = ..., device_witness: _Optional[int] = ...) -> None: ...

class ReplicaName(_message.Message):
    __slots__ = ("topic_id", "partition")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    partition: int
    def __init__(self, topic_id: _Optional[str] = ..., partition: _Optional[int] = ...) -> None: ...

class DamagedReplica(_message.Message):
    __slots__ = ("topic_id", "partition", "leader_epoch")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    partition: int
    leader_epoch: int
    def __init__(self, topic_id: _Optional[str] = ..., partition: _Optional[int] = ..., leader_epoch: _Optional[int] = ...) -> None: ...

class RegisterBrokerRequest(_message.Message):
    __slots__ = ("broker_id", "incarnation_id", "directory_id", "address", "rack", "feature_level_min", "feature_level_max", "previous_run", "damaged", "cluster_id", "expected_broker_epoch")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_ID_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    RACK_FIELD_NUMBER: _ClassVar[int]
    FEATURE_LEVEL_MIN_FIELD_NUMBER: _ClassVar[int]
    FEATURE_LEVEL_MAX_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_RUN_FIELD_NUMBER: _ClassVar[int]
    DAMAGED_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    incarnation_id: str
    directory_id: str
    address: str
    rack: str
    feature_level_min: int
    feature_level_max: int
    previous_run: PreviousRun
    damaged: _containers.RepeatedCompositeFieldContainer[ReplicaName]
    cluster_id: str
    expected_broker_epoch: int
    def __init__(self, broker_id: _Optional[int] = ..., incarnation_id: _Optional[str] = ..., directory_id: _Optional[str] = ..., address: _Optional[str] = ..., rack: _Optional[str] = ..., feature_level_min: _Optional[int] = ..., feature_level_max: _Optional[int] = ..., previous_run: _Optional[_Union[PreviousRun, _Mapping]] = ..., damaged: _Optional[_Iterable[_Union[ReplicaName, _Mapping]]] = ..., cluster_id: _Optional[str] = ..., expected_broker_epoch: _Optional[int] = ...) -> None: ...

class RegisterBrokerResponse(_message.Message):
    __slots__ = ("broker_epoch", "cluster_id")
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    broker_epoch: int
    cluster_id: str
    def __init__(self, broker_epoch: _Optional[int] = ..., cluster_id: _Optional[str] = ...) -> None: ...

class BrokerSessionRequest(_message.Message):
    __slots__ = ("broker_id", "broker_epoch", "metadata_offset", "wants_unfence", "wants_shutdown", "damaged", "sequence", "cache_witness", "device_witness")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    METADATA_OFFSET_FIELD_NUMBER: _ClassVar[int]
    WANTS_UNFENCE_FIELD_NUMBER: _ClassVar[int]
    WANTS_SHUTDOWN_FIELD_NUMBER: _ClassVar[int]
    DAMAGED_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    CACHE_WITNESS_FIELD_NUMBER: _ClassVar[int]
    DEVICE_WITNESS_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    broker_epoch: int
    metadata_offset: int
    wants_unfence: bool
    wants_shutdown: bool
    damaged: _containers.RepeatedCompositeFieldContainer[DamagedReplica]
    sequence: int
    cache_witness: int
    device_witness: int
    def __init__(self, broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ..., metadata_offset: _Optional[int] = ..., wants_unfence: _Optional[bool] = ..., wants_shutdown: _Optional[bool] = ..., damaged: _Optional[_Iterable[_Union[DamagedReplica, _Mapping]]] = ..., sequence: _Optional[int] = ..., cache_witness: _Optional[int] = ..., device_witness: _Optional[int] = ...) -> None: ...

class BrokerSessionResponse(_message.Message):
    __slots__ = ("sequence", "is_fenced", "may_shut_down", "session_timeout_ms", "error", "metadata_offset")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    IS_FENCED_FIELD_NUMBER: _ClassVar[int]
    MAY_SHUT_DOWN_FIELD_NUMBER: _ClassVar[int]
    SESSION_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    METADATA_OFFSET_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    is_fenced: bool
    may_shut_down: bool
    session_timeout_ms: int
    error: _errors_pb2.ErrorDetail
    metadata_offset: int
    def __init__(self, sequence: _Optional[int] = ..., is_fenced: _Optional[bool] = ..., may_shut_down: _Optional[bool] = ..., session_timeout_ms: _Optional[int] = ..., error: _Optional[_Union[_errors_pb2.ErrorDetail, _Mapping]] = ..., metadata_offset: _Optional[int] = ...) -> None: ...

class AlterPartitionRequest(_message.Message):
    __slots__ = ("broker_id", "broker_epoch", "partitions")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    broker_epoch: int
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionAlteration]
    def __init__(self, broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[PartitionAlteration, _Mapping]]] = ...) -> None: ...

class PartitionAlteration(_message.Message):
    __slots__ = ("topic_id", "partition", "leader_epoch", "partition_epoch", "isr", "recovery_state", "withdraw", "is_synced")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    PARTITION_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ISR_FIELD_NUMBER: _ClassVar[int]
    RECOVERY_STATE_FIELD_NUMBER: _ClassVar[int]
    WITHDRAW_FIELD_NUMBER: _ClassVar[int]
    IS_SYNCED_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: _containers.RepeatedCompositeFieldContainer[IsrMember]
    recovery_state: _metadata_pb2.RecoveryState
    withdraw: bool
    is_synced: bool
    def __init__(self, topic_id: _Optional[str] = ..., partition: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., partition_epoch: _Optional[int] = ..., isr: _Optional[_Iterable[_Union[IsrMember, _Mapping]]] = ..., recovery_state: _Optional[_Union[_metadata_pb2.RecoveryState, str]] = ..., withdraw: _Optional[bool] = ..., is_synced: _Optional[bool] = ...) -> None: ...

class IsrMember(_message.Message):
    __slots__ = ("broker_id", "broker_epoch")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    broker_epoch: int
    def __init__(self, broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ...) -> None: ...

class AlterPartitionResponse(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionAlterationResult]
    def __init__(self, partitions: _Optional[_Iterable[_Union[PartitionAlterationResult, _Mapping]]] = ...) -> None: ...

class PartitionAlterationResult(_message.Message):
    __slots__ = ("topic_id", "partition", "error", "leader", "leader_epoch", "partition_epoch", "isr", "recovery_state", "is_synced")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    PARTITION_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ISR_FIELD_NUMBER: _ClassVar[int]
    RECOVERY_STATE_FIELD_NUMBER: _ClassVar[int]
    IS_SYNCED_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    partition: int
    error: _errors_pb2.ErrorDetail
    leader: int
    leader_epoch: int
    partition_epoch: int
    isr: _containers.RepeatedScalarFieldContainer[int]
    recovery_state: _metadata_pb2.RecoveryState
    is_synced: bool
    def __init__(self, topic_id: _Optional[str] = ..., partition: _Optional[int] = ..., error: _Optional[_Union[_errors_pb2.ErrorDetail, _Mapping]] = ..., leader: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., partition_epoch: _Optional[int] = ..., isr: _Optional[_Iterable[int]] = ..., recovery_state: _Optional[_Union[_metadata_pb2.RecoveryState, str]] = ..., is_synced: _Optional[bool] = ...) -> None: ...

class AllocateProducerIdsRequest(_message.Message):
    __slots__ = ("broker_id", "broker_epoch")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    broker_epoch: int
    def __init__(self, broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ...) -> None: ...

class AllocateProducerIdsResponse(_message.Message):
    __slots__ = ("first_producer_id", "count")
    FIRST_PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    first_producer_id: int
    count: int
    def __init__(self, first_producer_id: _Optional[int] = ..., count: _Optional[int] = ...) -> None: ...

class ConfirmTopicsRemovedRequest(_message.Message):
    __slots__ = ("broker_id", "broker_epoch", "topic_ids")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    TOPIC_IDS_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    broker_epoch: int
    topic_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ..., topic_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class ConfirmTopicsRemovedResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CreateOffsetsTopicRequest(_message.Message):
    __slots__ = ("broker_id", "broker_epoch", "topic_id")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    broker_epoch: int
    topic_id: str
    def __init__(self, broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ..., topic_id: _Optional[str] = ...) -> None: ...

class CreateOffsetsTopicResponse(_message.Message):
    __slots__ = ("topic_id",)
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    def __init__(self, topic_id: _Optional[str] = ...) -> None: ...

class FollowMetadataRequest(_message.Message):
    __slots__ = ("from_offset", "broker_id")
    FROM_OFFSET_FIELD_NUMBER: _ClassVar[int]
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    from_offset: int
    broker_id: int
    def __init__(self, from_offset: _Optional[int] = ..., broker_id: _Optional[int] = ...) -> None: ...

class FollowMetadataResponse(_message.Message):
    __slots__ = ("committed", "snapshot")
    COMMITTED_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    committed: CommittedBatches
    snapshot: MetadataSnapshotChunk
    def __init__(self, committed: _Optional[_Union[CommittedBatches, _Mapping]] = ..., snapshot: _Optional[_Union[MetadataSnapshotChunk, _Mapping]] = ...) -> None: ...

class CommittedBatches(_message.Message):
    __slots__ = ("batches", "up_to_offset", "cluster_id", "digest")
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    UP_TO_OFFSET_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    batches: _containers.RepeatedCompositeFieldContainer[CommittedBatch]
    up_to_offset: int
    cluster_id: str
    digest: bytes
    def __init__(self, batches: _Optional[_Iterable[_Union[CommittedBatch, _Mapping]]] = ..., up_to_offset: _Optional[int] = ..., cluster_id: _Optional[str] = ..., digest: _Optional[bytes] = ...) -> None: ...

class CommittedBatch(_message.Message):
    __slots__ = ("offset", "batch")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    offset: int
    batch: _metadata_pb2.MetadataBatch
    def __init__(self, offset: _Optional[int] = ..., batch: _Optional[_Union[_metadata_pb2.MetadataBatch, _Mapping]] = ...) -> None: ...

class MetadataSnapshotChunk(_message.Message):
    __slots__ = ("header", "records", "is_last")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    IS_LAST_FIELD_NUMBER: _ClassVar[int]
    header: _metadata_pb2.SnapshotHeader
    records: _containers.RepeatedCompositeFieldContainer[_metadata_pb2.SnapshotRecord]
    is_last: bool
    def __init__(self, header: _Optional[_Union[_metadata_pb2.SnapshotHeader, _Mapping]] = ..., records: _Optional[_Iterable[_Union[_metadata_pb2.SnapshotRecord, _Mapping]]] = ..., is_last: _Optional[bool] = ...) -> None: ...

class AdministerRequest(_message.Message):
    __slots__ = ("method", "request")
    METHOD_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    method: str
    request: bytes
    def __init__(self, method: _Optional[str] = ..., request: _Optional[bytes] = ...) -> None: ...

class AdministerResponse(_message.Message):
    __slots__ = ("response",)
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    response: bytes
    def __init__(self, response: _Optional[bytes] = ...) -> None: ...

class DescribeImageRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DescribeImageResponse(_message.Message):
    __slots__ = ("offset", "digest", "feature_level_min", "feature_level_max")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    FEATURE_LEVEL_MIN_FIELD_NUMBER: _ClassVar[int]
    FEATURE_LEVEL_MAX_FIELD_NUMBER: _ClassVar[int]
    offset: int
    digest: str
    feature_level_min: int
    feature_level_max: int
    def __init__(self, offset: _Optional[int] = ..., digest: _Optional[str] = ..., feature_level_min: _Optional[int] = ..., feature_level_max: _Optional[int] = ...) -> None: ...
