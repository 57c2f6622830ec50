"""How a leader brings its log to the others.

Each follower has a ``Progress``. Requests are pipelined up to a bound; a follower that rejects one sends a
hint, and the leader continues where the two logs may meet, a whole term at a time. A heartbeat is a request
without entries that starts where the next one would, so it finds out by itself that something was lost.

Who *counts* is decided in two places, and nowhere else. ``follow`` decides who is asked at all: the voters in
force, under their full identity; it is called whenever the voters may have changed. ``_counts`` decides whose
word is sound: those that neither lost part of their log nor were put back from an old copy. Commits, read
barriers and check-quorum all go through both, so none of them can be more generous than the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final, TypeVar

from quorate.metadata.raft.entries import NO_INDEX, Index
from quorate.metadata.raft.messages import (
    NO_ROUND,
    AppendRequest,
    AppendResponse,
    SnapshotRequest,
    SnapshotResponse,
)
from quorate.metadata.raft.progress import Progress, ProgressState
from quorate.metadata.raft.state import RaftState
from quorate.metadata.raft.voters import VoterKey

__all__ = ["Replication"]

_Value = TypeVar("_Value", Index, int, float)

#: a snapshot that was not acknowledged for so many election time-outs is sent again
_SNAPSHOT_PATIENCE: Final = 3
#: answers to earlier rounds prove nothing about the present
_ROUNDS_REMEMBERED: Final = 1_000


class Replication:
    def __init__(self, state: RaftState) -> None:
        self._state = state
        self._followers: dict[VoterKey, Progress] = {}
        #: the followers among the voters in force, sorted
        self._voting: list[Progress] = []
        self._is_self_voting = False
        self._majority = 0
        #: of the last heartbeats; an echo proves that its sender still followed when it was asked
        self.round = NO_ROUND + 1
        #: when each of the latest rounds began, oldest first
        self._round_began = {self.round: state.now}

    # --- who is followed up -----------------------------------------------------------------------

    def __iter__(self) -> Iterator[Progress]:
        """Sorted: the order of messages must not depend on the order of a set."""
        return iter(self._followers.values())

    def __getitem__(self, key: VoterKey) -> Progress | None:
        return self._followers.get(key)

    def is_voting(self, key: VoterKey) -> bool:
        return key in self._state.log.voters

    def follow(self, learner: VoterKey | None) -> None:
        """The voters in force, those that are just being removed, and the one that is being added.

        A removed voter is served until its removal is committed: it should learn of it, and not campaign.
        """
        state = self._state
        log = state.log
        keys = {voter.key for voters in (log.voters, log.committed_voters) for voter in voters}
        if learner is not None:
            keys.add(learner)
        keys.discard(state.key)
        self._followers = {key: self._followers.get(key) or self._new(key) for key in sorted(keys)}
        self._voting = [self._followers[voter.key] for voter in log.voters if voter.key != state.key]
        self._is_self_voting = state.key in log.voters
        self._majority = log.voters.majority

    def _new(self, key: VoterKey) -> Progress:
        state = self._state
        return Progress(key, Index(state.log.last_index + 1), state.now, state.incarnations.get(key, 0))

    # --- what a majority has done -----------------------------------------------------------------

    def quorum_match_index(self) -> Index:
        """The last index that a majority holds durably."""
        matches = [progress.match_index for progress in self._voting if self._counts(progress)]
        if self._is_self_voting:
            matches.append(self._own_match_index())
        return self._majority_value(matches, NO_INDEX)

    def quorum_round(self) -> int:
        """The last round that a majority has echoed."""
        rounds = [progress.acked_round for progress in self._voting if self._counts(progress)]
        if self._is_self_voting:
            rounds.append(self.round)
        return self._majority_value(rounds, NO_ROUND)

    def quorum_heard_at(self) -> float:
        """When a majority was last heard."""
        times = [progress.last_heard for progress in self._voting if self._counts(progress)]
        if self._is_self_voting:
            times.append(self._state.now)
        return self._majority_value(times, -math.inf)

    def _counts(self, progress: Progress) -> bool:
        return progress.is_counted

    def _own_match_index(self) -> Index:
        """A leader is one of the majority only with what it has synced itself (rule 38)."""
        return self._state.log.durable_index

    def _majority_value(self, values: list[_Value], none: _Value) -> _Value:
        if len(values) < self._majority:
            return none
        values.sort(reverse=True)
        return values[self._majority - 1]

    # --- sending ----------------------------------------------------------------------------------

    def send_entries(self, progress: Progress) -> None:
        """Whatever the follower lacks and may be sent now."""
        last_index = self._state.log.last_index
        inflight_max = self._state.limits.inflight_max
        while progress.next_index <= last_index and progress.may_send(inflight_max):
            if self._waits_for_more(progress):
                return
            if progress.next_index <= self._state.log.base.index:
                self._send_snapshot(progress)
                return
            self._send_batch(progress)

    def _waits_for_more(self, progress: Progress) -> bool:
        """A few entries wait while others are on their way: the answer to those sends them, or their loss."""
        waiting = self._state.log.last_index - progress.next_index + 1
        return bool(progress.inflight) and waiting < self._state.limits.pipelined_entries_min

    def send_entries_to_all(self) -> None:
        for progress in self._followers.values():
            self.send_entries(progress)

    def send_heartbeats(self) -> None:
        """A new round: to everybody, whatever is on its way."""
        self.round += 1
        self._round_began[self.round] = self._state.now
        if len(self._round_began) > _ROUNDS_REMEMBERED:
            del self._round_began[next(iter(self._round_began))]
        for progress in self._followers.values():
            self._send_empty(progress)

    def greet(self, key: VoterKey) -> None:
        """Ask a newcomer how far its log goes."""
        self._send_empty(self._followers[key])

    def send_commit_index(self) -> None:
        """To followers with nothing on its way that would carry it."""
        commit_index = self._state.log.commit_index
        for progress in self._followers.values():
            is_idle = progress.state is ProgressState.REPLICATE and not progress.inflight
            if is_idle and progress.sent_commit < commit_index:
                self._send_empty(progress)

    def resend_snapshots(self) -> None:
        state = self._state
        patience_s = _SNAPSHOT_PATIENCE * state.timing.election_timeout_max_s
        for progress in self._followers.values():
            if (
                progress.state is ProgressState.SNAPSHOT
                and state.now >= progress.snapshot_sent_at + patience_s
            ):
                progress.probe(progress.next_index)
                self.send_entries(progress)

    def _send_batch(self, progress: Progress) -> None:
        state = self._state
        log = state.log
        entries = log.entries_from(progress.next_index, state.limits.append_bytes_max)
        previous = Index(progress.next_index - 1)
        term = log.term_at(previous)
        assert term is not None
        progress.sent_commit = log.commit_index
        request = AppendRequest(state.term, previous, term, entries, log.commit_index, self.round)
        state.send(progress.key, request)
        progress.sent(entries[-1].index, self.round)

    def _send_empty(self, progress: Progress) -> None:
        state = self._state
        log = state.log
        previous = max(Index(progress.next_index - 1), log.base.index)
        term = log.term_at(previous)
        assert term is not None
        progress.sent_commit = log.commit_index
        state.send(progress.key, AppendRequest(state.term, previous, term, (), log.commit_index, self.round))

    def _send_snapshot(self, progress: Progress) -> None:
        state = self._state
        snapshot = state.log.snapshot
        if snapshot is None:
            return  # the driver has not handed it over since the start; heartbeats ask again
        state.send(progress.key, SnapshotRequest(state.term, snapshot, self.round))
        progress.sent_snapshot(state.now)

    # --- hearing ----------------------------------------------------------------------------------

    def on_append_response(self, progress: Progress, response: AppendResponse, incarnation: int) -> None:
        if not self._is_answer_to_this_term(response):
            return
        self._hear(progress, incarnation, response.round, is_counted=response.is_counted)
        if progress.state is ProgressState.DISTRUSTED:
            return
        if response.is_success:
            self._acknowledge(progress, response.index)
        elif progress.has_lost(response.index, response.round):
            progress.distrust()
        else:
            self._move_back(progress, response)

    def on_snapshot_response(self, progress: Progress, response: SnapshotResponse, incarnation: int) -> None:
        self._hear(progress, incarnation, response.round, is_counted=response.is_counted)
        if progress.state is not ProgressState.DISTRUSTED:
            self._acknowledge(progress, response.index)

    def on_catch_up_request(self, progress: Progress, incarnation: int) -> None:
        self._hear(progress, incarnation, NO_ROUND, is_counted=False)

    def _hear(self, progress: Progress, incarnation: int, round_: int, *, is_counted: bool) -> None:
        if incarnation > progress.heard_incarnation:
            progress.restarted(incarnation)
        # An answer proves that the follower still followed when it was asked, not when the answer came: one
        # that was long on its way must not keep a deposed leader in office (rule 40).
        progress.last_heard = max(progress.last_heard, self._round_began.get(round_, -math.inf))
        if is_counted:
            progress.note_whole_log(incarnation)
            progress.acked_round = max(progress.acked_round, round_)
        else:
            progress.note_lost_log(incarnation)

    def _is_answer_to_this_term(self, response: AppendResponse) -> bool:
        """This leader may have led an earlier term, and what it sent then is rejected only now."""
        return response.round != NO_ROUND

    def _acknowledge(self, progress: Progress, index: Index) -> None:
        if index > self._state.log.last_index:
            return  # nobody can hold what was never sent
        progress.acknowledge(index, self.round)
        is_log_enough = progress.next_index > self._state.log.base.index
        if progress.state is ProgressState.PROBE or (
            progress.state is ProgressState.SNAPSHOT and is_log_enough
        ):
            progress.replicate()
        self.send_entries(progress)

    def _move_back(self, progress: Progress, response: AppendResponse) -> None:
        if progress.state is ProgressState.SNAPSHOT or response.index < progress.match_index:
            return
        meeting = self._state.log.meeting_point(response.index, response.hint_term)
        next_index = Index(max(meeting, progress.match_index) + 1)
        is_probe_lost = progress.state is ProgressState.PROBE and response.round > progress.probe_round
        if next_index < progress.next_index or is_probe_lost:
            progress.probe(min(next_index, progress.next_index))
            self.send_entries(progress)
