from quorate.v1 import controller_pb2 as _controller_pb2
from quorate.v1 import errors_pb2 as _errors_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DescribeLogEndsRequest(_message.Message):
    __slots__ = ("replicas",)
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    replicas: _containers.RepeatedCompositeFieldContainer[_controller_pb2.ReplicaName]
    def __init__(self, replicas: _Optional[_Iterable[_Union[_controller_pb2.ReplicaName, _Mapping]]] = ...) -> None: ...

class DescribeLogEndsResponse(_message.Message):
    __slots__ = ("log_ends",)
    LOG_ENDS_FIELD_NUMBER: _ClassVar[int]
    log_ends: _containers.RepeatedCompositeFieldContainer[LogEnd]
    def __init__(self, log_ends: _Optional[_Iterable[_Union[LogEnd, _Mapping]]] = ...) -> None: ...

class LogEnd(_message.Message):
    __slots__ = ("replica", "last_epoch", "log_end_offset")
    REPLICA_FIELD_NUMBER: _ClassVar[int]
    LAST_EPOCH_FIELD_NUMBER: _ClassVar[int]
    LOG_END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    replica: _controller_pb2.ReplicaName
    last_epoch: int
    log_end_offset: int
    def __init__(self, replica: _Optional[_Union[_controller_pb2.ReplicaName, _Mapping]] = ..., last_epoch: _Optional[int] = ..., log_end_offset: _Optional[int] = ...) -> None: ...

class DescribeReplicasRequest(_message.Message):
    __slots__ = ("replicas",)
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    replicas: _containers.RepeatedCompositeFieldContainer[_controller_pb2.ReplicaName]
    def __init__(self, replicas: _Optional[_Iterable[_Union[_controller_pb2.ReplicaName, _Mapping]]] = ...) -> None: ...

class DescribeReplicasResponse(_message.Message):
    __slots__ = ("replicas",)
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    replicas: _containers.RepeatedCompositeFieldContainer[ReplicaDescription]
    def __init__(self, replicas: _Optional[_Iterable[_Union[ReplicaDescription, _Mapping]]] = ...) -> None: ...

class ReplicaDescription(_message.Message):
    __slots__ = ("replica", "log_start_offset", "high_watermark", "log_end_offset", "size_bytes", "error")
    REPLICA_FIELD_NUMBER: _ClassVar[int]
    LOG_START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    HIGH_WATERMARK_FIELD_NUMBER: _ClassVar[int]
    LOG_END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    replica: _controller_pb2.ReplicaName
    log_start_offset: int
    high_watermark: int
    log_end_offset: int
    size_bytes: int
    error: _errors_pb2.ErrorDetail
    def __init__(self, replica: _Optional[_Union[_controller_pb2.ReplicaName, _Mapping]] = ..., log_start_offset: _Optional[int] = ..., high_watermark: _Optional[int] = ..., log_end_offset: _Optional[int] = ..., size_bytes: _Optional[int] = ..., error: _Optional[_Union[_errors_pb2.ErrorDetail, _Mapping]] = ...) -> None: ...

class DescribeEndsRequest(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionPosition]
    def __init__(self, partitions: _Optional[_Iterable[_Union[PartitionPosition, _Mapping]]] = ...) -> None: ...

class PartitionPosition(_message.Message):
    __slots__ = ("replica", "offset")
    REPLICA_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    replica: _controller_pb2.ReplicaName
    offset: int
    def __init__(self, replica: _Optional[_Union[_controller_pb2.ReplicaName, _Mapping]] = ..., offset: _Optional[int] = ...) -> None: ...

class DescribeEndsResponse(_message.Message):
    __slots__ = ("ends",)
    ENDS_FIELD_NUMBER: _ClassVar[int]
    ends: _containers.RepeatedCompositeFieldContainer[PartitionEnd]
    def __init__(self, ends: _Optional[_Iterable[_Union[PartitionEnd, _Mapping]]] = ...) -> None: ...

class PartitionEnd(_message.Message):
    __slots__ = ("error", "log_start_offset", "high_watermark", "timestamp_ms", "unread_bytes")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    LOG_START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    HIGH_WATERMARK_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    UNREAD_BYTES_FIELD_NUMBER: _ClassVar[int]
    error: _errors_pb2.ErrorDetail
    log_start_offset: int
    high_watermark: int
    timestamp_ms: int
    unread_bytes: int
    def __init__(self, error: _Optional[_Union[_errors_pb2.ErrorDetail, _Mapping]] = ..., log_start_offset: _Optional[int] = ..., high_watermark: _Optional[int] = ..., timestamp_ms: _Optional[int] = ..., unread_bytes: _Optional[int] = ...) -> None: ...

class ReplicateRequest(_message.Message):
    __slots__ = ("hello", "positions", "stopped")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    STOPPED_FIELD_NUMBER: _ClassVar[int]
    hello: FollowerHello
    positions: _containers.RepeatedCompositeFieldContainer[FollowerPosition]
    stopped: _containers.RepeatedCompositeFieldContainer[_controller_pb2.ReplicaName]
    def __init__(self, hello: _Optional[_Union[FollowerHello, _Mapping]] = ..., positions: _Optional[_Iterable[_Union[FollowerPosition, _Mapping]]] = ..., stopped: _Optional[_Iterable[_Union[_controller_pb2.ReplicaName, _Mapping]]] = ...) -> None: ...

class FollowerHello(_message.Message):
    __slots__ = ("broker_id", "broker_epoch", "leader_id")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    LEADER_ID_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    broker_epoch: int
    leader_id: int
    def __init__(self, broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ..., leader_id: _Optional[int] = ...) -> None: ...

class FollowerPosition(_message.Message):
    __slots__ = ("topic_id", "partition", "leader_epoch", "fetch_offset", "last_fetched_epoch", "log_start_offset", "compacted")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    FETCH_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LAST_FETCHED_EPOCH_FIELD_NUMBER: _ClassVar[int]
    LOG_START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    COMPACTED_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    partition: int
    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    compacted: Compacted
    def __init__(self, topic_id: _Optional[str] = ..., partition: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., fetch_offset: _Optional[int] = ..., last_fetched_epoch: _Optional[int] = ..., log_start_offset: _Optional[int] = ..., compacted: _Optional[_Union[Compacted, _Mapping]] = ...) -> None: ...

class ReplicateResponse(_message.Message):
    __slots__ = ("updates",)
    UPDATES_FIELD_NUMBER: _ClassVar[int]
    updates: _containers.RepeatedCompositeFieldContainer[ReplicaUpdate]
    def __init__(self, updates: _Optional[_Iterable[_Union[ReplicaUpdate, _Mapping]]] = ...) -> None: ...

class ReplicaUpdate(_message.Message):
    __slots__ = ("topic_id", "partition", "leader_epoch", "error", "batches", "high_watermark", "log_start_offset", "diverging", "compacted")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    HIGH_WATERMARK_FIELD_NUMBER: _ClassVar[int]
    LOG_START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    DIVERGING_FIELD_NUMBER: _ClassVar[int]
    COMPACTED_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    partition: int
    leader_epoch: int
    error: _errors_pb2.ErrorDetail
    batches: bytes
    high_watermark: int
    log_start_offset: int
    diverging: DivergingEpoch
    compacted: Compacted
    def __init__(self, topic_id: _Optional[str] = ..., partition: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., error: _Optional[_Union[_errors_pb2.ErrorDetail, _Mapping]] = ..., batches: _Optional[bytes] = ..., high_watermark: _Optional[int] = ..., log_start_offset: _Optional[int] = ..., diverging: _Optional[_Union[DivergingEpoch, _Mapping]] = ..., compacted: _Optional[_Union[Compacted, _Mapping]] = ...) -> None: ...

class Compacted(_message.Message):
    __slots__ = ("superseded_below", "tombstones_removed_below")
    SUPERSEDED_BELOW_FIELD_NUMBER: _ClassVar[int]
    TOMBSTONES_REMOVED_BELOW_FIELD_NUMBER: _ClassVar[int]
    superseded_below: int
    tombstones_removed_below: int
    def __init__(self, superseded_below: _Optional[int] = ..., tombstones_removed_below: _Optional[int] = ...) -> None: ...

class DivergingEpoch(_message.Message):
    __slots__ = ("epoch", "end_offset")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    end_offset: int
    def __init__(self, epoch: _Optional[int] = ..., end_offset: _Optional[int] = ...) -> None: ...
