"""What a leader knows of one follower.

``match_index`` is proven: the follower has durably acknowledged everything up to it. ``next_index`` is a
guess: where the next request starts. A follower is in one of four states:

- PROBE: the guess is unproven. One request at a time, until an answer says where the logs meet.
- REPLICATE: requests follow each other without waiting (pipelining), up to a bound.
- SNAPSHOT: it needs what is compacted away; nothing else is sent until the snapshot is there.
- DISTRUSTED: it once acknowledged more than it now has, and does not say that it lost anything: its
  directory was put back from an old copy. It may have forgotten votes too. It is not counted for the rest of
  the term.

**Which rejections are news.** A rejection moves ``next_index`` back, strictly: the follower's hint is below
what was asked, or carries a lower term than what was asked. So one that would not move it back answers an
earlier request, as all those do that were under way behind a lost one, and is ignored: that keeps one lost
message from starting a storm of resends. One below ``match_index`` is old too, unless it answers a round that
began after the acknowledgement was here: then the follower was asked after it had acknowledged, and has lost
that.
(Its incarnation would not tell: a copy taken before its last start comes back under the same number.)
"""

from __future__ import annotations

import enum
from collections import deque
from dataclasses import dataclass

from quorate.metadata.raft.entries import NO_INDEX, Index
from quorate.metadata.raft.messages import NO_ROUND
from quorate.metadata.raft.voters import VoterKey

__all__ = ["FollowerProgress", "Progress", "ProgressState"]


class ProgressState(enum.Enum):
    PROBE = "probe"
    REPLICATE = "replicate"
    SNAPSHOT = "snapshot"
    DISTRUSTED = "lost acknowledged entries"


@dataclass(frozen=True, slots=True)
class FollowerProgress:
    """For people and tests: what the leader knows of a follower now."""

    match_index: Index
    next_index: Index
    state: ProgressState
    #: monotonic seconds
    last_heard: float
    #: False: a learner, or a voter that is being removed
    is_voter: bool
    #: False: it lost part of its log and has not caught up yet, or is distrusted
    is_counted: bool


class Progress:
    __slots__ = (
        "acked_round",
        "heard_incarnation",
        "inflight",
        "is_probe_unanswered",
        "is_recovering",
        "key",
        "last_heard",
        "match_index",
        "match_round",
        "next_index",
        "probe_round",
        "sent_commit",
        "snapshot_sent_at",
        "state",
        "trusted_incarnation",
    )

    def __init__(self, key: VoterKey, next_index: Index, now: float, incarnation: int) -> None:
        self.key = key
        self.match_index = NO_INDEX
        #: the leader's round when it heard of ``match_index``
        self.match_round = NO_ROUND
        self.next_index = next_index
        self.state = ProgressState.PROBE
        #: a new leader grants everybody one time-out to answer
        self.last_heard = now
        #: the highest round it has echoed (ReadIndex)
        self.acked_round = NO_ROUND
        self.heard_incarnation = incarnation
        #: of the process that last said that its log is whole
        self.trusted_incarnation = 0
        #: it lost part of its log: neither its acknowledgements nor its voice count (rule 38)
        self.is_recovering = False
        self.is_probe_unanswered = False
        #: an answer to a later round means that the probe, or its answer, was lost
        self.probe_round = NO_ROUND
        #: last index of every request with entries that was sent and not acknowledged, ascending
        self.inflight: deque[Index] = deque()
        self.sent_commit = NO_INDEX
        self.snapshot_sent_at = 0.0

    @property
    def is_counted(self) -> bool:
        return not self.is_recovering and self.state is not ProgressState.DISTRUSTED

    def may_send(self, inflight_max: int) -> bool:
        if self.state is ProgressState.REPLICATE:
            return len(self.inflight) < inflight_max
        return self.state is ProgressState.PROBE and not self.is_probe_unanswered

    def sent(self, last_index: Index, round_: int) -> None:
        """A request with entries up to ``last_index`` has left."""
        if self.state is ProgressState.PROBE:
            self.is_probe_unanswered = True
            self.probe_round = round_
            return
        assert last_index >= self.next_index
        self.inflight.append(last_index)
        self.next_index = Index(last_index + 1)

    def sent_snapshot(self, now: float) -> None:
        self.inflight.clear()
        self.state = ProgressState.SNAPSHOT
        self.snapshot_sent_at = now

    def probe(self, next_index: Index) -> None:
        self.inflight.clear()
        self.is_probe_unanswered = False
        self.state = ProgressState.PROBE
        self.next_index = next_index

    def replicate(self) -> None:
        self.is_probe_unanswered = False
        self.state = ProgressState.REPLICATE

    def acknowledge(self, index: Index, round_: int) -> None:
        """It holds everything up to ``index`` durably; ``round_`` is the leader's last one."""
        if index > self.match_index:
            self.match_index = index
            self.match_round = round_
            self.next_index = max(self.next_index, Index(index + 1))
        inflight = self.inflight
        while inflight and inflight[0] <= index:
            inflight.popleft()

    def has_lost(self, index: Index, round_: int) -> bool:
        """It rejected ``round_`` and pointed to ``index``: does it have less than it has acknowledged?"""
        return index < self.match_index and round_ > self.match_round

    def distrust(self) -> None:
        """It was put back from an old copy."""
        self.inflight.clear()
        self.state = ProgressState.DISTRUSTED

    # --- what the follower says of itself ---------------------------------------------------------

    def restarted(self, incarnation: int) -> None:
        """Its process is a new one: what was on the way to the old one is gone."""
        is_first_word = self.heard_incarnation == 0
        self.heard_incarnation = incarnation
        if not is_first_word and self.state is not ProgressState.DISTRUSTED:
            self.probe(self.next_index)

    def note_whole_log(self, incarnation: int) -> None:
        """It says that it has lost nothing, or has caught up."""
        self.is_recovering = False
        self.trusted_incarnation = incarnation

    def note_lost_log(self, incarnation: int) -> None:
        """It lost part of its log and says so: nothing that it acknowledged before counts."""
        if incarnation <= self.trusted_incarnation:
            return  # an old message: this process has caught up since
        self.is_recovering = True
        self.match_index = NO_INDEX
        self.acked_round = NO_ROUND

    def view(self, *, is_voter: bool) -> FollowerProgress:
        return FollowerProgress(
            self.match_index, self.next_index, self.state, self.last_heard, is_voter, self.is_counted
        )
