"""Messages between voters: every one survives the wire, and what no voter sends is refused there."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

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
from quorate.metadata.raft.snapshot_transfer import receive_snapshot
from quorate.metadata.raft.voters import DirectoryId, NodeId, Voter, VoterKey, Voters
from quorate.metadata.raft.voters_codec import encode_voters
from quorate.metadata.raft.wire import (
    envelope_from_proto,
    envelope_to_proto,
    identity_from_proto,
    identity_to_proto,
    snapshot_envelope,
    transfer_to_proto,
)
from quorate.v1 import quorum_pb2

A = VoterKey(NodeId(1), DirectoryId("a" * 22))
B = VoterKey(NodeId(2), DirectoryId("b" * 22))
VOTERS = Voters((Voter(A, "a:1"), Voter(B, "b:1")))

numbers = st.integers(0, (1 << 63) - 1)
terms = numbers.map(Term)
indexes = numbers.map(Index)
flags = st.booleans()

messages: st.SearchStrategy[Message] = st.one_of(
    st.builds(VoteRequest, terms, indexes, terms, flags, flags),
    st.builds(VoteResponse, terms, flags, flags),
    st.builds(AppendResponse, terms, flags, indexes, terms, numbers, flags),
    st.builds(SnapshotResponse, terms, indexes, numbers, flags),
    st.builds(TimeoutNow, terms),
    st.builds(CatchUpRequest, terms, st.integers(-(1 << 63), (1 << 63) - 1)),
    st.builds(CatchUpResponse, terms, numbers, indexes),
)


def over_the_wire(envelope: Envelope) -> Envelope:
    content = envelope_to_proto(envelope).SerializeToString()
    arrived = envelope_from_proto(quorum_pb2.ExchangeRequest.FromString(content))
    assert arrived is not None
    return arrived


@given(messages, numbers)
def test_message_arrives_as_it_was_sent(message: Message, incarnation: int) -> None:
    envelope = Envelope(A, B, incarnation, message)
    assert over_the_wire(envelope) == envelope


def append(*entries: Entry, term: int = 5, previous: tuple[int, int] = (3, 6)) -> Envelope:
    previous_term, previous_index = previous
    request = AppendRequest(Term(term), Index(previous_index), Term(previous_term), entries, Index(6), 9)
    return Envelope(A, B, 1, request)


def entry(index: int, term: int, kind: EntryKind = EntryKind.COMMAND, data: bytes = b"x") -> Entry:
    return Entry(Index(index), Term(term), kind, data)


def test_entries_arrive_as_they_were_sent() -> None:
    envelope = append(
        entry(7, 3),
        entry(8, 5, EntryKind.NOOP, b""),
        entry(9, 5, EntryKind.VOTERS, encode_voters(VOTERS)),
    )
    assert over_the_wire(envelope) == envelope


@pytest.mark.parametrize(
    "envelope",
    [
        pytest.param(append(entry(8, 5)), id="gap behind previous"),
        pytest.param(append(entry(7, 5), entry(9, 5)), id="gap between entries"),
        pytest.param(append(entry(7, 2)), id="term falls"),
        pytest.param(append(entry(7, 6)), id="term beyond the leader's"),
        pytest.param(append(previous=(6, 6)), id="previous term beyond the leader's"),
        pytest.param(append(entry(7, 5, EntryKind.VOTERS, b"nobody")), id="no voters"),
        pytest.param(append(entry(0, 5), previous=(0, -1)), id="negative"),
        pytest.param(Envelope(A, B, -1, TimeoutNow(Term(1))), id="negative incarnation"),
        pytest.param(Envelope(A, B, 1, TimeoutNow(Term(-1))), id="negative term"),
    ],
)
def test_what_no_voter_sends_is_refused(envelope: Envelope) -> None:
    with pytest.raises(InvalidRequest):
        over_the_wire(envelope)


def test_entry_of_an_unknown_kind_is_refused() -> None:
    request = envelope_to_proto(append(entry(7, 5)))
    request.append_request.entries[0].kind = 99  # type: ignore[assignment]  # as a newer version would
    with pytest.raises(InvalidRequest):
        envelope_from_proto(request)


def test_message_of_an_unknown_kind_is_as_good_as_lost() -> None:
    assert envelope_from_proto(quorum_pb2.ExchangeRequest(incarnation=1)) is None


# --- snapshots ------------------------------------------------------------------------------------


SNAPSHOT = Envelope(
    A, B, 4, SnapshotRequest(Term(5), Snapshot(SnapshotId(Index(7), Term(3)), VOTERS, b"x" * 1000), 2)
)


async def received(*requests: quorum_pb2.TransferSnapshotRequest) -> Envelope:
    async def source() -> AsyncIterator[quorum_pb2.TransferSnapshotRequest]:
        for request in requests:
            yield request

    return await receive_snapshot(source(), bytes_max=1 << 20)


def pieces(*data: bytes, checksum: int | None = None) -> list[quorum_pb2.TransferSnapshotRequest]:
    message = SNAPSHOT.message
    assert isinstance(message, SnapshotRequest)
    transfer = transfer_to_proto(
        SNAPSHOT, checksum=crc32c(message.snapshot.data) if checksum is None else checksum
    )
    head = quorum_pb2.TransferSnapshotRequest(transfer=transfer)
    return [head, *(quorum_pb2.TransferSnapshotRequest(data=each) for each in data)]


async def test_snapshot_arrives_whole() -> None:
    assert await received(*pieces(b"x" * 600, b"x" * 400)) == SNAPSHOT


async def test_snapshot_that_is_short_long_or_altered_is_refused() -> None:
    for wrong in (
        pieces(b"x" * 600),
        pieces(b"x" * 600, b"x" * 401),
        pieces(b"x" * 600, b"y" * 400),
        pieces(b"x" * 600, b"x" * 400)[1:],
        [],
    ):
        with pytest.raises(InvalidRequest):
            await received(*wrong)


async def test_snapshot_that_is_announced_too_large_is_refused_before_it_is_taken() -> None:
    [head] = pieces()
    head.transfer.total_bytes = 1 << 40
    with pytest.raises(InvalidRequest, match="more than"):
        await received(head)


def test_snapshot_of_a_later_term_than_its_leader_is_refused() -> None:
    transfer = transfer_to_proto(SNAPSHOT, checksum=0)
    transfer.index_term = 6
    with pytest.raises(InvalidRequest):
        snapshot_envelope(transfer, b"")


def test_snapshot_with_voters_that_are_no_set_is_refused() -> None:
    transfer = transfer_to_proto(SNAPSHOT, checksum=0)
    transfer.voters.voters.append(transfer.voters.voters[0])
    with pytest.raises(InvalidRequest):
        snapshot_envelope(transfer, b"")


# --- founding -------------------------------------------------------------------------------------


@pytest.mark.parametrize("founding", [None, Voters(()), VOTERS])
@pytest.mark.parametrize("cluster_id", [None, "c"])
def test_identity_arrives_as_it_was_sent(founding: Voters | None, cluster_id: str | None) -> None:
    configured = (ConfiguredVoter(NodeId(1), "a:1"), ConfiguredVoter(NodeId(2), "[::1]:1"))
    identity = IdentifyResponse(
        cluster_id, A.node_id, A.directory_id, configured, founding, is_confirmed=True
    )
    assert identity_from_proto(identity_to_proto(identity)) == identity


def test_identity_with_a_voter_that_is_none_is_refused() -> None:
    response = quorum_pb2.IdentifyResponse(configured_voters=["nobody"])
    with pytest.raises(InvalidRequest):
        identity_from_proto(response)
