"""One seed of the control: three voters, a scenario, the simulator's invariants, and what came of it."""

from __future__ import annotations

import contextlib
import json
import os
import random
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from quorate.chaos.raft.client_invariants import (
    AcknowledgedCommandsAreCommitted,
    AnswersFollowRealTime,
    CommandsAreCommittedOnce,
    StateMachinesAgree,
)
from quorate.chaos.raft.cluster import founding_voters
from quorate.chaos.raft.invariants import Checker, Invariant, Violation
from quorate.chaos.raft.ledger import Ledger
from quorate.chaos.raft.log_invariants import (
    CommitIndexNeverFalls,
    CommittedEntriesAreNeverCut,
    CommittedThroughTheOwnTerm,
    LeaderOnlyAppends,
    LogsMatch,
    SnapshotsStandForCommittedEntries,
)
from quorate.chaos.raft.quorum_invariants import CommittedByAMajority, LeadersAreComplete, OneLeaderPerTerm
from quorate.chaos.raft.register_machine import RegisterMachine, encode_command
from quorate.chaos.raft.virtual_time import VirtualTime
from quorate.chaos.raft_control.connections import Connections, Traffic
from quorate.chaos.raft_control.control_voter import ControlVoter
from quorate.chaos.raft_control.own_voter import OwnVoter, own_surroundings
from quorate.chaos.raft_control.scenarios import Scenario, Stage, play
from quorate.chaos.raft_control.stock_replica import Observer
from quorate.chaos.raft_control.stock_voter import Files, StockVoter, virtual_pysyncobj
from quorate.metadata.raft.entries import NO_TERM, Entry, EntryKind, Index, Term
from quorate.metadata.raft.voters import NodeId, VoterKey

__all__ = ["Verdict", "World", "commands_in", "run_own", "run_stock", "stock_world"]

_VOTERS: Final = 3
#: two or three commands fill a batch of pysyncobj
_COMMAND_BYTES: Final = 24 * 1024
_REGISTERS: Final = 4


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a seed came to. Any of the last three is a broken promise."""

    acknowledged: int
    #: the first invariant that did not hold, and how
    violation: Violation | None
    #: commands that were acknowledged, and that the leader does not know at the end
    lost: int
    #: the voters' states differ at the end
    is_split: bool

    @property
    def is_red(self) -> bool:
        return self.violation is not None or self.is_broken

    @property
    def is_broken(self) -> bool:
        """Clients can see it."""
        return self.lost > 0 or self.is_split


class World:
    """What both kinds of voters live in. The seed decides everything."""

    def __init__(self, seed: int) -> None:
        self.time = VirtualTime()
        self.connections = Connections(self.time, random.Random(f"{seed} network"), Traffic())
        self.founding = founding_voters(_VOTERS)
        ledger = Ledger(self.founding)
        self.checker = Checker(ledger, self._invariants(ledger))
        self.voters: dict[NodeId, ControlVoter] = {}
        #: number of the command -> where it was acknowledged
        self.acknowledged: dict[int, Index] = {}
        self._chance = random.Random(f"{seed} clients")
        self._written = 0

    def add(self, node_id: NodeId, voter: ControlVoter) -> None:
        self.voters[node_id] = voter
        self.connections.join(node_id, voter)

    def play(self, story: Iterable[float]) -> None:
        for seconds in story:
            self.time.run_until(self.time.now + seconds)

    def write(self, commands: int) -> None:
        """To a voter that believes to lead. Each as a client of its own: the state knows them all by name."""
        leaders = [voter for voter in self.voters.values() if voter.is_leader]
        if not leaders:
            return
        leader = self._chance.choice(leaders)
        for _ in range(commands):
            number, self._written = self._written, self._written + 1
            command = encode_command(client=number, sequence=0, attempt=0, register=number % _REGISTERS)
            leader.propose(command.ljust(_COMMAND_BYTES), partial(self.acknowledged.__setitem__, number))

    def verdict(self, violation: Violation | None) -> Verdict:
        states = [voter.machine.save() for voter in self.voters.values()]
        leaders = [voter for voter in self.voters.values() if voter.is_leader]
        known = commands_in(leaders[0].machine) if leaders else set()
        return Verdict(
            acknowledged=len(self.acknowledged),
            violation=violation,
            lost=len(self.acknowledged.keys() - known),
            is_split=any(state != states[0] for state in states),
        )

    def _invariants(self, ledger: Ledger) -> list[Invariant]:
        """Those of the simulator that can be judged without knowing the messages."""
        return [
            LogsMatch(ledger),
            LeaderOnlyAppends(ledger),
            CommittedEntriesAreNeverCut(ledger),
            CommitIndexNeverFalls(ledger),
            CommittedThroughTheOwnTerm(ledger),
            CommittedByAMajority(ledger, self._may_be_counted),
            SnapshotsStandForCommittedEntries(ledger),
            OneLeaderPerTerm(ledger),
            LeadersAreComplete(ledger),
            StateMachinesAgree(ledger),
            AcknowledgedCommandsAreCommitted(ledger),
            CommandsAreCommittedOnce(ledger),
            AnswersFollowRealTime(ledger),
        ]

    def _may_be_counted(self, key: VoterKey, index: Index, term: Term) -> bool:
        return self.voters[key.node_id].may_be_counted(index, term)


@contextlib.contextmanager
def stock_world(seed: int, *, has_files: bool) -> Iterator[tuple[World, Observer, Sequence[Files]]]:
    """With stock pysyncobj voters. Their files are gone at the end."""
    world = World(seed)
    # Every one of its journals is born with the same first entry.
    world.checker.ledger.extend(Entry(Index(1), NO_TERM, EntryKind.NOOP, b""), NO_TERM)
    observer = Observer(world.checker)
    with tempfile.TemporaryDirectory() as directory:
        paths = [os.path.join(directory, str(voter.key.node_id)) for voter in world.founding]
        files = [Files(f"{path}.journal", f"{path}.dump") for path in paths]
        for voter, its_files in zip(world.founding, files, strict=True):
            stock = StockVoter(
                voter,
                world.founding,
                time=world.time,
                connections=world.connections,
                observer=observer,
                files=its_files if has_files else None,
            )
            world.add(voter.key.node_id, stock)
        try:
            with virtual_pysyncobj(world.time, random.Random(f"{seed} voters")):
                yield world, observer, files
        finally:
            for running in world.voters.values():
                if running.is_up:
                    running.crash()


def run_stock(seed: int, scenario: Scenario) -> Verdict:
    """Stock pysyncobj. The story goes on after the first violation, to show what comes of it."""
    with stock_world(seed, has_files=scenario.has_files) as (world, observer, _files):
        world.play(_story(seed, scenario, world))
        return world.verdict(observer.violation)


def run_own(seed: int, scenario: Scenario) -> Verdict:
    """Our own core, in the same story. It ends with the first violation."""
    world = World(seed)
    chance = random.Random(f"{seed} voters")
    surroundings = own_surroundings(world.time, world.connections, world.checker, chance)
    for voter in world.founding:
        own = OwnVoter(voter, world.founding, surroundings, world.connections)
        world.add(voter.key.node_id, own)
    try:
        world.play(_story(seed, scenario, world))
    except Violation as violation:
        return world.verdict(violation)
    return world.verdict(None)


def commands_in(machine: RegisterMachine) -> set[int]:
    """The numbers of those that the state knows."""
    _applied_index, _digest, _registers, executed = json.loads(machine.save())
    return {client for client, _sequence in executed}


def _story(seed: int, scenario: Scenario, world: World) -> Iterator[float]:
    stage = Stage(world.voters, world.connections, world.write)
    return play(scenario, stage, random.Random(f"{seed} {scenario.name}"))
