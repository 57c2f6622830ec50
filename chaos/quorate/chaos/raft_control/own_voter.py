"""A voter made of our own core, on the same connections: the simulator's node over another network."""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Iterator

from quorate.chaos.raft.ambush import Ambush
from quorate.chaos.raft.conditions import Conditions
from quorate.chaos.raft.counters import Counters
from quorate.chaos.raft.invariants import Checker
from quorate.chaos.raft.links import Links
from quorate.chaos.raft.node import SimulatedNode, Surroundings
from quorate.chaos.raft.register_machine import RegisterMachine
from quorate.chaos.raft.virtual_time import VirtualTime
from quorate.chaos.raft.voter_disk import VoterDisk
from quorate.chaos.raft_control.connections import Connections
from quorate.chaos.raft_control.control_voter import OnAcknowledged
from quorate.metadata.raft.entries import Index, Term
from quorate.metadata.raft.limits import Limits
from quorate.metadata.raft.messages import Envelope
from quorate.metadata.raft.ready import Answer, Outcome, Propose, Timing
from quorate.metadata.raft.voters import NodeId, Voter, Voters

__all__ = ["OwnVoter", "own_surroundings"]


def own_surroundings(
    time: VirtualTime, connections: Connections, checker: Checker, random: random.Random
) -> Surroundings:
    """Time-outs and batches are the defaults of pysyncobj, so that both live through the same story."""
    conditions = dataclasses.replace(
        Conditions.draw(random),
        timing=Timing(election_timeout_min_s=0.4, election_timeout_max_s=1.4, heartbeat_s=0.1),
        # Every command leaves at once, as pysyncobj's do: the stories differ in nothing but the core.
        limits=Limits(append_bytes_max=1 << 16, entries_kept=0, pipelined_entries_min=1),
        sync_s=0.005,
    )
    counters = Counters()
    links = _LinksOverConnections(time, random, conditions, counters, connections)
    return Surroundings(
        time=time,
        links=links,
        checker=checker,
        counters=counters,
        conditions=conditions,
        random=random,
        ambush=Ambush(),
        trace=None,
    )


class _LinksOverConnections(Links):
    def __init__(
        self,
        time: VirtualTime,
        random: random.Random,
        conditions: Conditions,
        counters: Counters,
        connections: Connections,
    ) -> None:
        super().__init__(time, random, conditions, counters)
        self._connections = connections

    def send(self, envelope: Envelope) -> None:
        self._connections.send(envelope.sender.node_id, envelope.to.node_id, envelope)


class OwnVoter:
    def __init__(
        self, voter: Voter, voters: Voters, surroundings: Surroundings, connections: Connections
    ) -> None:
        self._disk = VoterDisk(voter.key.directory_id, voters)
        self._node = SimulatedNode(voter.key.node_id, self._disk, surroundings)
        self._checker = surroundings.checker
        self._connections = connections
        self._request_ids: Iterator[int] = itertools.count(1)

    @property
    def is_up(self) -> bool:
        return self._node.is_up

    @property
    def is_leader(self) -> bool:
        return self._node.is_leader

    @property
    def machine(self) -> RegisterMachine:
        return self._node.machine

    def may_be_counted(self, index: Index, term: Term) -> bool:
        return self._disk.may_be_counted(index, term)

    def start(self) -> None:
        self._node.start()
        self._connections.came_up(self._node.node_id)

    def crash(self) -> None:
        self._node.crash()
        self._connections.went_down(self._node.node_id)

    def connected(self, peer: NodeId) -> None:
        """It has nothing to do: a connection is not a promise."""

    def disconnected(self, peer: NodeId) -> None:
        """As above."""

    def receive_from(self, sender: NodeId, message: object) -> None:
        assert isinstance(message, Envelope)
        assert message.sender.node_id == sender
        self._node.receive(message)

    def propose(self, command: bytes, on_acknowledged: OnAcknowledged) -> None:
        floor = self._checker.floor

        def answered(answer: Answer | None) -> None:
            if answer is not None and answer.outcome is Outcome.DONE:
                self._checker.acknowledged(command, answer.index, floor)
                on_acknowledged(answer.index)

        request_id = next(self._request_ids)
        self._node.ask(request_id, Propose((request_id,), (command,), self._node.term), answered)

    def compact(self) -> None:
        self._node.take_snapshot()
