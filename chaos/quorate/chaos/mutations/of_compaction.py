"""Mutations of what followers are told of compaction (rule 48)."""

from __future__ import annotations

from typing import Any, Final

from quorate.broker.replica import leadership
from quorate.broker.replica.compacted_copies import has_to_begin_anew
from quorate.broker.replica.leadership import Leadership
from quorate.chaos.mutations.cluster_stories import cluster_story
from quorate.chaos.mutations.compacted_copy_stories import (
    SETTINGS,
    a_copy_asks_the_same_of_its_followers,
    a_copy_is_dropped_where_its_leader_lacks_what_it_rests_on,
    a_replica_that_was_away_hears_of_deletions,
)
from quorate.chaos.mutations.mutation import Mutation, mutation, mutations_in
from quorate.chaos.mutations.patch import Patch
from quorate.storage import opening
from quorate.storage.compaction_checkpoint import NOT_COMPACTED

__all__ = ["MUTATIONS"]


@mutation(48, hunt=cluster_story(a_replica_that_was_away_hears_of_deletions, settings=SETTINGS))
def followers_are_not_told_of_tombstones_that_are_gone(patch: Patch) -> None:
    """As in Kafka: whoever was away for longer than delete.retention.ms keeps what was deleted, for ever."""
    patch.setattr(Leadership, "untold_compaction", lambda *_, **__: None)


@mutation(48, hunt=cluster_story(a_copy_asks_the_same_of_its_followers, brokers=4, settings=SETTINGS))
def a_copy_forgets_at_a_restart_what_it_lacks(patch: Patch) -> None:
    patch.setattr(opening, "load_compaction", lambda *_, **__: NOT_COMPACTED)


@mutation(
    48,
    hunt=cluster_story(
        a_copy_is_dropped_where_its_leader_lacks_what_it_rests_on, brokers=4, settings=SETTINGS
    ),
)
def followers_are_told_of_tombstones_alone(patch: Patch) -> None:
    """A copy does not know that it lacks records because of newer ones: it is cut like any other log."""

    def hears(*compacted: Any, **known: Any) -> bool:
        return has_to_begin_anew(*compacted, **known)

    patch.setattr(leadership, "has_to_hear", hears)


MUTATIONS: Final[tuple[Mutation, ...]] = mutations_in(globals())
