"""What goes into the core and what comes out of it.

The driver's contract, which the core relies on and which makes it safe:

1. Events enter one at a time. ``step`` never waits, and raises only for a bug.
2. What a ``Ready`` wants persisted (``hard_state``, ``snapshot``, ``entries``) is made durable in the order
   of the ``Ready``s, and within one in the order of its fields. One sync may cover many ``Ready``s.
3. ``send_now`` may leave at once. ``send_after_persist`` leaves once this ``Ready``, and all before it, are
   durable. Then, and only then, the driver steps ``Persisted`` with this ``Ready``'s ``sequence``.
4. ``committed`` is applied in order, exactly once; a ``snapshot``, once durable, replaces the applied state
   before it.
5. A failed write or sync ends the process (rule 45). Messages may be lost, doubled and reordered.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TypeAlias

from quorate.metadata.raft.entries import Entry, Index, Snapshot, SnapshotId, Term
from quorate.metadata.raft.messages import Envelope
from quorate.metadata.raft.voters import Voter, VoterKey, Voters

__all__ = [
    "AddVoter",
    "Answer",
    "Event",
    "HardState",
    "Outcome",
    "PeerGone",
    "Persisted",
    "Propose",
    "ReadBarrier",
    "Ready",
    "Received",
    "Refusal",
    "RemoveVoter",
    "Restored",
    "Role",
    "SoftState",
    "Tick",
    "Timing",
    "Transfer",
    "Trimmed",
]


class Role(enum.Enum):
    FOLLOWER = "follower"
    #: asks whether an election could be won, before it disturbs anybody with a new term
    PRE_CANDIDATE = "pre-candidate"
    CANDIDATE = "candidate"
    LEADER = "leader"


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds. An election time-out is drawn anew, between the two, whenever it is armed."""

    election_timeout_min_s: float = 0.5
    election_timeout_max_s: float = 1.0
    heartbeat_s: float = 0.1


@dataclass(frozen=True, slots=True)
class HardState:
    """What must never be forgotten; synced before any message that depends on it (rule 38)."""

    term: Term
    vote: VoterKey | None
    #: part of the log was lost to damage: neither vote nor count until a leader's log was caught up with
    is_recovering: bool = False


@dataclass(frozen=True, slots=True)
class Restored:
    """All that the disk holds at the start."""

    hard_state: HardState
    #: number of starts of this directory, this one included, already durable
    incarnation: int
    #: the state that entries continue from; None: nothing was compacted yet
    snapshot: SnapshotId | None
    #: in force at ``snapshot``, or the founding set
    voters: Voters
    #: after ``snapshot``, gap-free
    entries: tuple[Entry, ...]


# --- events ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed. Due at ``Ready.next_deadline`` at the latest; more often does no harm."""


@dataclass(frozen=True, slots=True)
class Received:
    envelope: Envelope


@dataclass(frozen=True, slots=True)
class PeerGone:
    """The peer's process seems to have ended: nobody listens at its address.

    A reason for haste. Nothing rests on its being true.
    """

    peer: VoterKey


@dataclass(frozen=True, slots=True)
class Persisted:
    """Everything in the ``Ready`` with this sequence, and before, is durable."""

    sequence: int


@dataclass(frozen=True, slots=True)
class Propose:
    """Append commands, if this node leads in ``term``. Each answer comes by ``Answer``."""

    request_ids: tuple[int, ...]
    commands: tuple[bytes, ...]
    #: the term in which the proposer believes to lead; another one: refused
    term: Term


@dataclass(frozen=True, slots=True)
class ReadBarrier:
    """Answered with an index: once that is applied, a read sees all that was acknowledged before it."""

    request_id: int


@dataclass(frozen=True, slots=True)
class Transfer:
    """Hand leadership to this voter; None: to the one that is furthest."""

    to: VoterKey | None


@dataclass(frozen=True, slots=True)
class AddVoter:
    """Bring a node up to date and then let it vote."""

    request_id: int
    voter: Voter


@dataclass(frozen=True, slots=True)
class RemoveVoter:
    request_id: int
    key: VoterKey


@dataclass(frozen=True, slots=True)
class Trimmed:
    """A snapshot of the applied state is durable: the core may forget the entries it stands for.

    The core keeps a tail of entries before it for followers that are a little behind. Stepped once after a
    start as well, with the snapshot that the disk holds: ``Restored`` only names it, and a leader without its
    bytes cannot help a follower that needs it.
    """

    snapshot: Snapshot


Event: TypeAlias = (
    Tick
    | Received
    | PeerGone
    | Persisted
    | Propose
    | ReadBarrier
    | Transfer
    | AddVoter
    | RemoveVoter
    | Trimmed
)


# --- effects --------------------------------------------------------------------------------------


class Outcome(enum.Enum):
    #: committed at ``index`` (a proposal, a voter change), or may be read at ``index`` (a barrier)
    DONE = "done"
    #: this node does not lead, or another change is under way: nothing was done
    REFUSED = "refused"
    #: more waits already than ``Limits`` allow: nothing was done
    OVERLOADED = "overloaded"
    #: leadership was lost before the entry was committed: it may be, or may not (rule 39)
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Answer:
    request_id: int
    outcome: Outcome
    index: Index
    #: for people, when not DONE
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why nothing is done."""

    #: for people
    reason: str
    #: REFUSED or OVERLOADED
    outcome: Outcome = Outcome.REFUSED


@dataclass(frozen=True, slots=True)
class SoftState:
    """Who does what; for the driver and for people. Never persisted."""

    role: Role
    term: Term
    leader: VoterKey | None
    #: leader only: the index of its first entry of this term; it acts once that is applied (rule 39)
    term_start: Index


@dataclass(frozen=True, slots=True)
class Ready:
    sequence: int
    # persist, in this order
    hard_state: HardState | None
    #: a leader's: replaces the whole journal before ``entries`` are appended; see ``apply`` as well
    snapshot: Snapshot | None
    #: gap-free; what the journal holds from ``entries[0].index`` on is replaced
    entries: tuple[Entry, ...]
    # send
    send_now: tuple[Envelope, ...]
    send_after_persist: tuple[Envelope, ...]
    # apply: first ``snapshot``, which replaces the applied state, once it is durable
    #: committed by a majority *and* durable here: a snapshot of what is applied never outruns the journal
    committed: tuple[Entry, ...]
    # tell
    #: a proposal is DONE in the ``Ready`` that hands its entry out, never before
    answers: tuple[Answer, ...]
    soft_state: SoftState
    #: monotonic seconds; ``Tick`` is due by then
    next_deadline: float

    @property
    def must_persist(self) -> bool:
        return self.hard_state is not None or self.snapshot is not None or bool(self.entries)
