from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class QuorumEntryKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    QUORUM_ENTRY_KIND_UNSPECIFIED: _ClassVar[QuorumEntryKind]
    QUORUM_ENTRY_KIND_NOOP: _ClassVar[QuorumEntryKind]
    QUORUM_ENTRY_KIND_COMMAND: _ClassVar[QuorumEntryKind]
    QUORUM_ENTRY_KIND_VOTERS: _ClassVar[QuorumEntryKind]
QUORUM_ENTRY_KIND_UNSPECIFIED: QuorumEntryKind
QUORUM_ENTRY_KIND_NOOP: QuorumEntryKind
QUORUM_ENTRY_KIND_COMMAND: QuorumEntryKind
QUORUM_ENTRY_KIND_VOTERS: QuorumEntryKind

class VoterKey(_message.Message):
    __slots__ = ("node_id", "directory_id")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_ID_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    directory_id: str
    def __init__(self, node_id: _Optional[int] = ..., directory_id: _Optional[str] = ...) -> None: ...

class Voter(_message.Message):
    __slots__ = ("key", "address")
    KEY_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    key: VoterKey
    address: str
    def __init__(self, key: _Optional[_Union[VoterKey, _Mapping]] = ..., address: _Optional[str] = ...) -> None: ...

class VoterSet(_message.Message):
    __slots__ = ("voters",)
    VOTERS_FIELD_NUMBER: _ClassVar[int]
    voters: _containers.RepeatedCompositeFieldContainer[Voter]
    def __init__(self, voters: _Optional[_Iterable[_Union[Voter, _Mapping]]] = ...) -> None: ...

class QuorumEntry(_message.Message):
    __slots__ = ("index", "term", "kind", "data")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    index: int
    term: int
    kind: QuorumEntryKind
    data: bytes
    def __init__(self, index: _Optional[int] = ..., term: _Optional[int] = ..., kind: _Optional[_Union[QuorumEntryKind, str]] = ..., data: _Optional[bytes] = ...) -> None: ...

class ExchangeRequest(_message.Message):
    __slots__ = ("sender", "to", "incarnation", "vote_request", "vote_response", "append_request", "append_response", "snapshot_response", "timeout_now", "catch_up_request", "catch_up_response", "sender_address")
    SENDER_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    VOTE_REQUEST_FIELD_NUMBER: _ClassVar[int]
    VOTE_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    APPEND_REQUEST_FIELD_NUMBER: _ClassVar[int]
    APPEND_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_NOW_FIELD_NUMBER: _ClassVar[int]
    CATCH_UP_REQUEST_FIELD_NUMBER: _ClassVar[int]
    CATCH_UP_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    SENDER_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    sender: VoterKey
    to: VoterKey
    incarnation: int
    vote_request: VoteRequest
    vote_response: VoteResponse
    append_request: AppendRequest
    append_response: AppendResponse
    snapshot_response: SnapshotResponse
    timeout_now: TimeoutNow
    catch_up_request: CatchUpRequest
    catch_up_response: CatchUpResponse
    sender_address: str
    def __init__(self, sender: _Optional[_Union[VoterKey, _Mapping]] = ..., to: _Optional[_Union[VoterKey, _Mapping]] = ..., incarnation: _Optional[int] = ..., vote_request: _Optional[_Union[VoteRequest, _Mapping]] = ..., vote_response: _Optional[_Union[VoteResponse, _Mapping]] = ..., append_request: _Optional[_Union[AppendRequest, _Mapping]] = ..., append_response: _Optional[_Union[AppendResponse, _Mapping]] = ..., snapshot_response: _Optional[_Union[SnapshotResponse, _Mapping]] = ..., timeout_now: _Optional[_Union[TimeoutNow, _Mapping]] = ..., catch_up_request: _Optional[_Union[CatchUpRequest, _Mapping]] = ..., catch_up_response: _Optional[_Union[CatchUpResponse, _Mapping]] = ..., sender_address: _Optional[str] = ...) -> None: ...

class VoteRequest(_message.Message):
    __slots__ = ("term", "last_index", "last_term", "is_pre_vote", "is_transfer")
    TERM_FIELD_NUMBER: _ClassVar[int]
    LAST_INDEX_FIELD_NUMBER: _ClassVar[int]
    LAST_TERM_FIELD_NUMBER: _ClassVar[int]
    IS_PRE_VOTE_FIELD_NUMBER: _ClassVar[int]
    IS_TRANSFER_FIELD_NUMBER: _ClassVar[int]
    term: int
    last_index: int
    last_term: int
    is_pre_vote: bool
    is_transfer: bool
    def __init__(self, term: _Optional[int] = ..., last_index: _Optional[int] = ..., last_term: _Optional[int] = ..., is_pre_vote: _Optional[bool] = ..., is_transfer: _Optional[bool] = ...) -> None: ...

class VoteResponse(_message.Message):
    __slots__ = ("term", "is_granted", "is_pre_vote")
    TERM_FIELD_NUMBER: _ClassVar[int]
    IS_GRANTED_FIELD_NUMBER: _ClassVar[int]
    IS_PRE_VOTE_FIELD_NUMBER: _ClassVar[int]
    term: int
    is_granted: bool
    is_pre_vote: bool
    def __init__(self, term: _Optional[int] = ..., is_granted: _Optional[bool] = ..., is_pre_vote: _Optional[bool] = ...) -> None: ...

class AppendRequest(_message.Message):
    __slots__ = ("term", "previous_index", "previous_term", "entries", "commit_index", "round")
    TERM_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_INDEX_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_TERM_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    COMMIT_INDEX_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    term: int
    previous_index: int
    previous_term: int
    entries: _containers.RepeatedCompositeFieldContainer[QuorumEntry]
    commit_index: int
    round: int
    def __init__(self, term: _Optional[int] = ..., previous_index: _Optional[int] = ..., previous_term: _Optional[int] = ..., entries: _Optional[_Iterable[_Union[QuorumEntry, _Mapping]]] = ..., commit_index: _Optional[int] = ..., round: _Optional[int] = ...) -> None: ...

class AppendResponse(_message.Message):
    __slots__ = ("term", "is_success", "index", "hint_term", "round", "is_counted")
    TERM_FIELD_NUMBER: _ClassVar[int]
    IS_SUCCESS_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    HINT_TERM_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    IS_COUNTED_FIELD_NUMBER: _ClassVar[int]
    term: int
    is_success: bool
    index: int
    hint_term: int
    round: int
    is_counted: bool
    def __init__(self, term: _Optional[int] = ..., is_success: _Optional[bool] = ..., index: _Optional[int] = ..., hint_term: _Optional[int] = ..., round: _Optional[int] = ..., is_counted: _Optional[bool] = ...) -> None: ...

class TransferSnapshotRequest(_message.Message):
    __slots__ = ("transfer", "data")
    TRANSFER_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    transfer: SnapshotTransfer
    data: bytes
    def __init__(self, transfer: _Optional[_Union[SnapshotTransfer, _Mapping]] = ..., data: _Optional[bytes] = ...) -> None: ...

class SnapshotTransfer(_message.Message):
    __slots__ = ("sender", "to", "incarnation", "term", "index", "index_term", "round", "voters", "total_bytes", "checksum")
    SENDER_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    INDEX_TERM_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    VOTERS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    sender: VoterKey
    to: VoterKey
    incarnation: int
    term: int
    index: int
    index_term: int
    round: int
    voters: VoterSet
    total_bytes: int
    checksum: int
    def __init__(self, sender: _Optional[_Union[VoterKey, _Mapping]] = ..., to: _Optional[_Union[VoterKey, _Mapping]] = ..., incarnation: _Optional[int] = ..., term: _Optional[int] = ..., index: _Optional[int] = ..., index_term: _Optional[int] = ..., round: _Optional[int] = ..., voters: _Optional[_Union[VoterSet, _Mapping]] = ..., total_bytes: _Optional[int] = ..., checksum: _Optional[int] = ...) -> None: ...

class SnapshotResponse(_message.Message):
    __slots__ = ("term", "index", "round", "is_counted")
    TERM_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    IS_COUNTED_FIELD_NUMBER: _ClassVar[int]
    term: int
    index: int
    round: int
    is_counted: bool
    def __init__(self, term: _Optional[int] = ..., index: _Optional[int] = ..., round: _Optional[int] = ..., is_counted: _Optional[bool] = ...) -> None: ...

class TimeoutNow(_message.Message):
    __slots__ = ("term",)
    TERM_FIELD_NUMBER: _ClassVar[int]
    term: int
    def __init__(self, term: _Optional[int] = ...) -> None: ...

class CatchUpRequest(_message.Message):
    __slots__ = ("term", "nonce")
    TERM_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    term: int
    nonce: int
    def __init__(self, term: _Optional[int] = ..., nonce: _Optional[int] = ...) -> None: ...

class CatchUpResponse(_message.Message):
    __slots__ = ("term", "nonce", "last_index")
    TERM_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    LAST_INDEX_FIELD_NUMBER: _ClassVar[int]
    term: int
    nonce: int
    last_index: int
    def __init__(self, term: _Optional[int] = ..., nonce: _Optional[int] = ..., last_index: _Optional[int] = ...) -> None: ...

class ExchangeResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class TransferSnapshotResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class IdentifyRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class IdentifyResponse(_message.Message):
    __slots__ = ("cluster_id", "key", "founding", "is_confirmed", "configured_voters")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    FOUNDING_FIELD_NUMBER: _ClassVar[int]
    IS_CONFIRMED_FIELD_NUMBER: _ClassVar[int]
    CONFIGURED_VOTERS_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    key: VoterKey
    founding: VoterSet
    is_confirmed: bool
    configured_voters: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, cluster_id: _Optional[str] = ..., key: _Optional[_Union[VoterKey, _Mapping]] = ..., founding: _Optional[_Union[VoterSet, _Mapping]] = ..., is_confirmed: _Optional[bool] = ..., configured_voters: _Optional[_Iterable[str]] = ...) -> None: ...
