"""What must hold after every step, whatever the step was.

Looks only at what is new since the last check, so tests can afford it after each event.
"""

from __future__ import annotations

from itertools import pairwise

from quorate.metadata.raft.entries import EntryKind, Index
from quorate.metadata.raft.progress import ProgressState
from quorate.metadata.raft.ready import Role
from quorate.metadata.raft.state import RaftState

__all__ = ["Checker"]


class Checker:
    def __init__(self, state: RaftState) -> None:
        self._state = state
        self._term = state.term
        self._vote = state.vote
        self._commit_index = state.log.commit_index
        self._handed_out = state.log.handed_out

    def check(self) -> None:
        self._check_term_and_vote()
        self._check_role()
        self._check_indexes()
        self._check_recent_entries()
        self._check_waiting()
        self._check_followers()

    def _check_term_and_vote(self) -> None:
        state = self._state
        assert state.term >= self._term
        if state.term == self._term and self._vote is not None:
            assert state.vote == self._vote, "a vote was changed within its term"
        self._term = state.term
        self._vote = state.vote

    def _check_role(self) -> None:
        state = self._state
        assert (state.leadership is not None) == (state.role is Role.LEADER)
        assert (state.campaign is not None) == (state.role in (Role.PRE_CANDIDATE, Role.CANDIDATE))
        assert (state.leader == state.key) == (state.role is Role.LEADER)
        if state.role in (Role.CANDIDATE, Role.LEADER):
            assert state.vote == state.key
        if state.is_recovering:
            assert state.role is Role.FOLLOWER

    def _check_indexes(self) -> None:
        log = self._state.log
        assert log.commit_index >= self._commit_index, "the commit index moved back"
        assert log.handed_out >= self._handed_out, "the applied state moved back"
        self._commit_index = log.commit_index
        self._handed_out = log.handed_out
        assert log.base.index <= log.handed_out
        assert log.handed_out <= log.commit_index
        assert log.commit_index <= log.last_index
        assert log.durable_index <= log.last_index
        assert log.unsaved_from == log.last_index + 1, "entries were not given to the driver"
        assert log.snapshot is None or log.snapshot.id.index >= log.base.index
        assert log.voters_index <= log.last_index

    def _check_recent_entries(self) -> None:
        """The end of the log; what is before was the end once."""
        log = self._state.log
        recent = log.entries_between(max(log.first_index, Index(log.last_index - 3)), log.last_index)
        for before, after in pairwise(recent):
            assert after.index == before.index + 1
            assert after.term >= before.term
        for entry in recent:
            assert log.term_at(entry.index) == entry.term
            assert entry.term <= self._state.term
            if entry.kind is EntryKind.VOTERS:
                assert log.voters_index >= entry.index
        assert log.term_at(log.last_index) == log.last_term

    def _check_waiting(self) -> None:
        state = self._state
        if state.waiting:
            assert state.waiting[0][0] > state.log.handed_out
            assert state.waiting[-1][0] <= state.log.last_index
        else:
            assert state.waiting_bytes == 0
        assert not state.send_now
        assert not state.send_after_persist
        assert not state.answers

    def _check_followers(self) -> None:
        state = self._state
        if state.leadership is None:
            return
        leadership = state.leadership
        assert leadership.term_start <= state.log.last_index
        assert state.log.term_at(leadership.term_start) in (state.term, None)
        followers = {progress.key for progress in leadership.replication}
        assert {voter.key for voter in state.log.voters} - {state.key} <= followers
        assert state.key not in followers
        for progress in leadership.replication:
            assert progress.match_index < progress.next_index
            assert progress.match_index <= state.log.last_index
            assert progress.next_index <= state.log.last_index + 1
            assert len(progress.inflight) <= state.limits.inflight_max
            assert list(progress.inflight) == sorted(progress.inflight)
            if progress.state is not ProgressState.REPLICATE:
                assert not progress.inflight
            assert progress.acked_round <= leadership.replication.round
