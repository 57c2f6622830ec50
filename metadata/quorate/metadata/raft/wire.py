"""Messages between voters, as protobuf.

The core asserts what a correct peer can never send: gaps between entries, terms that fall along the log. So
that no peer can bring this process down by sending it anyway, all of that is checked here, where it is still
somebody else's fault: ``InvalidRequest``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, TypeVar

from google.protobuf.message import Message as ProtobufMessage

from quorate.core.config import parse_address
from quorate.errors import InvalidRequest
from quorate.metadata.raft.entries import Entry, EntryKind, Index, Snapshot, SnapshotId, Term
from quorate.metadata.raft.founding import ConfiguredVoter, IdentifyResponse
from quorate.metadata.raft.messages import (
    AppendRequest,
    AppendResponse,
    CatchUpRequest,
    CatchUpResponse,
    Envelope,
    Message,
    SnapshotRequest,
    SnapshotResponse,
    TimeoutNow,
    VoteRequest,
    VoteResponse,
)
from quorate.metadata.raft.voters import DirectoryId, NodeId, Voter, VoterKey, Voters
from quorate.metadata.raft.voters_codec import decode_voters
from quorate.v1 import quorum_pb2

__all__ = [
    "envelope_from_proto",
    "envelope_to_proto",
    "identity_from_proto",
    "identity_to_proto",
    "key_from_proto",
    "key_to_proto",
    "snapshot_envelope",
    "transfer_to_proto",
    "voters_from_proto",
    "voters_to_proto",
]

Fields = TypeVar("Fields")

_KINDS: Final = {int(kind): kind for kind in EntryKind}


# --- voters ---------------------------------------------------------------------------------------


@lru_cache(maxsize=64)  # two in every message, always the same few; putting one into a message copies it
def key_to_proto(key: VoterKey) -> quorum_pb2.VoterKey:
    return quorum_pb2.VoterKey(node_id=key.node_id, directory_id=key.directory_id)


def key_from_proto(key: quorum_pb2.VoterKey) -> VoterKey:
    return _key(key.node_id, key.directory_id)


@lru_cache(maxsize=64)
def _key(node_id: int, directory_id: str) -> VoterKey:
    return VoterKey(NodeId(node_id), DirectoryId(directory_id))


def voters_to_proto(voters: Voters) -> quorum_pb2.VoterSet:
    return quorum_pb2.VoterSet(
        voters=[quorum_pb2.Voter(key=key_to_proto(each.key), address=each.address) for each in voters]
    )


def voters_from_proto(voters: quorum_pb2.VoterSet) -> Voters:
    try:
        return Voters(tuple(Voter(key_from_proto(each.key), each.address) for each in voters.voters))
    except ValueError as error:
        raise InvalidRequest(f"not a set of voters: {error}") from None


# --- messages on the stream -----------------------------------------------------------------------


def envelope_to_proto(envelope: Envelope) -> quorum_pb2.ExchangeRequest:
    """Of any message but a SnapshotRequest, which travels in pieces."""
    name, encode = _ENCODERS[type(envelope.message)]
    return quorum_pb2.ExchangeRequest(
        sender=key_to_proto(envelope.sender),
        to=key_to_proto(envelope.to),
        incarnation=envelope.incarnation,
        **{name: encode(envelope.message)},
    )


def envelope_from_proto(request: quorum_pb2.ExchangeRequest) -> Envelope | None:
    """None: a greeting, if it has a ``sender_address``; else a message that only newer versions know."""
    name = request.WhichOneof("message")
    if name is None:
        return None
    return Envelope(
        sender=key_from_proto(request.sender),
        to=key_from_proto(request.to),
        incarnation=_not_negative(request.incarnation),
        message=_DECODERS[name](getattr(request, name)),
    )


def _append_request_to_proto(message: AppendRequest) -> quorum_pb2.AppendRequest:
    request = quorum_pb2.AppendRequest(
        term=message.term,
        previous_index=message.previous_index,
        previous_term=message.previous_term,
        commit_index=message.commit_index,
        round=message.round,
    )
    for entry in message.entries:
        request.entries.add(index=entry.index, term=entry.term, kind=entry.kind.value, data=entry.data)
    return request


def _append_request_from_proto(request: quorum_pb2.AppendRequest) -> AppendRequest:
    _not_negative(request.previous_index, request.previous_term, request.commit_index, request.round)
    index, term = request.previous_index, request.previous_term
    entries = []
    for entry in request.entries:
        if entry.index != index + 1 or entry.term < term:
            raise InvalidRequest(f"entry {entry.term}:{entry.index} cannot follow entry {term}:{index}")
        index, term = entry.index, entry.term
        entries.append(_entry_from_proto(entry))
    if term > request.term:
        raise InvalidRequest(f"a leader of term {request.term} cannot hold entries of term {term}")
    return AppendRequest(
        term=Term(request.term),
        previous_index=Index(request.previous_index),
        previous_term=Term(request.previous_term),
        entries=tuple(entries),
        commit_index=Index(request.commit_index),
        round=request.round,
    )


def _append_response_from_proto(response: quorum_pb2.AppendResponse) -> AppendResponse:
    """The most frequent one, so without the generality of ``_same_fields``."""
    _not_negative(response.term, response.index, response.hint_term, response.round)
    return AppendResponse(
        Term(response.term),
        response.is_success,
        Index(response.index),
        Term(response.hint_term),
        response.round,
        response.is_counted,
    )


def _entry_from_proto(entry: quorum_pb2.QuorumEntry) -> Entry:
    kind = _KINDS.get(entry.kind)
    if kind is None:
        raise InvalidRequest(f"entry {entry.index} is of a kind that this version does not know")
    if kind is EntryKind.VOTERS:
        try:
            decode_voters(entry.data)
        except ValueError as error:
            raise InvalidRequest(f"entry {entry.index} is no set of voters: {error}") from None
    return Entry(Index(entry.index), Term(entry.term), kind, entry.data)


def _same_fields(target: Callable[..., Fields], *names: str) -> Callable[[Any], Fields]:
    """Converts by copying these fields: both sides give them the same names."""

    def convert(source: Any) -> Fields:
        return target(**{name: getattr(source, name) for name in names})

    return convert


def _checked(decode: Callable[[Any], Fields], *names: str) -> Callable[[Any], Fields]:
    """None of these fields may be negative."""

    def convert(source: Any) -> Fields:
        _not_negative(*(getattr(source, name) for name in names))
        return decode(source)

    return convert


def _not_negative(*numbers: int) -> int:
    if min(numbers) < 0:
        raise InvalidRequest("a message with a negative term, index or count")
    return numbers[0]


#: messages without anything nested: (dataclass, protobuf class, name in the oneof, numbers, the rest)
_FLAT: Final[tuple[tuple[type[Any], type[ProtobufMessage], str, tuple[str, ...], tuple[str, ...]], ...]] = (
    (
        VoteRequest,
        quorum_pb2.VoteRequest,
        "vote_request",
        ("term", "last_index", "last_term"),
        ("is_pre_vote", "is_transfer"),
    ),
    (VoteResponse, quorum_pb2.VoteResponse, "vote_response", ("term",), ("is_granted", "is_pre_vote")),
    (
        AppendResponse,
        quorum_pb2.AppendResponse,
        "append_response",
        ("term", "index", "hint_term", "round"),
        ("is_success", "is_counted"),
    ),
    (
        SnapshotResponse,
        quorum_pb2.SnapshotResponse,
        "snapshot_response",
        ("term", "index", "round"),
        ("is_counted",),
    ),
    (TimeoutNow, quorum_pb2.TimeoutNow, "timeout_now", ("term",), ()),
    (CatchUpRequest, quorum_pb2.CatchUpRequest, "catch_up_request", ("term",), ("nonce",)),
    (
        CatchUpResponse,
        quorum_pb2.CatchUpResponse,
        "catch_up_response",
        ("term", "last_index"),
        ("nonce",),
    ),
)

_ENCODERS: Final[Mapping[type[Any], tuple[str, Callable[[Any], Any]]]] = {
    AppendRequest: ("append_request", _append_request_to_proto),
    **{
        dataclass: (name, _same_fields(proto, *numbers, *rest))
        for dataclass, proto, name, numbers, rest in _FLAT
    },
}
_DECODERS: Final[Mapping[str, Callable[[Any], Message]]] = {
    "append_request": _append_request_from_proto,
    **{
        name: _checked(_same_fields(dataclass, *numbers, *rest), *numbers)
        for dataclass, _, name, numbers, rest in _FLAT
    },
    "append_response": _append_response_from_proto,
}


# --- snapshots ------------------------------------------------------------------------------------


def transfer_to_proto(envelope: Envelope, *, checksum: int) -> quorum_pb2.SnapshotTransfer:
    """All of a SnapshotRequest but its bytes."""
    message = envelope.message
    assert isinstance(message, SnapshotRequest)
    return quorum_pb2.SnapshotTransfer(
        sender=key_to_proto(envelope.sender),
        to=key_to_proto(envelope.to),
        incarnation=envelope.incarnation,
        term=message.term,
        index=message.snapshot.id.index,
        index_term=message.snapshot.id.term,
        round=message.round,
        voters=voters_to_proto(message.snapshot.voters),
        total_bytes=len(message.snapshot.data),
        checksum=checksum,
    )


def snapshot_envelope(transfer: quorum_pb2.SnapshotTransfer, data: bytes) -> Envelope:
    """The SnapshotRequest, once all of its bytes are here."""
    _not_negative(transfer.incarnation, transfer.term, transfer.index, transfer.index_term, transfer.round)
    if transfer.index_term > transfer.term:
        raise InvalidRequest(
            f"a leader of term {transfer.term} cannot hold a snapshot of term {transfer.index_term}"
        )
    snapshot = Snapshot(
        id=SnapshotId(Index(transfer.index), Term(transfer.index_term)),
        voters=voters_from_proto(transfer.voters),
        data=data,
    )
    return Envelope(
        sender=key_from_proto(transfer.sender),
        to=key_from_proto(transfer.to),
        incarnation=transfer.incarnation,
        message=SnapshotRequest(Term(transfer.term), snapshot, transfer.round),
    )


# --- founding -------------------------------------------------------------------------------------


def identity_to_proto(identity: IdentifyResponse) -> quorum_pb2.IdentifyResponse:
    return quorum_pb2.IdentifyResponse(
        cluster_id=identity.cluster_id or "",
        key=key_to_proto(identity.key),
        founding=None if identity.founding is None else voters_to_proto(identity.founding),
        is_confirmed=identity.is_confirmed,
        configured_voters=[f"{each.node_id}@{each.address}" for each in identity.configured],
    )


def identity_from_proto(response: quorum_pb2.IdentifyResponse) -> IdentifyResponse:
    key = key_from_proto(response.key)
    return IdentifyResponse(
        cluster_id=response.cluster_id or None,
        node_id=key.node_id,
        directory_id=key.directory_id,
        configured=tuple(_configured_from_text(each) for each in response.configured_voters),
        founding=voters_from_proto(response.founding) if response.HasField("founding") else None,
        is_confirmed=response.is_confirmed,
    )


def _configured_from_text(text: str) -> ConfiguredVoter:
    node_id, _, address = text.partition("@")
    try:
        return ConfiguredVoter(NodeId(int(node_id)), str(parse_address(address)))
    except ValueError as error:
        raise InvalidRequest(f"not a configured voter: {error}") from None
