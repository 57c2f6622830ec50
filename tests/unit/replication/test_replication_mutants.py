"""Each rule of replication, switched off, is caught by the test that is there for it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from quorate.broker.replica.partition import Partition
from quorate.broker.replication import following, leader_fetcher
from quorate.broker.replication.following import Next, TruncateTo
from quorate.broker.replication.leader_fetcher import LeaderFetcher
from quorate.chaos.mutations import of_followers
from quorate.chaos.mutations.hunts import SeededHunt, StoryHunt
from quorate.chaos.mutations.mutation import Mutation
from quorate.chaos.sim.patch import Patch
from quorate.core.config import Durability
from quorate.errors import UnknownServerError
from quorate.v1.replica_pb2 import ReplicaUpdate
from tests.mutants import assert_is_noticed, assert_story_notices
from tests.unit.replication import test_follower_roles as roles
from tests.unit.replication import test_follower_rules as rules
from tests.unit.replication.replication_world import with_world
from tests.unit.replication.test_replication_walk import walk

Mutant = Callable[[Patch], None]


def _cut_to_high_watermark(partition: Partition, _: ReplicaUpdate) -> Next:
    return TruncateTo(partition.high_watermark)


def cut_to_the_high_watermark_on_divergence(patch: Patch) -> None:
    patch.setattr(following, "_diverged", _cut_to_high_watermark)


def cut_by_the_leaders_word_alone(patch: Patch) -> None:
    patch.setattr(
        following, "truncation_offset", lambda log, answer: min(answer.end_offset, log.log_end_offset)
    )


def cut_to_the_high_watermark_without_an_answer(patch: Patch) -> None:
    patch.setattr(following, "_refused", _cut_to_high_watermark)


def acknowledge_before_the_sync(patch: Patch) -> None:
    for module in (following, leader_fetcher):
        patch.setattr(module, "before_naming", lambda *_, **__: following.NAME_POSITION)


def cut_whoever_leads_by_now(patch: Patch) -> None:
    before = LeaderFetcher._is_current
    patch.setattr(
        LeaderFetcher,
        "_is_current",
        lambda self, followed: before(self, followed) or followed.state is leader_fetcher._State.WORKING,
    )


MUTANTS: list[tuple[Mutant, Callable[[], None]]] = [
    (
        cut_to_the_high_watermark_on_divergence,
        rules.test_rule_8_cuts_to_the_end_of_the_common_epoch_and_asks_again,
    ),
    (cut_by_the_leaders_word_alone, rules.test_rule_8_its_own_end_of_an_epoch_bounds_the_cut_too),
    (
        cut_to_the_high_watermark_without_an_answer,
        lambda: rules.test_rule_9_a_question_without_an_answer_cuts_nothing(UnknownServerError("?")),
    ),
    (
        acknowledge_before_the_sync,
        rules.test_rule_16_with_fsync_a_position_is_named_only_when_all_before_it_is_on_the_device,
    ),
    (
        of_followers.damaged_log_is_dropped_at_once.apply,
        roles.test_rule_44_it_is_refetched_in_a_new_epoch_once_nobody_counts_on_it,
    ),
    (cut_whoever_leads_by_now, roles.test_a_cut_that_has_not_begun_when_the_epoch_ends_never_does),
]


STORIES = [each for each in of_followers.MUTATIONS if isinstance(each.hunt, StoryHunt)]


@pytest.mark.parametrize("mutation", STORIES, ids=lambda mutation: mutation.name)
def test_mutation_is_noticed(mutation: Mutation) -> None:
    assert_is_noticed(mutation)


@pytest.mark.parametrize(("mutant", "script"), MUTANTS, ids=[mutant.__name__ for mutant, _ in MUTANTS])
def test_a_rule_that_is_switched_off_is_caught(mutant: Mutant, script: Callable[[], None]) -> None:
    assert_story_notices(mutant, script)


@pytest.mark.parametrize(
    ("mutant", "durability"),
    [
        (cut_to_the_high_watermark_on_divergence, Durability.REPLICATED),
        (cut_to_the_high_watermark_without_an_answer, Durability.REPLICATED),
        (acknowledge_before_the_sync, Durability.FSYNC),
    ],
)
def test_the_walk_finds_what_loses_records(mutant: Mutant, durability: Durability) -> None:
    def walk_once(seed: int) -> None:
        with_world(walk, seed=seed, durability=durability)

    hunt = SeededHunt("walk of followers", walk_once, seeds_max=100)
    assert_is_noticed(Mutation(mutant.__name__, (8,), "", mutant, hunt), first_seed=0)
