"""The Raft core: events in, effects out. It touches neither disk nor network, clock nor global randomness.

``RaftCore.step`` takes one event and the time, and returns a ``Ready`` with all that has to happen: what to
persist, what to send at once and what only afterwards, what to apply, whom to answer. The contract between
the two is in ``ready.py``. Given the same events, times and seed it does the same.

The parts, each with one concern:

- ``RaftState``: what they share; term, vote, role, the effects of one step.
- ``RaftLog``: the entries, and the indexes that run along them.
- ``Elections``: asking for votes and giving them.
- ``Following``: taking entries and snapshots from a leader; catching up after a loss.
- ``Leadership``: one term in office, with ``Replication``, ``Membership``, ``ReadBarriers`` and
  ``LeadershipTransfer``.

Here, messages find their part, and effects become a ``Ready``. Two rules hold for all messages: who is not
addressed by node id *and* directory id does not listen (rule 41), and what an earlier process of a
directory has said is not heard after a later one has spoken.

**Rejected:** one large class with a handler per role, since every rule would then see every field; flags that
switch rules off for tests, since the tests would then exercise another core than the one that runs.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Final

from quorate.metadata.raft import validation
from quorate.metadata.raft.elections import Elections
from quorate.metadata.raft.entries import Entry, Index, Term
from quorate.metadata.raft.following import Following
from quorate.metadata.raft.limits import Limits
from quorate.metadata.raft.messages import (
    AppendRequest,
    AppendResponse,
    CatchUpRequest,
    CatchUpResponse,
    Envelope,
    SnapshotRequest,
    SnapshotResponse,
    TimeoutNow,
    VoteRequest,
    VoteResponse,
)
from quorate.metadata.raft.progress import FollowerProgress, ProgressState
from quorate.metadata.raft.ready import (
    AddVoter,
    Event,
    PeerGone,
    Persisted,
    Propose,
    ReadBarrier,
    Ready,
    Received,
    Refusal,
    RemoveVoter,
    Restored,
    Role,
    SoftState,
    Tick,
    Timing,
    Transfer,
    Trimmed,
)
from quorate.metadata.raft.state import RaftState
from quorate.metadata.raft.voters import VoterKey, Voters

__all__ = ["FollowerProgress", "Limits", "ProgressState", "RaftCore"]

_NOT_LEADER: Final = Refusal("not the leader")


class RaftCore:
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
        self._state = RaftState(key, restored, timing=timing, limits=limits, random=random, now=now)
        self._elections = Elections(self._state)
        self._following = Following(self._state)
        self._checker = validation.Checker(self._state)

    # --- views ------------------------------------------------------------------------------------

    @property
    def key(self) -> VoterKey:
        return self._state.key

    @property
    def incarnation(self) -> int:
        return self._state.incarnation

    @property
    def term(self) -> Term:
        return self._state.term

    @property
    def role(self) -> Role:
        return self._state.role

    @property
    def leader(self) -> VoterKey | None:
        return self._state.leader

    @property
    def is_recovering(self) -> bool:
        return self._state.is_recovering

    @property
    def commit_index(self) -> Index:
        return self._state.log.commit_index

    @property
    def applied_index(self) -> Index:
        """The last entry that was handed out to be applied."""
        return self._state.log.handed_out

    @property
    def durable_index(self) -> Index:
        """The last entry of the log as it is now that is synced here."""
        return self._state.log.durable_index

    @property
    def first_index(self) -> Index:
        """Of the first entry that is still held in memory, or would be."""
        return self._state.log.first_index

    @property
    def last_index(self) -> Index:
        return self._state.log.last_index

    @property
    def voters(self) -> Voters:
        """In force: those of the newest VOTERS entry in the log, committed or not."""
        return self._state.log.voters

    @property
    def committed_voters(self) -> Voters:
        return self._state.log.committed_voters

    def voters_at(self, index: Index) -> Voters:
        """In force at ``index``, for a snapshot of the state there."""
        return self._state.log.voters_at(index)

    def term_at(self, index: Index) -> Term | None:
        return self._state.log.term_at(index)

    def entries_from(self, index: Index) -> tuple[Entry, ...]:
        """All from ``index`` on, committed or not."""
        log = self._state.log
        return log.entries_between(index, log.last_index)

    def why_not_propose(self, event: Propose) -> Refusal | None:
        """Why ``event`` would be refused if it were stepped now; None: it would be appended, whole."""
        leadership = self._state.leadership
        return _NOT_LEADER if leadership is None else leadership.why_not_propose(event)

    def progress(self) -> Mapping[VoterKey, FollowerProgress]:
        """What a leader knows of its followers; empty elsewhere."""
        leadership = self._state.leadership
        return leadership.progress() if leadership is not None else {}

    def validate(self) -> None:
        """Assert every internal invariant; cheap enough for tests to call it after each event."""
        self._checker.check()

    # --- events -----------------------------------------------------------------------------------

    def step(self, event: Event, now: float) -> Ready:
        state = self._state
        state.now = now
        if state.leadership is not None:
            state.leadership.resign_without_quorum()
        match event:
            case Received():
                self._on_received(event.envelope)
            case PeerGone():
                self._elections.on_peer_gone(event.peer)
            case Persisted():
                self._on_persisted(event.sequence)
            case Tick():
                self._on_tick()
            case Trimmed():
                state.log.trim(event.snapshot, state.limits.entries_kept)
            case Transfer():
                if state.leadership is not None:
                    state.leadership.transfer(event)
            case _:
                self._on_request(event)
        return self._ready()

    def _on_tick(self) -> None:
        state = self._state
        if state.leadership is not None:
            state.leadership.on_tick()
        elif state.now >= state.election_deadline:
            self._elections.on_timeout()

    def _on_persisted(self, sequence: int) -> None:
        state = self._state
        state.durable_sequence = max(state.durable_sequence, sequence)
        state.log.written(sequence)
        self._elections.on_persisted()
        self._following.on_persisted()
        if state.leadership is not None:
            state.leadership.on_persisted()

    def _on_request(self, event: Propose | ReadBarrier | AddVoter | RemoveVoter) -> None:
        state = self._state
        leadership = state.leadership
        if leadership is None:
            request_ids = event.request_ids if isinstance(event, Propose) else (event.request_id,)
            for request_id in request_ids:
                state.refuse(request_id, _NOT_LEADER)
            return
        match event:
            case Propose():
                leadership.propose(event)
            case ReadBarrier():
                leadership.read(event)
            case AddVoter():
                leadership.add_voter(event)
            case RemoveVoter():
                leadership.remove_voter(event)

    # --- messages ---------------------------------------------------------------------------------

    def _on_received(self, envelope: Envelope) -> None:
        if not self._is_addressed(envelope) or not self._is_from_present_process(envelope):
            return
        sender = envelope.sender
        message = envelope.message
        match message:
            case AppendRequest():
                self._following.on_append(sender, message)
            case SnapshotRequest():
                self._following.on_snapshot(sender, message)
            case VoteRequest():
                self._elections.on_vote_request(sender, message)
            case VoteResponse(is_pre_vote=True, is_granted=True):
                self._elections.on_vote_response(sender, message)  # its term is one that nobody is in yet
            case _:
                if message.term > self._state.term:
                    self._state.enter_term(message.term)
                self._on_answer(envelope)

    def _on_answer(self, envelope: Envelope) -> None:
        """Messages that mean something only in the term that they were sent in."""
        state = self._state
        sender = envelope.sender
        message = envelope.message
        if isinstance(message, VoteResponse):
            self._elections.on_vote_response(sender, message)
            return
        if message.term < state.term:
            return
        match message:
            case TimeoutNow():
                self._elections.on_timeout_now(message)
            case CatchUpResponse():
                self._following.on_catch_up_response(message)
            case AppendResponse() if state.leadership is not None:
                state.leadership.on_append_response(sender, message, envelope.incarnation)
            case SnapshotResponse() if state.leadership is not None:
                state.leadership.on_snapshot_response(sender, message, envelope.incarnation)
            case CatchUpRequest() if state.leadership is not None:
                state.leadership.on_catch_up_request(sender, message, envelope.incarnation)

    def _is_addressed(self, envelope: Envelope) -> bool:
        """To this directory, not to one that this node had before (rule 41)."""
        return envelope.to == self._state.key and envelope.sender != self._state.key

    def _is_from_present_process(self, envelope: Envelope) -> bool:
        """What an earlier process of the sender's directory said may be true no longer."""
        incarnations = self._state.incarnations
        known = incarnations.get(envelope.sender, 0)
        if envelope.incarnation < known:
            return False
        if envelope.incarnation > known:
            incarnations[envelope.sender] = envelope.incarnation
            self._forget_strangers()
        return True

    def _forget_strangers(self) -> None:
        """Keep the memory of incarnations bounded; those who vote are not forgotten."""
        state = self._state
        if len(state.incarnations) <= state.limits.peers_max:
            return
        stranger = next((key for key in state.incarnations if key not in state.log.voters), None)
        if stranger is not None:
            del state.incarnations[stranger]

    # --- effects ----------------------------------------------------------------------------------

    def _ready(self) -> Ready:
        state = self._state
        state.sequence += 1
        hard_state = None
        if not state.is_hard_state_saved:
            hard_state = state.saved_hard_state = state.hard_state
            state.hard_state_sequence = state.sequence
        entries = state.log.take_unsaved()
        snapshot, state.installed = state.installed, None
        if entries or snapshot is not None:
            state.log.writing(state.sequence)
        committed = state.log.take_committed()
        if state.waiting:
            state.answer_handed_out()
        ready = Ready(
            sequence=state.sequence,
            hard_state=hard_state,
            snapshot=snapshot,
            entries=entries,
            send_now=tuple(state.send_now),
            send_after_persist=tuple(state.send_after_persist),
            committed=committed,
            answers=tuple(state.answers),
            soft_state=self._describe(),
            next_deadline=self._next_deadline(),
        )
        state.send_now.clear()
        state.send_after_persist.clear()
        state.answers.clear()
        return ready

    def _describe(self) -> SoftState:
        state = self._state
        return SoftState(state.role, state.term, state.leader, state.term_start)

    def _next_deadline(self) -> float:
        leadership = self._state.leadership
        return leadership.heartbeat_deadline if leadership is not None else self._state.election_deadline
