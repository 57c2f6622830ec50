from quorate.v1 import group_pb2 as _group_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GroupRecordKey(_message.Message):
    __slots__ = ("group", "is_group", "member_id", "offset")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    IS_GROUP_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    group: str
    is_group: bool
    member_id: str
    offset: OffsetKey
    def __init__(self, group: _Optional[str] = ..., is_group: _Optional[bool] = ..., member_id: _Optional[str] = ..., offset: _Optional[_Union[OffsetKey, _Mapping]] = ...) -> None: ...

class OffsetKey(_message.Message):
    __slots__ = ("topic_id", "partition")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    partition: int
    def __init__(self, topic_id: _Optional[str] = ..., partition: _Optional[int] = ...) -> None: ...

class GroupValue(_message.Message):
    __slots__ = ("group_epoch", "assignment_epoch", "empty_since_ms", "is_deleted", "departure_epoch")
    GROUP_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENT_EPOCH_FIELD_NUMBER: _ClassVar[int]
    EMPTY_SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    IS_DELETED_FIELD_NUMBER: _ClassVar[int]
    DEPARTURE_EPOCH_FIELD_NUMBER: _ClassVar[int]
    group_epoch: int
    assignment_epoch: int
    empty_since_ms: int
    is_deleted: bool
    departure_epoch: int
    def __init__(self, group_epoch: _Optional[int] = ..., assignment_epoch: _Optional[int] = ..., empty_since_ms: _Optional[int] = ..., is_deleted: _Optional[bool] = ..., departure_epoch: _Optional[int] = ...) -> None: ...

class MemberValue(_message.Message):
    __slots__ = ("subscription", "member_epoch", "previous_member_epoch", "target", "assigned", "revoking", "is_away", "call_number")
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    MEMBER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_MEMBER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    ASSIGNED_FIELD_NUMBER: _ClassVar[int]
    REVOKING_FIELD_NUMBER: _ClassVar[int]
    IS_AWAY_FIELD_NUMBER: _ClassVar[int]
    CALL_NUMBER_FIELD_NUMBER: _ClassVar[int]
    subscription: _group_pb2.GroupSubscription
    member_epoch: int
    previous_member_epoch: int
    target: _containers.RepeatedCompositeFieldContainer[_group_pb2.TopicPartitions]
    assigned: _containers.RepeatedCompositeFieldContainer[HeldPartitions]
    revoking: _containers.RepeatedCompositeFieldContainer[HeldPartitions]
    is_away: bool
    call_number: int
    def __init__(self, subscription: _Optional[_Union[_group_pb2.GroupSubscription, _Mapping]] = ..., member_epoch: _Optional[int] = ..., previous_member_epoch: _Optional[int] = ..., target: _Optional[_Iterable[_Union[_group_pb2.TopicPartitions, _Mapping]]] = ..., assigned: _Optional[_Iterable[_Union[HeldPartitions, _Mapping]]] = ..., revoking: _Optional[_Iterable[_Union[HeldPartitions, _Mapping]]] = ..., is_away: _Optional[bool] = ..., call_number: _Optional[int] = ...) -> None: ...

class HeldPartitions(_message.Message):
    __slots__ = ("topic_id", "since_epoch", "partitions")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    SINCE_EPOCH_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    since_epoch: int
    partitions: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, topic_id: _Optional[str] = ..., since_epoch: _Optional[int] = ..., partitions: _Optional[_Iterable[int]] = ...) -> None: ...

class OffsetValue(_message.Message):
    __slots__ = ("offset", "leader_epoch", "metadata", "committed_at_ms", "topic", "member_id", "commit_number")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    COMMIT_NUMBER_FIELD_NUMBER: _ClassVar[int]
    offset: int
    leader_epoch: int
    metadata: str
    committed_at_ms: int
    topic: str
    member_id: str
    commit_number: int
    def __init__(self, offset: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., metadata: _Optional[str] = ..., committed_at_ms: _Optional[int] = ..., topic: _Optional[str] = ..., member_id: _Optional[str] = ..., commit_number: _Optional[int] = ...) -> None: ...
