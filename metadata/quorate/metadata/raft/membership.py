"""Changing the voters, one at a time (rule 41).

**Problem.** Two majorities, one of the voters before and one of those after a change, must meet, or each
could elect a leader. They do if the sets differ in one voter, and if no change starts while another is
unfinished.

**Judged from the log.** A change is refused while the newest VOTERS entry is uncommitted, whoever wrote it,
and until this leader has committed an entry of its own term: before that, a change of an earlier term may
still be lost, and a new one would build on a set that never was. Nothing is remembered for it beside the log;
what this object holds is only the learner of a change that has not begun.

**Adding.** A newcomer first gets the log as a learner, which counts nowhere. The entry that makes it a voter
follows once it has caught up to where the log was when it asked, and the rest fits one request: else the
quorum would wait for a voter that is far behind. The learner is forgotten with the leadership, or when it
stays silent: the change is then refused, and nothing was done.

**Removing.** Refused while the voters that would be left have no majority that answers. The set is in force
as soon as it is written: the wrong one of three removed while another is dead would end the quorum for ever.

A node id whose directory changed is another voter: it is removed and added, never replaced.
"""

from __future__ import annotations

from typing import Final

from quorate.metadata.raft.entries import NO_INDEX, EntryKind, Index
from quorate.metadata.raft.ready import AddVoter, Refusal, RemoveVoter
from quorate.metadata.raft.replication import Replication
from quorate.metadata.raft.state import RaftState
from quorate.metadata.raft.voters import VoterKey, Voters
from quorate.metadata.raft.voters_codec import encode_voters

__all__ = ["Membership"]

#: a learner that says nothing for so many election time-outs is given up
_LEARNER_PATIENCE: Final = 10
_UNDER_WAY: Final = "another change of the voters is under way"


class Membership:
    def __init__(self, state: RaftState, replication: Replication) -> None:
        self._state = state
        self._replication = replication
        self._adding: AddVoter | None = None
        #: the log's end when the learner's present round began
        self._round_target = NO_INDEX

    @property
    def learner(self) -> VoterKey | None:
        return self._adding.voter.key if self._adding is not None else None

    def add(self, event: AddVoter) -> None:
        state = self._state
        reason = self._why_not_now() or self._why_not_add(event)
        if reason:
            state.refuse(event.request_id, Refusal(reason))
            return
        self._adding = event
        self._round_target = state.log.last_index
        self._replication.follow(self.learner)
        self._replication.greet(event.voter.key)

    def remove(self, event: RemoveVoter) -> None:
        state = self._state
        voters = state.log.voters
        reason = self._why_not_now() or self._why_not_remove(event)
        if reason:
            state.refuse(event.request_id, Refusal(reason))
            return
        self._write(voters.without(event.key), event.request_id)

    def on_progress(self) -> None:
        """The learner may have caught up."""
        adding = self._adding
        if adding is None or not self._has_learner_caught_up(adding.voter.key):
            return
        self._adding = None
        if self._is_change_uncommitted():
            self._state.refuse(adding.request_id, Refusal(_UNDER_WAY))
            self._replication.follow(None)
        else:
            self._write(self._state.log.voters.with_voter(adding.voter), adding.request_id)

    def on_tick(self) -> None:
        state = self._state
        if self._adding is None:
            return
        progress = self._replication[self._adding.voter.key]
        patience_s = _LEARNER_PATIENCE * state.timing.election_timeout_max_s
        if progress is None or state.now - progress.last_heard > patience_s:
            state.refuse(self._adding.request_id, Refusal("the new voter does not answer"))
            self._adding = None
            self._replication.follow(None)

    def on_commit(self) -> None:
        """A removed voter whose removal is committed is served no longer."""
        self._replication.follow(self.learner)

    def end(self) -> None:
        if self._adding is not None:
            refusal = Refusal("leadership was lost before the voter had caught up")
            self._state.refuse(self._adding.request_id, refusal)

    def _write(self, voters: Voters, request_id: int) -> None:
        """In force from here on, committed or not."""
        self._state.append_own(EntryKind.VOTERS, encode_voters(voters), request_id)
        self._replication.follow(self.learner)
        self._replication.send_entries_to_all()

    # --- the rules --------------------------------------------------------------------------------

    def _why_not_now(self) -> str:
        if self._is_change_uncommitted() or self._adding is not None:
            return _UNDER_WAY
        if not self._has_committed_in_term():
            return "the leader has not committed an entry of its term yet"
        return ""

    def _is_change_uncommitted(self) -> bool:
        log = self._state.log
        return log.voters_index > log.commit_index

    def _has_committed_in_term(self) -> bool:
        return self._state.log.commit_index >= self._state.term_start

    def _why_not_add(self, event: AddVoter) -> str:
        present = self._state.log.voters.by_node_id(event.voter.key.node_id)
        if present is None:
            return ""
        if present.key == event.voter.key:
            return f"{present.key} is a voter already"
        return (
            f"node {present.key.node_id} votes with directory {present.key.directory_id}: remove that first"
        )

    def _why_not_remove(self, event: RemoveVoter) -> str:
        voters = self._state.log.voters
        if event.key not in voters:
            return f"{event.key} is not a voter"
        if len(voters) == 1:
            return "the last voter cannot be removed"
        return self._why_not_without(voters.without(event.key))

    def _why_not_without(self, left: Voters) -> str:
        """In force at once, a set whose majority is away could neither be committed nor taken back."""
        silent = [str(each.key.node_id) for each in left if not self._is_heard(each.key)]
        if len(left) - len(silent) >= left.majority:
            return ""
        return f"of the voters left, {', '.join(silent)} do not answer, and the others are no majority"

    def _is_heard(self, key: VoterKey) -> bool:
        state = self._state
        if key == state.key:
            return True
        progress = self._replication[key]
        if progress is None or not progress.is_counted:
            return False
        return state.now - progress.last_heard < state.timing.election_timeout_max_s

    def _has_learner_caught_up(self, key: VoterKey) -> bool:
        progress = self._replication[key]
        if progress is None or not progress.is_counted or progress.match_index < self._round_target:
            return False
        if self._fits_one_request(Index(progress.match_index + 1)):
            return True
        self._round_target = self._state.log.last_index
        return False

    def _fits_one_request(self, first: Index) -> bool:
        log = self._state.log
        if first > log.last_index:
            return True
        if first < log.first_index:
            return False  # it needs a newer snapshot first
        return log.entries_from(first, self._state.limits.append_bytes_max)[-1].index == log.last_index
