"""A follower: it takes what the leader of its term sends, and says what it durably has.

**Invariants.** Entries are truncated only where a term really differs, never below the commit index. What is
acknowledged matches the leader's log *and* is durable. The commit index never passes what is known to match.
A snapshot moves neither the commit index nor the applied state backwards, and where the log already holds its
last entry, the log stays, since what follows may be acknowledged.

``_matched`` is how far this log is known to agree with the log of the leader of the current term. A leader
never truncates its own log, so within a term it only grows; a new term starts from nothing.

**A voter that lost part of its log** (``is_recovering``) takes entries and answers, but says that it must not
be counted, and neither votes nor campaigns. It asks the leader of its term for the leader's last index, and
counts again when its own log, durably, agrees up to there. Why this is enough: whatever it has acknowledged
was acknowledged to a leader of this term or an earlier one. If to this leader, the entry is at or below the
last index. If to an earlier one and the entry was committed, then this leader has it: it was elected either
with this voter's vote, given before the damage, when the entry was in its log, or without it, and then by a
majority that meets every other majority elsewhere. The leader's *commit* index would not be enough: an
acknowledgement from before the damage may still be under way and be counted later.
"""

from __future__ import annotations

from quorate.metadata.raft.entries import NO_INDEX, NO_TERM, Index, Snapshot, Term
from quorate.metadata.raft.messages import (
    NO_ROUND,
    AppendRequest,
    AppendResponse,
    CatchUpRequest,
    CatchUpResponse,
    SnapshotRequest,
    SnapshotResponse,
)
from quorate.metadata.raft.ready import Role
from quorate.metadata.raft.state import RaftState
from quorate.metadata.raft.voters import VoterKey

__all__ = ["Following"]


class Following:
    def __init__(self, state: RaftState) -> None:
        self._state = state
        self._matched = NO_INDEX
        #: the term that ``_matched`` and ``_catch_up_to`` speak of
        self._matched_term = state.term
        #: how far a voter that lost part of its log has to come; None: not yet told
        self._catch_up_to: Index | None = None
        # The incarnation makes it unique among the starts of this directory, whatever the random source does.
        self._nonce = state.incarnation << 32 | state.random.getrandbits(32)

    # --- appends ----------------------------------------------------------------------------------

    def on_append(self, sender: VoterKey, request: AppendRequest) -> None:
        if not self._follow(sender, request.term):
            self._reject_old_leader(sender)
            return
        if not self._matches_previous(request):
            self._reject(sender, request)
            return
        self._take_entries(request)
        self._matched = max(self._matched, Index(request.previous_index + len(request.entries)))
        self._learn_commit_index(request.commit_index)
        self._acknowledge(sender, request)
        self._ask_how_far(sender)

    def _matches_previous(self, request: AppendRequest) -> bool:
        """Do the logs agree up to where the entries start?

        Below the base nothing can be compared, and nothing needs to be: it is committed.
        """
        log = self._state.log
        if request.previous_index < log.base.index:
            return True
        return log.term_at(request.previous_index) == request.previous_term

    def _take_entries(self, request: AppendRequest) -> None:
        log = self._state.log
        entries = request.entries
        if request.previous_index < log.base.index:
            entries = tuple(entry for entry in entries if entry.index > log.base.index)
        conflict = log.find_conflict(entries)
        if conflict is None:
            return
        if conflict <= log.last_index:
            log.truncate_from(conflict)
        for entry in entries[conflict - entries[0].index :]:
            log.append(entry)

    def _learn_commit_index(self, leader_commit: Index) -> None:
        log = self._state.log
        known = self._known_committed(leader_commit)
        if known > log.commit_index:
            log.commit(known)

    def _known_committed(self, leader_commit: Index) -> Index:
        """What the leader has committed is committed here only as far as the logs are known to agree."""
        return min(leader_commit, self._matched)

    def _acknowledge(self, sender: VoterKey, request: AppendRequest) -> None:
        """Entries are acknowledged once they are durable; a heartbeat at once, with what is.

        So a slow disk delays commits, and not the proof that the leader still leads.
        """
        state = self._state
        if request.entries:
            state.send_once_durable(sender, self._success(self._matched, request.round))
        else:
            durable = min(self._matched, state.log.durable_index)
            state.send_once_hard_state_durable(sender, self._success(durable, request.round))

    def _success(self, index: Index, round_: int) -> AppendResponse:
        return AppendResponse(
            term=self._state.term,
            is_success=True,
            index=index,
            hint_term=NO_TERM,
            round=round_,
            is_counted=self._is_counted(),
        )

    def _reject(self, sender: VoterKey, request: AppendRequest) -> None:
        """Say where the logs may meet, so that the leader skips a whole term at a time."""
        log = self._state.log
        hint = max(log.meeting_point(request.previous_index, request.previous_term), log.commit_index)
        self._send_rejection(sender, hint, log.term_at(hint) or NO_TERM, request.round)
        self._ask_how_far(sender)

    def _reject_old_leader(self, sender: VoterKey) -> None:
        """It learns the term and steps down; else this voter could follow nobody, for ever (rule 40).

        It may lead this term as well by now: its old round must not be taken for one of this term's.
        """
        self._send_rejection(sender, NO_INDEX, NO_TERM, NO_ROUND)

    def _send_rejection(self, sender: VoterKey, hint: Index, hint_term: Term, round_: int) -> None:
        response = AppendResponse(
            term=self._state.term,
            is_success=False,
            index=hint,
            hint_term=hint_term,
            round=round_,
            is_counted=self._is_counted(),
        )
        self._state.send_once_durable(sender, response)

    # --- snapshots --------------------------------------------------------------------------------

    def on_snapshot(self, sender: VoterKey, request: SnapshotRequest) -> None:
        if not self._follow(sender, request.term):
            self._reject_old_leader(sender)
            return
        self._take_snapshot(request.snapshot)
        index = max(self._matched, request.snapshot.id.index)
        self._matched = index
        response = SnapshotResponse(self._state.term, index, request.round, self._is_counted())
        self._state.send_once_durable(sender, response)
        self._ask_how_far(sender)

    def _take_snapshot(self, snapshot: Snapshot) -> None:
        state = self._state
        log = state.log
        if self._is_snapshot_old(snapshot):
            return
        if self._holds_snapshot_entry(snapshot):
            log.commit(snapshot.id.index)
            return
        log.install(snapshot)
        state.installed = snapshot

    def _is_snapshot_old(self, snapshot: Snapshot) -> bool:
        """What it stands for is committed here already: nothing may move backwards."""
        return snapshot.id.index <= self._state.log.commit_index

    def _holds_snapshot_entry(self, snapshot: Snapshot) -> bool:
        """Then all before it agrees too, and the entries after it may be acknowledged: keep them."""
        return self._state.log.term_at(snapshot.id.index) == snapshot.id.term

    # --- catching up after a loss -----------------------------------------------------------------

    def on_catch_up_response(self, response: CatchUpResponse) -> None:
        if response.term != self._state.term or response.nonce != self._nonce:
            return
        self._start_of_term()
        if self._catch_up_to is None:
            self._catch_up_to = response.last_index
        self.on_persisted()

    def on_persisted(self) -> None:
        """More of the log is durable: perhaps all that was lost is back."""
        state = self._state
        if state.is_recovering and self._has_caught_up():
            state.is_recovering = False

    def _has_caught_up(self) -> bool:
        if self._catch_up_to is None or self._matched_term != self._state.term:
            return False
        return min(self._matched, self._state.log.durable_index) >= self._catch_up_to

    def _ask_how_far(self, leader: VoterKey) -> None:
        """With every message of the leader's until it has answered: the question may be lost."""
        state = self._state
        if state.is_recovering and self._catch_up_to is None:
            state.send_once_durable(leader, CatchUpRequest(state.term, self._nonce))

    def _is_counted(self) -> bool:
        return not self._state.is_recovering

    # --- terms ------------------------------------------------------------------------------------

    def _follow(self, sender: VoterKey, term: Term) -> bool:
        """Is ``sender`` the leader of this term? Then follow it. False: it is an old one."""
        state = self._state
        if not self._is_term_current(term):
            return False
        if term == state.term and state.role is Role.LEADER:
            return False  # a second leader in one term: it cannot be, and must not be followed
        if term > state.term:
            state.enter_term(term)
        self._start_of_term()
        state.heard_from_leader(sender)
        return True

    def _is_term_current(self, term: Term) -> bool:
        return term >= self._state.term

    def _start_of_term(self) -> None:
        """What matched another leader's log says nothing of this one's."""
        if self._matched_term != self._state.term:
            self._matched_term = self._state.term
            self._matched = NO_INDEX
            self._catch_up_to = None
