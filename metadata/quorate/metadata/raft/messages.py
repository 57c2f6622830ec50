"""What voters say to each other.

Every message names its sender and its addressee in full, node id and directory id, so that nobody counts the
voice of a disk that is no longer the one that was elected into the quorum (rule 41). ``incarnation`` counts
the starts of the sender's process; it only grows for as long as the directory lives. It tells a voter that
was restarted from one whose old words arrive late, and a directory that was put back from an old copy from
the one that the leader knew.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from quorate.metadata.raft.entries import Entry, Index, Snapshot, Term
from quorate.metadata.raft.voters import VoterKey

__all__ = [
    "NO_ROUND",
    "AppendRequest",
    "AppendResponse",
    "CatchUpRequest",
    "CatchUpResponse",
    "Envelope",
    "Message",
    "SnapshotRequest",
    "SnapshotResponse",
    "TimeoutNow",
    "VoteRequest",
    "VoteResponse",
]

#: before the first round of a leader's heartbeats
NO_ROUND: Final = 0


@dataclass(frozen=True, slots=True)
class VoteRequest:
    term: Term
    last_index: Index
    last_term: Term
    #: would you vote for me in this term? Nothing changes at the one who is asked
    is_pre_vote: bool
    #: the old leader asked for this election: do not protect it
    is_transfer: bool


@dataclass(frozen=True, slots=True)
class VoteResponse:
    """``term`` is the request's when granted, else the responder's own."""

    term: Term
    is_granted: bool
    is_pre_vote: bool


@dataclass(frozen=True, slots=True)
class AppendRequest:
    """Entries after ``previous_index``; without entries it is a heartbeat."""

    term: Term
    previous_index: Index
    previous_term: Term
    entries: tuple[Entry, ...]
    commit_index: Index
    #: grows with every round of heartbeats; the echo proves leadership at that time (ReadIndex)
    round: int


@dataclass(frozen=True, slots=True)
class AppendResponse:
    term: Term
    is_success: bool
    #: success: what is durable and matches the leader's log; else a hint where the logs may meet
    index: Index
    #: the responder's term at ``index`` where it rejected, to skip a whole term at once
    hint_term: Term
    #: the request's; NO_ROUND: the request was of an earlier term, and only ``term`` is an answer
    round: int
    #: False: a voter that lost part of its log. It takes entries and must not be counted
    is_counted: bool


@dataclass(frozen=True, slots=True)
class SnapshotRequest:
    """In place of entries that the leader no longer has. The driver moves its bytes in pieces."""

    term: Term
    snapshot: Snapshot
    round: int


@dataclass(frozen=True, slots=True)
class SnapshotResponse:
    term: Term
    #: the log now holds everything up to here, durably
    index: Index
    round: int
    is_counted: bool


@dataclass(frozen=True, slots=True)
class TimeoutNow:
    """Stand for election at once: the leader gives up its office to the addressee."""

    term: Term


@dataclass(frozen=True, slots=True)
class CatchUpRequest:
    """A voter that lost part of its log asks the leader how far it has to come before it counts again."""

    term: Term
    #: drawn anew at each start, so that no answer to an earlier question is taken for this one's
    nonce: int


@dataclass(frozen=True, slots=True)
class CatchUpResponse:
    term: Term
    nonce: int
    #: the leader's last index when it was asked
    last_index: Index


Message: TypeAlias = (
    VoteRequest
    | VoteResponse
    | AppendRequest
    | AppendResponse
    | SnapshotRequest
    | SnapshotResponse
    | TimeoutNow
    | CatchUpRequest
    | CatchUpResponse
)


@dataclass(frozen=True, slots=True)
class Envelope:
    sender: VoterKey
    to: VoterKey
    incarnation: int
    message: Message
