"""What the parts of the core share: who this voter is, its term, role and log, and the effects of one step.

The parts (``Elections``, ``Following``, ``Leadership``) decide; this holds what they decide on and collects
what they want done. What belongs to an election or to a leadership lives in an object of its own that is
thrown away with it, so nothing of an old term is left to be mistaken for the present one.
"""

from __future__ import annotations

import math
import random
from collections import deque
from typing import TYPE_CHECKING, Final

from quorate.metadata.raft.entries import NO_INDEX, Entry, EntryKind, Index, Snapshot, Term
from quorate.metadata.raft.limits import Limits
from quorate.metadata.raft.messages import Envelope, Message
from quorate.metadata.raft.raft_log import RaftLog, entry_bytes
from quorate.metadata.raft.ready import Answer, HardState, Outcome, Refusal, Restored, Role, Timing
from quorate.metadata.raft.voters import VoterKey

if TYPE_CHECKING:
    from quorate.metadata.raft.elections import Campaign
    from quorate.metadata.raft.leadership import Leadership

__all__ = ["RaftState"]

#: of the shortest time-out: when to ask for votes where the leader is seen to be gone
_SHARES_OF_HASTE: Final = (0.05, 0.5)


class RaftState:
    def __init__(
        self,
        key: VoterKey,
        restored: Restored,
        *,
        timing: Timing,
        limits: Limits,
        random: random.Random,
        now: float,
    ) -> None:
        self.key = key
        self.incarnation = restored.incarnation
        self.timing = timing
        self.limits = limits
        self.random = random
        self.now = now

        self.term = restored.hard_state.term
        self.vote = restored.hard_state.vote
        self.is_recovering = restored.hard_state.is_recovering
        self.saved_hard_state = restored.hard_state
        self.log = RaftLog(restored.snapshot, restored.voters, restored.entries)

        #: the highest heard of each peer
        self.incarnations: dict[VoterKey, int] = {}
        self.role = Role.FOLLOWER
        self.leader: VoterKey | None = None
        self.leader_heard_at = -math.inf
        self.election_deadline = 0.0
        self.campaign: Campaign | None = None
        self.leadership: Leadership | None = None
        #: (index, request id, bytes) of proposals and voter changes that wait to be handed out
        self.waiting: deque[tuple[Index, int, int]] = deque()
        self.waiting_bytes = 0

        self.sequence = 0
        self.durable_sequence = 0
        self.hard_state_sequence = 0
        self.send_now: list[Envelope] = []
        self.send_after_persist: list[Envelope] = []
        self.installed: Snapshot | None = None
        self.answers: list[Answer] = []
        self.arm_election_timer()

    # --- effects ----------------------------------------------------------------------------------

    def send(self, to: VoterKey, message: Message) -> None:
        """At once: a crash of this process takes nothing back that ``message`` says."""
        self.send_now.append(Envelope(self.key, to, self.incarnation, message))

    def send_once_durable(self, to: VoterKey, message: Message) -> None:
        """After everything that was decided up to now is durable (rule 38)."""
        self.send_after_persist.append(Envelope(self.key, to, self.incarnation, message))

    def send_once_hard_state_durable(self, to: VoterKey, message: Message) -> None:
        """After the term, the vote and the end of a recovery are durable: at once, where they are."""
        send = self.send if self.is_hard_state_durable else self.send_once_durable
        send(to, message)

    def answer(self, request_id: int, index: Index) -> None:
        self.answers.append(Answer(request_id, Outcome.DONE, index))

    def refuse(self, request_id: int, refusal: Refusal) -> None:
        self.answers.append(Answer(request_id, refusal.outcome, NO_INDEX, refusal.reason))

    # --- terms and roles --------------------------------------------------------------------------

    @property
    def hard_state(self) -> HardState:
        return HardState(self.term, self.vote, self.is_recovering)

    @property
    def is_hard_state_durable(self) -> bool:
        """Would a crash now bring back this very term and vote?"""
        return self.durable_sequence >= self.hard_state_sequence and self.is_hard_state_saved

    @property
    def is_hard_state_saved(self) -> bool:
        """Was it given to the driver to be persisted?"""
        saved = self.saved_hard_state
        return (
            saved.term == self.term and saved.vote == self.vote and saved.is_recovering is self.is_recovering
        )

    @property
    def term_start(self) -> Index:
        return self.leadership.term_start if self.leadership is not None else NO_INDEX

    def enter_term(self, term: Term) -> None:
        """Somebody is in a later term: whatever this voter was doing in its own is over."""
        assert term > self.term
        self.become_follower(None)
        self.term = term
        self.vote = None

    def become_follower(self, leader: VoterKey | None) -> None:
        """In the current term."""
        was_follower = self.role is Role.FOLLOWER
        self.role = Role.FOLLOWER
        self.leader = leader
        self.campaign = None
        if self.leadership is not None:
            ended, self.leadership = self.leadership, None
            ended.end()
        if not was_follower:
            self.arm_election_timer()

    def heard_from_leader(self, leader: VoterKey) -> None:
        """Whatever it said, accepted or not, it is alive.

        A follower that cannot take what the leader sends yet must not campaign either: it would lose, and
        keep losing, and what it costs would keep it from catching up (the pre-vote livelock of rule 40).
        """
        self.become_follower(leader)
        self.leader_heard_at = self.now
        self.arm_election_timer()

    def arm_election_timer(self) -> None:
        timing = self.timing
        self.election_deadline = self.now + self.random.uniform(
            timing.election_timeout_min_s, timing.election_timeout_max_s
        )

    def hasten_election(self) -> None:
        """Soon, and far enough apart that most often one asks before the others do."""
        shortest, longest = _SHARES_OF_HASTE
        share = self.random.uniform(shortest, longest)
        self.election_deadline = self.now + share * self.timing.election_timeout_min_s

    # --- waiting for commitment -------------------------------------------------------------------

    def append_own(self, kind: EntryKind, data: bytes, request_id: int | None = None) -> Index:
        """A new entry of this leader's; ``request_id`` is answered once it is committed."""
        entry = Entry(Index(self.log.last_index + 1), self.term, kind, data)
        self.log.append(entry)
        if request_id is not None:
            size = entry_bytes(data)
            self.waiting.append((entry.index, request_id, size))
            self.waiting_bytes += size
        return entry.index

    def answer_handed_out(self) -> None:
        """Those who wait for entries that are applied now.

        Not at the commit itself: an answer never comes before its entry was given to the state machine.
        """
        handed_out = self.log.handed_out
        while self.waiting and self.waiting[0][0] <= handed_out:
            index, request_id, size = self.waiting.popleft()
            self.waiting_bytes -= size
            self.answer(request_id, index)

    def disown_uncommitted(self) -> None:
        """Leadership is lost: whether these entries survive is for others to decide (rule 39)."""
        while self.waiting and self.waiting[-1][0] > self.log.commit_index:
            index, request_id, size = self.waiting.pop()
            self.waiting_bytes -= size
            reason = "leadership was lost before the entry was committed"
            self.answers.append(Answer(request_id, Outcome.UNKNOWN, index, reason))

    @property
    def last_log_position(self) -> tuple[Term, Index]:
        """Ordered as the election restriction orders logs: by last term, then by length."""
        return (self.log.last_term, self.log.last_index)
