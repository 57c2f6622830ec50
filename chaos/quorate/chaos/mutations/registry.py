"""All mutations, in the order of the rules that they switch off."""

from __future__ import annotations

from collections import Counter
from typing import Final

from quorate.chaos.mutations import (
    of_broker_lives,
    of_cache_witness,
    of_clients,
    of_cluster,
    of_compaction,
    of_control,
    of_controllers,
    of_coordinators,
    of_directory,
    of_elections,
    of_followers,
    of_groups,
    of_isr_changes,
    of_leaders,
    of_producer,
    of_raft,
    of_replicas,
    of_storage,
)
from quorate.chaos.mutations.mutation import Mutation

__all__ = ["MUTATIONS", "find_mutation", "mutations_of_rule"]

_MODULES: Final = (
    of_broker_lives,
    of_cache_witness,
    of_clients,
    of_cluster,
    of_compaction,
    of_control,
    of_controllers,
    of_coordinators,
    of_directory,
    of_elections,
    of_followers,
    of_groups,
    of_isr_changes,
    of_leaders,
    of_producer,
    of_raft,
    of_replicas,
    of_storage,
)

MUTATIONS: Final[tuple[Mutation, ...]] = tuple(
    sorted((each for module in _MODULES for each in module.MUTATIONS), key=lambda each: each.rule)
)

_BY_NAME: Final = {each.name: each for each in MUTATIONS}
assert len(_BY_NAME) == len(MUTATIONS), [
    name for name, count in Counter(each.name for each in MUTATIONS).items() if count > 1
]


def find_mutation(name: str) -> Mutation:
    """KeyError: there is none of that name."""
    return _BY_NAME[name]


def mutations_of_rule(rule: int) -> tuple[Mutation, ...]:
    """Also those that switch it off beside another one."""
    return tuple(each for each in MUTATIONS if rule in each.rules)
