"""Hunting in one part of the system, in a world of its own that is checked after every step."""

from __future__ import annotations

from typing import Final

from quorate.chaos.models.controller import controller_model
from quorate.chaos.models.groups import group_model
from quorate.chaos.models.groups.client_member import ClientMember
from quorate.chaos.models.producer.producer_walk import walk_with
from quorate.chaos.models.replica_set import replica_model
from quorate.chaos.mutations.hunts import SeededHunt
from quorate.chaos.raft.simulation import Simulation
from quorate.errors import InconsistentMetadata

__all__ = ["CLIENTS_IN_GROUPS", "CONTROLLER", "GROUPS", "ORDERED_GROUPS", "PRODUCER", "RAFT", "REPLICAS"]

_STEPS: Final = 300


def _run_raft(seed: int) -> None:
    Simulation(seed).run()


#: the Raft simulator: whatever the core or the driver raises there is a finding
RAFT: Final = SeededHunt("Raft simulator", _run_raft, seeds_max=500, notices=(Exception,))
CONTROLLER: Final = SeededHunt(
    "model of the controller",
    lambda seed: controller_model.walk(seed, steps=_STEPS),
    seeds_max=600,
    notices=(AssertionError, InconsistentMetadata),
)
REPLICAS: Final = SeededHunt(
    "model of replicas", lambda seed: replica_model.walk(seed, steps=_STEPS), seeds_max=200
)
GROUPS: Final = SeededHunt(
    "model of groups", lambda seed: group_model.walk(seed, steps=_STEPS), seeds_max=200
)
#: of members that number their calls, and say what their joins are based on
ORDERED_GROUPS: Final = SeededHunt(
    "model of groups, with numbers",
    lambda seed: group_model.walk(seed, steps=_STEPS, is_ordered=True),
    seeds_max=1000,
)
#: with what a consumer makes of the coordinator's answers
CLIENTS_IN_GROUPS: Final = SeededHunt(
    "model of groups, of clients",
    lambda seed: group_model.walk(seed, steps=_STEPS, member_type=ClientMember),
    seeds_max=1000,
)
PRODUCER: Final = SeededHunt("walk of the producer", walk_with, seeds_max=400)
