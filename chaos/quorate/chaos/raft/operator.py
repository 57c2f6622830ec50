"""The one who looks after the quorum: replaces disks that were wiped, and changes voters for the sake of it.

It keeps to what a careful person would do: it removes nobody while another voter has lost its disk or is
recovering, except the one whose disk is gone. But it is impatient, and the leader has to see to it that there
is one change at a time.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial
from typing import Final

from quorate.chaos.raft.cluster import Cluster
from quorate.chaos.raft.counters import Counters
from quorate.chaos.raft.ledger import Ledger
from quorate.chaos.raft.virtual_time import VirtualTime
from quorate.metadata.raft.ready import AddVoter, Answer, Outcome, RemoveVoter
from quorate.metadata.raft.voters import VoterKey, Voters

__all__ = ["Operator"]

_LOOKS_EVERY_S: Final = 0.15
_VOTERS_MAX: Final = 6


class Operator:
    def __init__(
        self,
        *,
        cluster: Cluster,
        ledger: Ledger,
        time: VirtualTime,
        counters: Counters,
        random: random.Random,
        request_ids: Iterator[int],
        voters_wanted: int,
    ) -> None:
        self._cluster = cluster
        self._ledger = ledger
        self._time = time
        self._counters = counters
        self._random = random
        self._request_ids = request_ids
        self._voters_wanted = voters_wanted
        #: changes that were asked for and not answered
        self.pending: dict[int, AddVoter | RemoveVoter] = {}

    @property
    def is_content(self) -> bool:
        voters = self._ledger.voters
        is_whole = not any(self._cluster.is_wiped(voter.key) for voter in voters)
        return not self.pending and is_whole and len(voters) >= self._voters_wanted

    def start(self) -> None:
        self._time.after(_LOOKS_EVERY_S, self._look)

    def _look(self, _: None) -> None:
        self._time.after(_LOOKS_EVERY_S, self._look)
        if self.pending:
            return
        voters = self._ledger.voters
        wiped = [voter.key for voter in voters if self._cluster.is_wiped(voter.key)]
        if wiped:
            self._remove(wiped[0])
        elif len(voters) < self._voters_wanted:
            self._add()

    def change_voters(self) -> None:
        """Any change that does no harm; or two, and the second must be refused while the first is open."""
        is_hasty = self._random.random() < 0.4
        if not self.pending or is_hasty:
            self._change()
        if self.pending and is_hasty:
            self._change()

    def _change(self) -> None:
        voters = self._ledger.voters
        may_add = len(voters) < _VOTERS_MAX
        removable = self._removable(voters)
        if removable and (not may_add or self._random.random() < 0.6):
            self._remove(self._random.choice(removable))
        elif may_add:
            self._add()

    def _removable(self, voters: Voters) -> list[VoterKey]:
        keys = [voter.key for voter in voters]
        if len(keys) == 1 or any(
            self._cluster.is_wiped(key) or self._cluster.is_recovering(key) for key in keys
        ):
            return []
        return keys

    def _remove(self, key: VoterKey) -> None:
        self._ask(RemoveVoter(next(self._request_ids), key))

    def _add(self) -> None:
        voters = self._ledger.voters
        candidates = [node for node in self._cluster.running() if voters.by_node_id(node.node_id) is None]
        if candidates:
            voter = self._cluster.voter(self._random.choice(candidates))
            self._ask(AddVoter(next(self._request_ids), voter))

    def _ask(self, change: AddVoter | RemoveVoter) -> None:
        leader = self._cluster.newest_leader()
        if leader is None or leader.is_paused:
            return
        self.pending[change.request_id] = change
        leader.ask(change.request_id, change, partial(self._on_answer, change.request_id))

    def _on_answer(self, request_id: int, answer: Answer | None) -> None:
        del self.pending[request_id]
        if answer is not None and answer.outcome is Outcome.DONE:
            self._counters.voter_changes += 1
