from quorate.v1 import controller_pb2 as _controller_pb2
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
