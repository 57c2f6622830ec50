"""The proof of the proof: a whole cluster with one safety rule switched off is found out.

These are the mutations that the first seeds find, and the stories. ``quorate sim mutants`` runs all of them,
and docs/evidence/mutations.md says what came of it.
"""

from __future__ import annotations

from typing import Final

import pytest

from quorate.chaos.mutations import of_clients, of_cluster, of_compaction, of_controllers, of_coordinators
from quorate.chaos.mutations.hunts import StoryHunt
from quorate.chaos.mutations.mutation import Mutation
from quorate.chaos.mutations.registry import find_mutation
from tests.mutants import assert_is_noticed

#: each with a seed that notices it; after a change of the simulator the search goes on from there
QUICK: Final = {
    "acknowledgement-carries-offset-zero": 1,
    "answers-no-offset-while-it-loads": 1,
    "begins-anew-where-the-group-has-been": 1,
    "compacts-beyond-the-high-watermark": 1,
    "failed-replica-is-told-to-nobody": 2,
    "follower-acknowledges-before-the-sync": 1,
    "follower-cuts-to-its-high-watermark": 1,
    "follower-refuses-what-an-operator-has-decided": 2,
    "incomplete-followers-are-admitted-in-a-cluster": 5,
    "leader-commits-what-it-has-itself": 1,
    "leader-epoch-is-not-saved-in-a-cluster": 1,
    "leader-shrinks-its-isr-by-itself": 1,
    "loads-what-it-knows-to-be-committed": 1,
    "memory-changes-before-the-log": 13,
    "names-are-not-synced-in-a-cluster": 1,
    "producers-are-forgotten": 1,
    "takes-commits-of-whoever-was-removed-in-a-cluster": 11,
    "tombstones-go-before-what-they-delete": 1,
    "wiped-disk-is-counted-in-a-cluster": 2,
}

STORIES: Final = [
    each
    for module in (of_clients, of_cluster, of_compaction, of_controllers, of_coordinators)
    for each in module.MUTATIONS
    if isinstance(each.hunt, StoryHunt)
]


@pytest.mark.parametrize("name", QUICK)
def test_a_rule_that_is_switched_off_is_missed(name: str) -> None:
    assert_is_noticed(find_mutation(name), first_seed=QUICK[name])


@pytest.mark.parametrize("mutation", STORIES, ids=lambda mutation: mutation.name)
def test_a_story_misses_the_rule_that_it_is_about(mutation: Mutation) -> None:
    assert_is_noticed(mutation)
