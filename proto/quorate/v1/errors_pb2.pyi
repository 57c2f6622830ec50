from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ErrorDetail(_message.Message):
    __slots__ = ("code", "message", "retriable", "refresh_metadata", "outcome_unknown", "facts")
    class FactsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Fact
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Fact, _Mapping]] = ...) -> None: ...
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RETRIABLE_FIELD_NUMBER: _ClassVar[int]
    REFRESH_METADATA_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    FACTS_FIELD_NUMBER: _ClassVar[int]
    code: str
    message: str
    retriable: bool
    refresh_metadata: bool
    outcome_unknown: bool
    facts: _containers.MessageMap[str, Fact]
    def __init__(self, code: _Optional[str] = ..., message: _Optional[str] = ..., retriable: _Optional[bool] = ..., refresh_metadata: _Optional[bool] = ..., outcome_unknown: _Optional[bool] = ..., facts: _Optional[_Mapping[str, Fact]] = ...) -> None: ...

class Fact(_message.Message):
    __slots__ = ("text", "integer")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    INTEGER_FIELD_NUMBER: _ClassVar[int]
    text: str
    integer: int
    def __init__(self, text: _Optional[str] = ..., integer: _Optional[int] = ...) -> None: ...
