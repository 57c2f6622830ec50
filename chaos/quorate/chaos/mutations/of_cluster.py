"""Mutations that a model finds, and the whole cluster too: the same mistake, seen from outside.

A model knows one part of the system, and its invariants are about that part. That a cluster loses what a
model says it would is what connects the two.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from quorate.chaos.cluster.faults.kinds import Fault
from quorate.chaos.mutations import of_elections, of_isr_changes
from quorate.chaos.mutations.cluster_hunt import ClusterHunt
from quorate.chaos.mutations.mutation import Mutation

__all__ = ["MUTATIONS"]

_SEEN_IN_A_CLUSTER: Final[tuple[tuple[Mutation, ClusterHunt], ...]] = (
    (of_elections.elr_is_not_kept, ClusterHunt((Fault.KILL_ONE_BY_ONE,))),
    (of_elections.elects_the_last_known_leader, ClusterHunt((Fault.KILL_ONE_BY_ONE,))),
    (of_isr_changes.move_adds_to_the_isr, ClusterHunt((Fault.MOVE_REPLICAS,))),
)

MUTATIONS: Final[tuple[Mutation, ...]] = tuple(
    replace(each, name=f"{each.name}-in-a-cluster", hunt=hunt) for each, hunt in _SEEN_IN_A_CLUSTER
)
