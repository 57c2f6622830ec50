"""Handing leadership to another voter, before a planned stop.

The leader takes no new proposals, brings the chosen voter up to its last entry, and tells it to stand for
election at once. If that takes longer than an election time-out, the leader goes on as before.
"""

from __future__ import annotations

from quorate.metadata.raft.messages import TimeoutNow
from quorate.metadata.raft.progress import Progress
from quorate.metadata.raft.replication import Replication
from quorate.metadata.raft.state import RaftState
from quorate.metadata.raft.voters import VoterKey

__all__ = ["LeadershipTransfer"]


class LeadershipTransfer:
    def __init__(self, state: RaftState, replication: Replication) -> None:
        self._state = state
        self._replication = replication
        self._target: VoterKey | None = None
        self._deadline = 0.0
        self._is_told = False

    @property
    def is_under_way(self) -> bool:
        return self._target is not None

    def start(self, to: VoterKey | None) -> None:
        """Nothing happens where ``to`` cannot lead, or another transfer is under way."""
        state = self._state
        if self.is_under_way:
            return
        target = self._furthest() if to is None else self._replication[to]
        if target is None or not self._may_lead(target):
            return
        self._target = target.key
        self._is_told = False
        self._deadline = state.now + state.timing.election_timeout_max_s
        self._replication.send_entries(target)
        self.advance()

    def advance(self) -> None:
        """Tell the target, once it has everything."""
        if self._target is None or self._is_told:
            return
        target = self._replication[self._target]
        if target is None or not self._may_lead(target):
            self._target = None
        elif target.match_index == self._state.log.last_index:
            self._state.send(target.key, TimeoutNow(self._state.term))
            self._is_told = True

    def on_tick(self) -> None:
        """Say it again with each heartbeat: the word may be lost."""
        self._is_told = False
        if self._target is not None and self._state.now >= self._deadline:
            self._target = None
        self.advance()

    def hand_over(self) -> None:
        """This leader leaves the quorum: spare the others the time-out."""
        target = self._furthest()
        if target is not None:
            self._state.send(target.key, TimeoutNow(self._state.term))

    def _furthest(self) -> Progress | None:
        candidates = [progress for progress in self._replication if self._may_lead(progress)]
        return max(candidates, key=lambda progress: progress.match_index, default=None)

    def _may_lead(self, progress: Progress) -> bool:
        return progress.is_counted and self._replication.is_voting(progress.key)
