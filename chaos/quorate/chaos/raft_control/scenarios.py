"""What is done to the voters of the control, drawn from a seed: the same for pysyncobj and for our own core.

A seed is a few rounds of the same story. One follower lags, clients write in bursts of several batches, the
leader crashes, the follower catches up, the old leader comes back on what its disk holds. Nobody's disk
loses anything that was written, never more than one voter is down, and at the end all is well for long
enough to settle. The scenarios add one kind of trouble each.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from quorate.chaos.raft_control.connections import Connections, Traffic
from quorate.chaos.raft_control.control_voter import ControlVoter
from quorate.metadata.raft.voters import NodeId

__all__ = ["SCENARIOS", "Scenario", "Stage", "play"]


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    about: str
    #: False: pysyncobj as it comes, with everything in memory
    has_files: bool = True
    #: snapshots are taken while clients write
    compacts: bool = False
    #: connections break while clients write
    breaks: bool = False
    #: and what they held arrives late
    lingers: bool = False
    rounds: int = 5


SCENARIOS: Final = (
    Scenario("crash", "the leader crashes while one follower lags; nothing else goes wrong"),
    Scenario("compaction", "also, logs are compacted and connections break", compacts=True, breaks=True),
    Scenario(
        "reconnect", "also, connections break, and what they held arrives late", breaks=True, lingers=True
    ),
    Scenario("default", "as the first, with the default journal, which is in memory", has_files=False),
)

_TROUBLED: Final = Traffic(delay_s=(0.01, 0.25))
_TROUBLED_AND_LINGERING: Final = Traffic(delay_s=(0.01, 0.25), linger_s=(0.1, 2.0))
_QUIET: Final = Traffic(delay_s=(0.001, 0.01))
#: an election takes up to 1.4 s at the defaults of pysyncobj
_FIRST_ELECTION_S: Final = 3.0
_SETTLE_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Stage:
    """What a scenario acts on."""

    voters: dict[NodeId, ControlVoter]
    connections: Connections
    #: so many commands, to a voter that believes to lead
    write: Callable[[int], None]


def play(scenario: Scenario, stage: Stage, chance: random.Random) -> Iterator[float]:
    """Acts, and yields how many seconds are to pass before it goes on."""
    stage.connections.traffic = _TROUBLED_AND_LINGERING if scenario.lingers else _TROUBLED
    for voter in stage.voters.values():
        voter.start()
    yield _FIRST_ELECTION_S
    for _ in range(scenario.rounds):
        yield from _round(scenario, stage, chance)
    stage.connections.traffic = _QUIET
    yield _SETTLE_S


def _round(scenario: Scenario, stage: Stage, chance: random.Random) -> Iterator[float]:
    ids, connections = list(stage.voters), stage.connections
    laggard = chance.choice(ids)
    connections.slowness = {(sender, laggard): chance.choice((5.0, 20.0)) for sender in ids}
    for _ in range(chance.randint(1, 3)):
        stage.write(chance.randint(10, 30))
        yield chance.uniform(0.05, 0.4)
        if scenario.compacts and chance.random() < 0.7:
            stage.voters[chance.choice(ids)].compact()
        if scenario.breaks and chance.random() < 0.5:
            connections.break_between(*chance.sample(ids, 2))
    yield chance.uniform(0.05, 0.6)
    leaders = [voter for voter in stage.voters.values() if voter.is_leader]
    if leaders:
        leader = chance.choice(leaders)
        leader.crash()
        yield chance.uniform(0.3, 1.0)
        connections.slowness = {}
        yield chance.uniform(1.0, 3.0)
        leader.start()
    yield chance.uniform(0.5, 2.0)
