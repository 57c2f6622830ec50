"""One run, from one seed.

Three acts. *Trouble*: clients work while faults strike. *A limp*: the faults end, but one node, the leader
preferably, may stay deaf, mute or cut off. The others are a majority, so every client must get a write
through within a bound. *Health*: everything is mended; within a bound all disks are replaced, and every voter
has applied the same log to its end. The invariants are checked at every step of all three.
"""

from __future__ import annotations

import hashlib
import itertools
import random
from collections.abc import Callable
from typing import Final

from quorate.chaos.raft.ambush import Ambush
from quorate.chaos.raft.client_invariants import (
    AcknowledgedCommandsAreCommitted,
    AnswersFollowRealTime,
    CommandsAreCommittedOnce,
    ReadsSeeTheirIndex,
    RefusedCommandsStayAway,
    StateMachinesAgree,
)
from quorate.chaos.raft.clients import Client
from quorate.chaos.raft.cluster import Cluster, founding_voters
from quorate.chaos.raft.conditions import Conditions
from quorate.chaos.raft.counters import Counters
from quorate.chaos.raft.fault_budget import FaultBudget, VoterChangesInLogs
from quorate.chaos.raft.faults import Faults
from quorate.chaos.raft.invariants import Checker, Invariant, Violation
from quorate.chaos.raft.ledger import Ledger
from quorate.chaos.raft.links import Links
from quorate.chaos.raft.log_invariants import (
    AcknowledgedEntriesAreDurable,
    AcknowledgedEntriesStayForTheTerm,
    CommitIndexNeverFalls,
    CommittedEntriesAreNeverCut,
    CommittedThroughTheOwnTerm,
    LeaderOnlyAppends,
    LogsMatch,
    SnapshotsStandForCommittedEntries,
)
from quorate.chaos.raft.node import Surroundings
from quorate.chaos.raft.operator import Operator
from quorate.chaos.raft.partitions import draw_isolation
from quorate.chaos.raft.quorum_invariants import (
    CommittedByAMajority,
    LeadersAreComplete,
    OneLeaderPerTerm,
    OneVotePerTerm,
    OneVoterChangeAtATime,
    RecoveredVotersAreWhole,
    RecoveringVotersStayOut,
    VotesAreDurable,
)
from quorate.chaos.raft.trace import Trace
from quorate.chaos.raft.virtual_time import VirtualTime
from quorate.metadata.raft.ready import Transfer

__all__ = ["Simulation"]

#: in longest election time-outs: how long the quorum may rest before one node is cut off
_RESTING_TIMEOUTS_MAX: Final = 8
#: and how long it may need then
_LIMPING_TIMEOUTS_MAX: Final = 40
_HEALING_TIMEOUTS_MAX: Final = 60


class Simulation:
    def __init__(self, seed: int, *, with_trace: bool = False) -> None:
        # Every part draws from a source of its own, so that a change in one does not stir up all others.
        def source(name: str) -> random.Random:
            return random.Random(f"{seed} {name}")

        self.conditions = conditions = Conditions.draw(source("conditions"))
        self.counters = counters = Counters()
        self._random = source("world")
        self._time = time = VirtualTime()
        self.trace = Trace(time) if with_trace else None
        founding = founding_voters(conditions.founders)
        self._ledger = ledger = Ledger(founding)
        self._cluster = cluster = Cluster()
        changes = VoterChangesInLogs(ledger)
        checker = Checker(ledger, [changes, *_invariants(ledger, cluster)])
        self._links = links = Links(time, source("network"), conditions, counters)
        ambush = Ambush()
        surroundings = Surroundings(
            time, links, checker, counters, conditions, source("nodes"), ambush, self.trace
        )
        cluster.build(surroundings, founding, conditions.spares)
        request_ids = itertools.count(1)
        self._operator = Operator(
            cluster=cluster,
            ledger=ledger,
            time=time,
            counters=counters,
            random=source("operator"),
            request_ids=request_ids,
            voters_wanted=conditions.founders,
        )
        self._budget = FaultBudget(cluster, ledger, changes, self._operator)
        self._faults = Faults(
            cluster=cluster,
            links=links,
            time=time,
            budget=self._budget,
            operator=self._operator,
            ambush=ambush,
            counters=counters,
            conditions=conditions,
            random=source("faults"),
        )
        self._clients = [
            Client(
                number,
                cluster=cluster,
                time=time,
                checker=checker,
                counters=counters,
                conditions=conditions,
                random=source(f"client {number}"),
                request_ids=request_ids,
            )
            for number in range(conditions.clients)
        ]

    def run(self) -> None:
        """Raises ``Violation``, or whatever else the code under test raises."""
        for node in self._cluster:
            node.start()
        for client in self._clients:
            client.start()
        self._operator.start()
        self._faults.start()
        self._time.run_until(self.conditions.troubled_s)
        self._limp()
        self._heal()

    def digest(self) -> str:
        """Of what was committed, how far each node has come, and how often what happened; at any moment."""
        content = hashlib.sha256(repr(self.counters).encode())
        for entry in self._ledger.entries:
            content.update(repr((entry.index, entry.term, entry.kind.name, entry.data)).encode())
        for node in self._cluster:
            machine, disk = node.machine, node.disk
            reached = (node.node_id, machine.applied_index, machine.digest, disk.last_index)
            content.update(repr((*reached, disk.hard_state)).encode())
        return content.hexdigest()

    # --- the last two acts ----------------------------------------------------------------------------

    def _limp(self) -> None:
        self._cluster.note("the faults end")
        self._faults.heal()
        self._run_for(_RESTING_TIMEOUTS_MAX, self._can_spare_a_voter)
        lame = self._cut_one_off()
        for client in self._clients:
            client.finish()
        if not self._run_for(_LIMPING_TIMEOUTS_MAX, self._clients_are_done):
            waiting = sum(not client.is_done for client in self._clients)
            raise Violation("TheHealthyMajorityCommits", f"{waiting} clients wait for a write; {lame}")

    def _cut_one_off(self) -> str:
        """Leave one node behind, if the others are enough: the leader, or the one that is about to lead."""
        node = self._cluster.newest_leader()
        if node is None or not self._can_spare_a_voter() or self._random.random() < 0.1:
            return "no node is cut off"
        delay_s = 0.0
        if self._random.random() < 0.3:
            successor = self._random.choice(list(node.voters)).key
            self._cluster.note(f"leadership of node {node.node_id} is to go to {successor}")
            node.handle(Transfer(successor))
            node = self._cluster.nodes[successor.node_id]
            # When it has been told to stand for election, and before it has told anybody.
            delay_s = self.conditions.delay_min_s + self._random.random() * self.conditions.sync_s
        name, directions = draw_isolation(list(self._cluster.nodes), node.node_id, self._random)
        self._time.after(delay_s, self._links.cut, directions)
        self._cluster.note(f"{name}, for good")
        return name

    def _can_spare_a_voter(self) -> bool:
        return self._budget.losses_left > 0 and self._budget.is_settled and bool(self._cluster.leaders())

    def _heal(self) -> None:
        self._cluster.note("everything is mended")
        self._links.heal()
        if not self._run_for(_HEALING_TIMEOUTS_MAX, self._has_converged):
            raise Violation("TheHealedQuorumConverges", self._state())

    def _run_for(self, timeouts: int, is_over: Callable[[], bool]) -> bool:
        bound = timeouts * self.conditions.timing.election_timeout_max_s
        return self._time.run_until(self._time.now + bound, is_over=is_over)

    def _clients_are_done(self) -> bool:
        return all(client.is_done for client in self._clients)

    def _has_converged(self) -> bool:
        """Every voter has applied all there is, and everybody who asked was answered."""
        last_index = self._ledger.last_index
        for voter in self._ledger.voters:
            node = self._cluster.nodes[voter.key.node_id]
            if node.key != voter.key or node.machine.applied_index != last_index or node.is_recovering:
                return False
            if node.last_index != last_index or node.open_questions:
                return False
        return self._operator.is_content and len(self._cluster.leaders()) == 1

    def _state(self) -> str:
        nodes = [
            f"node {node.key}: {'leads' if node.is_leader else 'follows'} in term {node.term}, "
            f"applied {node.machine.applied_index} of {node.last_index}, "
            f"{node.open_questions} open questions{', recovering' if node.is_recovering else ''}"
            for node in self._cluster
        ]
        voters = " ".join(str(voter.key) for voter in self._ledger.voters)
        return f"committed {self._ledger.last_index}, voters {voters}; " + "; ".join(nodes)


def _invariants(ledger: Ledger, cluster: Cluster) -> list[Invariant]:
    return [
        LogsMatch(ledger),
        LeaderOnlyAppends(ledger),
        CommittedEntriesAreNeverCut(ledger),
        CommitIndexNeverFalls(ledger),
        CommittedThroughTheOwnTerm(ledger),
        CommittedByAMajority(ledger, cluster.may_be_counted),
        AcknowledgedEntriesAreDurable(ledger, cluster.last_durable),
        AcknowledgedEntriesStayForTheTerm(ledger),
        SnapshotsStandForCommittedEntries(ledger),
        OneLeaderPerTerm(ledger),
        LeadersAreComplete(ledger),
        OneVotePerTerm(ledger),
        VotesAreDurable(ledger, cluster.hard_state),
        RecoveringVotersStayOut(ledger),
        RecoveredVotersAreWhole(ledger),
        OneVoterChangeAtATime(ledger),
        StateMachinesAgree(ledger),
        AcknowledgedCommandsAreCommitted(ledger),
        CommandsAreCommittedOnce(ledger),
        RefusedCommandsStayAway(ledger),
        AnswersFollowRealTime(ledger),
        ReadsSeeTheirIndex(ledger),
    ]
