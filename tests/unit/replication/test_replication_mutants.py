"""Each rule of replication, switched off, is caught by the test that is there for it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from quorate.broker.replica.partition import Partition
from quorate.broker.replication import following, leader_fetcher
from quorate.broker.replication.following import Next, TruncateTo, TryAgain
from quorate.broker.replication.leader_fetcher import LeaderFetcher
from quorate.core.config import Durability
from quorate.core.ids import PartitionId, ReplicaKey, TopicId
from quorate.errors import UnknownServerError
from quorate.v1.replica_pb2 import ReplicaUpdate
from tests.unit.replication import test_follower_roles as roles
from tests.unit.replication import test_follower_rules as rules
from tests.unit.replication.replication_world import with_world
from tests.unit.replication.test_replication_walk import walk

Mutant = Callable[[pytest.MonkeyPatch], None]


def _cut_to_high_watermark(partition: Partition, _: ReplicaUpdate) -> Next:
    return TruncateTo(partition.high_watermark)


def cut_to_the_high_watermark_on_divergence(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(following, "_diverged", _cut_to_high_watermark)


def cut_by_the_leaders_word_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        following, "truncation_offset", lambda log, answer: min(answer.end_offset, log.log_end_offset)
    )


def cut_to_the_high_watermark_without_an_answer(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(following, "_refused", _cut_to_high_watermark)


def believe_answers_of_any_epoch(patch: pytest.MonkeyPatch) -> None:
    def take(self: LeaderFetcher, update: ReplicaUpdate) -> None:
        followed = self._followed.get(ReplicaKey(TopicId(update.topic_id), PartitionId(update.partition)))
        if followed is not None:
            self._proceed(followed, following.take_update(followed.partition, update))

    patch.setattr(LeaderFetcher, "_take", take)


def obey_any_cut(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(following, "crosses_unclean_epoch", lambda *_, **__: True)


def never_begin_anew(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(following, "_refused", lambda *_: TryAgain(UnknownServerError("?")))


def acknowledge_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    for module in (following, leader_fetcher):
        patch.setattr(module, "before_naming", lambda *_, **__: following.NAME_POSITION)


def drop_a_damaged_log_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(leader_fetcher, "may_refetch", lambda partition, _: partition.log.damage is not None)


def cut_whoever_leads_by_now(patch: pytest.MonkeyPatch) -> None:
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
    (believe_answers_of_any_epoch, rules.test_rule_10_an_answer_of_an_older_epoch_is_dropped),
    (obey_any_cut, rules.test_rule_11_refuses_to_cut_below_its_own_high_watermark),
    (
        never_begin_anew,
        rules.test_rule_12_begins_anew_at_the_leaders_start_when_its_end_lies_before_it,
    ),
    (
        acknowledge_before_the_sync,
        rules.test_rule_16_with_fsync_a_position_is_named_only_when_all_before_it_is_on_the_device,
    ),
    (
        drop_a_damaged_log_at_once,
        roles.test_rule_44_it_is_refetched_in_a_new_epoch_once_nobody_counts_on_it,
    ),
    (cut_whoever_leads_by_now, roles.test_a_cut_that_has_not_begun_when_the_epoch_ends_never_does),
]


@pytest.mark.parametrize(("mutant", "script"), MUTANTS, ids=[mutant.__name__ for mutant, _ in MUTANTS])
def test_a_rule_that_is_switched_off_is_caught(
    monkeypatch: pytest.MonkeyPatch, mutant: Mutant, script: Callable[[], None]
) -> None:
    script()
    mutant(monkeypatch)
    with pytest.raises(AssertionError):
        script()


@pytest.mark.parametrize(
    ("mutant", "durability"),
    [
        (cut_to_the_high_watermark_on_divergence, Durability.REPLICATED),
        (cut_to_the_high_watermark_without_an_answer, Durability.REPLICATED),
        (acknowledge_before_the_sync, Durability.FSYNC),
    ],
)
def test_the_walk_finds_what_loses_records(
    monkeypatch: pytest.MonkeyPatch, mutant: Mutant, durability: Durability
) -> None:
    mutant(monkeypatch)

    def some_walks() -> None:
        for seed in range(100):
            with_world(walk, seed=seed, durability=durability)

    with pytest.raises(AssertionError):
        some_walks()
