"""What a broker has sent is heard when it is true no longer, and nothing comes of it (rules 35 and 44)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.mutations.cluster_stories import cluster_story
from quorate.chaos.mutations.late_messages_stories import (
    a_late_heartbeat_keeps_no_dead_process_alive,
    a_late_registration_is_none,
    a_late_report_of_damage_is_void,
    a_late_report_of_damage_is_void_for_the_next_controller,
    damage_is_told_again_where_a_later_epoch_counts_on_the_replica,
)
from quorate.chaos.mutations.mutation import Mutation
from quorate.chaos.mutations.of_late_messages import MUTATIONS
from tests.mutants import assert_is_noticed


@pytest.mark.parametrize(
    "story",
    [
        a_late_heartbeat_keeps_no_dead_process_alive,
        a_late_registration_is_none,
        a_late_report_of_damage_is_void,
        a_late_report_of_damage_is_void_for_the_next_controller,
        damage_is_told_again_where_a_later_epoch_counts_on_the_replica,
    ],
)
def test_what_comes_late_changes_nothing(story: Callable[[SimCluster], Awaitable[None]]) -> None:
    told = cluster_story(story).play()
    assert told is None


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_story_misses_the_rule_that_it_is_about(mutation: Mutation) -> None:
    assert_is_noticed(mutation)
