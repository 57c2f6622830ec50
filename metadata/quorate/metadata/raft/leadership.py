"""A leader's term in office: from its election until it steps down. Then this object is thrown away.

**Commit.** An entry is committed when a majority of the voters in force holds it durably *and* it is of this
leader's own term (``_may_commit``). An older entry on a majority may still be overwritten by a leader that
never saw it; once an entry of the own term follows it on a majority, nobody without both can be elected
(rule 38). So the first entry of every term is a no-op, and a leader acts only when that is applied (rule 39).

**Check-quorum.** A leader that heard no majority for an election time-out resigns (rule 40): the others may
have elected another long ago, and those who wait for this one should learn that it cannot answer. It is
checked before any event, since the event may be the first after a long pause of the process.
"""

from __future__ import annotations

from typing import Final

from quorate.metadata.raft.entries import NO_INDEX, EntryKind, Index
from quorate.metadata.raft.membership import Membership
from quorate.metadata.raft.messages import AppendResponse, CatchUpRequest, CatchUpResponse, SnapshotResponse
from quorate.metadata.raft.progress import FollowerProgress, Progress
from quorate.metadata.raft.raft_log import entry_bytes
from quorate.metadata.raft.reads import ReadBarriers
from quorate.metadata.raft.ready import (
    AddVoter,
    Outcome,
    Propose,
    ReadBarrier,
    Refusal,
    RemoveVoter,
    Transfer,
)
from quorate.metadata.raft.replication import Replication
from quorate.metadata.raft.state import RaftState
from quorate.metadata.raft.transfer import LeadershipTransfer
from quorate.metadata.raft.voters import VoterKey

__all__ = ["Leadership"]

_HANDING_OVER: Final = Refusal("leadership is being handed over")
_OVERLOADED: Final = Refusal("too much waits to be committed; try again in a moment", Outcome.OVERLOADED)


class Leadership:
    def __init__(self, state: RaftState) -> None:
        self._state = state
        self.replication = Replication(state)
        self._membership = Membership(state, self.replication)
        self._reads = ReadBarriers(state, self.replication)
        self._transfer = LeadershipTransfer(state, self.replication)
        #: the no-op that opens the term
        self.term_start = NO_INDEX
        self.heartbeat_deadline = state.now + state.timing.heartbeat_s
        #: no need to look for a majority before
        self._quorum_deadline = state.now + state.timing.election_timeout_max_s

    def start(self) -> None:
        self.replication.follow(learner=None)
        self.term_start = self._state.append_own(EntryKind.NOOP, b"")
        self.replication.send_entries_to_all()

    def end(self) -> None:
        """Whoever waits gets an answer."""
        self._state.disown_uncommitted()
        self._reads.end()
        self._membership.end()

    # --- time -------------------------------------------------------------------------------------

    def on_tick(self) -> None:
        state = self._state
        if state.now < self.heartbeat_deadline:
            return
        self.heartbeat_deadline = state.now + state.timing.heartbeat_s
        self.replication.send_heartbeats()
        self.replication.resend_snapshots()
        self._membership.on_tick()
        self._transfer.on_tick()

    def resign_without_quorum(self) -> None:
        state = self._state
        if state.now >= self._quorum_deadline and not self._hears_quorum():
            state.become_follower(None)

    def _hears_quorum(self) -> bool:
        state = self._state
        self._quorum_deadline = self.replication.quorum_heard_at() + state.timing.election_timeout_max_s
        return state.now < self._quorum_deadline

    # --- requests ---------------------------------------------------------------------------------

    def propose(self, event: Propose) -> None:
        state = self._state
        refusal = self.why_not_propose(event)
        if refusal is not None:
            for request_id in event.request_ids:
                state.refuse(request_id, refusal)
            return
        for request_id, command in zip(event.request_ids, event.commands, strict=True):
            state.append_own(EntryKind.COMMAND, command, request_id)
        self.replication.send_entries_to_all()

    def why_not_propose(self, event: Propose) -> Refusal | None:
        """None: it would be appended, whole."""
        state = self._state
        if event.term != state.term:
            return Refusal(f"term {event.term} is over")
        if self._transfer.is_under_way:
            return _HANDING_OVER
        is_full = (
            len(state.waiting) + len(event.commands) > state.limits.uncommitted_count_max
            or state.waiting_bytes + entry_bytes(*event.commands) > state.limits.uncommitted_bytes_max
        )
        # Where nothing waits, one request passes whatever its size: it would never pass later either.
        return _OVERLOADED if is_full and state.waiting else None

    def read(self, event: ReadBarrier) -> None:
        self._reads.add(event.request_id)

    def transfer(self, event: Transfer) -> None:
        self._transfer.start(event.to)

    def add_voter(self, event: AddVoter) -> None:
        if not self._refuse_during_transfer(event.request_id):
            self._membership.add(event)

    def remove_voter(self, event: RemoveVoter) -> None:
        if not self._refuse_during_transfer(event.request_id):
            self._membership.remove(event)

    def _refuse_during_transfer(self, request_id: int) -> bool:
        if self._transfer.is_under_way:
            self._state.refuse(request_id, _HANDING_OVER)
        return self._transfer.is_under_way

    # --- what followers say -----------------------------------------------------------------------

    def on_append_response(self, sender: VoterKey, response: AppendResponse, incarnation: int) -> None:
        progress = self.replication[sender]
        if progress is not None:
            self.replication.on_append_response(progress, response, incarnation)
            self._after_progress()

    def on_snapshot_response(self, sender: VoterKey, response: SnapshotResponse, incarnation: int) -> None:
        progress = self.replication[sender]
        if progress is not None:
            self.replication.on_snapshot_response(progress, response, incarnation)
            self._after_progress()

    def on_catch_up_request(self, sender: VoterKey, request: CatchUpRequest, incarnation: int) -> None:
        progress = self.replication[sender]
        if progress is not None:
            self.replication.on_catch_up_request(progress, incarnation)
            response = CatchUpResponse(self._state.term, request.nonce, self._catch_up_index())
            self._state.send(sender, response)

    def on_persisted(self) -> None:
        self._after_progress()

    def _after_progress(self) -> None:
        self._advance_commit_index()
        if self._state.leadership is not self:
            return  # it has removed itself from the voters
        self._membership.on_progress()
        self._reads.advance()
        self._transfer.advance()
        self.replication.send_commit_index()

    # --- committing -------------------------------------------------------------------------------

    def _advance_commit_index(self) -> None:
        log = self._state.log
        index = self.replication.quorum_match_index()
        if index <= log.commit_index or not self._may_commit(index):
            return
        is_voters_change = log.commit_index < log.voters_index <= index
        log.commit(index)
        if is_voters_change:
            self._finish_voters_change()

    def _may_commit(self, index: Index) -> bool:
        """Entries of earlier terms are committed only through one of the own term (rule 38)."""
        return self._state.log.term_at(index) == self._state.term

    def _finish_voters_change(self) -> None:
        """Tell everybody, those who were removed too, before they are forgotten."""
        state = self._state
        self.replication.send_heartbeats()
        self._membership.on_commit()
        if state.key not in state.log.voters:
            self._transfer.hand_over()
            state.become_follower(None)

    def _catch_up_index(self) -> Index:
        """How far a voter that lost part of its log has to come; ``Following`` says why not the commit."""
        return self._state.log.last_index

    # --- views ------------------------------------------------------------------------------------

    def progress(self) -> dict[VoterKey, FollowerProgress]:
        return {progress.key: self._view(progress) for progress in self.replication}

    def _view(self, progress: Progress) -> FollowerProgress:
        return progress.view(is_voter=self.replication.is_voting(progress.key))
