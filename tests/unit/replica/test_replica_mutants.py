"""Each rule that a leader keeps is switched off in turn, and the model's invariants must notice.

A test that cannot fail proves nothing. What the model finds by itself is in ``quorate.chaos.mutations``; the
mistakes below do harm too rarely, or none but to liveness, and each has its own story.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest

from quorate.broker.replica import isr_membership
from quorate.broker.replica.followers import Follower, Followers
from quorate.broker.replica.in_sync_replicas import InSyncReplicas
from quorate.broker.replica.isr_membership import IsrMembership
from quorate.broker.replica.leadership import Leadership
from quorate.broker.replica.own_copy import OwnCopy
from quorate.chaos.models.replica_set.replica_harness import broker_image
from quorate.chaos.mutations import of_leaders, of_replicas
from quorate.chaos.mutations.hunts import StoryHunt
from quorate.chaos.mutations.mutation import Mutation
from quorate.chaos.sim.patch import Patch
from quorate.core.ids import BrokerId, Offset
from quorate.errors import IneligibleReplica
from quorate.metadata.image import Recovery
from quorate.storage import PartitionLog
from quorate.v1.controller_pb2 import PartitionAlterationResult
from tests.mutants import assert_is_noticed, assert_story_notices
from tests.unit.replica import test_replica_isr as isr_rules
from tests.unit.replica import test_replica_log_start as log_start_rules
from tests.unit.replica import test_replica_storage as storage_rules

# -- epochs


def leader_epoch_is_taken_from_an_answer(patch: Patch) -> None:
    original = Leadership.alteration_answered

    def answered(self: Leadership, result: PartitionAlterationResult) -> None:
        if result.leader_epoch > self.epoch:
            result.leader_epoch = self.epoch
        original(self, result)

    patch.setattr(Leadership, "alteration_answered", answered)


# -- asking for another ISR


def _refused(patch: Patch, frees: Callable[[InSyncReplicas, str], bool]) -> None:
    def refused(self: InSyncReplicas, code: str) -> None:
        self._asked = None
        if self._wish is not None and frees(self, code):
            self._wish = None

    patch.setattr(InSyncReplicas, "refused", refused)


def refusal_takes_the_wish_back_whatever_is_on_its_way(patch: Patch) -> None:
    _refused(patch, lambda self, code: code in ("INELIGIBLE_REPLICA", "OPERATION_NOT_ATTEMPTED"))


def answer_to_an_earlier_wish_is_taken_for_one_to_the_next(patch: Patch) -> None:
    original = InSyncReplicas.commit

    def commit(self: InSyncReplicas, *arguments: Any, **more: Any) -> None:
        original(self, *arguments, **more)
        if self._wish is None:
            self._asked = None

    def refused(self: InSyncReplicas, code: str) -> None:
        self._asked = None
        if self._wish is not None and code == "INELIGIBLE_REPLICA":
            self._wish = None

    patch.setattr(InSyncReplicas, "commit", commit)
    patch.setattr(InSyncReplicas, "refused", refused)


# -- admission


def earlier_process_vouches_for_the_next(patch: Patch) -> None:
    """Rule 23: the fetch was by a process that is gone, and the disk with it (KIP-903)."""

    def may_join(self: IsrMembership, follower: Follower) -> bool:
        broker = self._state.brokers.get(follower.broker_id)
        return broker is not None and broker.is_active

    patch.setattr(IsrMembership, "_may_join", may_join)


# -- liveness


def nobody_is_waited_for(patch: Patch) -> None:
    patch.setattr(isr_membership, "JOIN_WAIT_S", 0.0)


def lagging_members_stay(patch: Patch) -> None:
    patch.setattr(Follower, "is_lagging", lambda *_: False)


def the_silent_are_admitted_again(patch: Patch) -> None:
    patch.setattr(Follower, "is_silent", lambda *_: False)


def follower_lags_from_its_last_fetch_on(patch: Patch) -> None:
    """Although the log was quiet since."""

    def log_grows(self: Followers, now: float) -> None:
        for follower in self._at_end:
            follower.is_at_end = False
        self._at_end.clear()

    patch.setattr(Followers, "log_grows", log_grows)


def own_copy_counts_before_it_is_synced(patch: Patch) -> None:
    patch.setattr(OwnCopy, "end_offset", property(lambda self: self._log.log_end_offset))


def conditional_append_looks_for_no_duplicate(patch: Patch) -> None:
    patch.setattr(PartitionLog, "find_duplicate", lambda *_: None)


def conditional_append_looks_at_no_offset(patch: Patch) -> None:
    def append_if(self: Leadership, batch: bytes, expected_offset: Offset) -> Any:
        return self.append(batch, acks_all=True)

    patch.setattr(Leadership, "append_if", append_if)


def recovering_partition_grows(patch: Patch) -> None:
    patch.setattr(isr_membership, "Recovery", _NeverRecovering)


class _NeverRecovering:
    RECOVERING = object()
    NORMAL = Recovery.RECOVERING


def followers_that_have_not_deleted_are_admitted(patch: Patch) -> None:
    def is_complete(self: IsrMembership, follower: Follower) -> bool:
        end = follower.log_end_offset
        return follower.has_fetched and end >= max(self._high_watermark.offset, self._epoch_start_offset)

    patch.setattr(IsrMembership, "_is_complete", is_complete)


def leader_deletes_before_its_followers(patch: Patch) -> None:
    """Nothing goes back by that, but nobody is told where the log begins until they have caught up."""
    patch.setattr(Leadership, "deletable_below", property(lambda self: self.high_watermark))


def members_leave_before_they_know(patch: Patch) -> None:
    """Those that a reassignment takes away: one of them may have led until now."""
    original = IsrMembership._dispensable

    def dispensable(self: IsrMembership, wanted: set[BrokerId]) -> set[BrokerId]:
        is_ready = not self._leaving.isdisjoint(wanted) and self._leader not in self._leaving
        return set(self._leaving) if is_ready else original(self, wanted)

    patch.setattr(IsrMembership, "_dispensable", dispensable)


def _kept_after_a_lost_copy() -> None:
    isr_rules.test_refused_wish_to_add_counts_until_no_copy_of_it_can_be_applied(
        IneligibleReplica("a test"), is_first_copy_lost=True
    )


def _registered_anew_is_not_admitted() -> None:
    isr_rules.test_follower_whose_broker_may_not_join_is_not_admitted(broker_image(3, epoch=104))


def _synced_first() -> Awaitable[None]:
    return storage_rules.test_synced_topics_commit_what_is_on_the_leaders_device_too()


def _retry_of_a_conditional_append() -> Awaitable[None]:
    return storage_rules.test_retry_of_a_conditional_append_gives_the_original_wherever_the_log_ends_by_now()


def _late_conditional_append() -> Awaitable[None]:
    return storage_rules.test_conditional_append_that_comes_too_late_learns_where_the_log_ends()


#: these do harm too rarely, or none but to liveness: each has its own story
FOUND_BY_SCRIPT: Final[list[tuple[Callable[[Patch], None], Callable[[], Awaitable[None] | None]]]] = [
    (
        leader_epoch_is_taken_from_an_answer,
        isr_rules.test_new_leader_epoch_is_not_taken_from_an_answer,
    ),
    (
        members_leave_before_they_know,
        isr_rules.test_member_that_is_to_leave_is_let_go_once_it_has_fetched_in_this_epoch,
    ),
    (
        followers_that_have_not_deleted_are_admitted,
        log_start_rules.test_a_follower_that_has_not_deleted_what_the_leader_has_is_not_admitted,
    ),
    (
        leader_deletes_before_its_followers,
        log_start_rules.test_a_leader_deletes_what_is_gone_at_everybody_who_may_lead_next,
    ),
    (own_copy_counts_before_it_is_synced, _synced_first),
    (conditional_append_looks_for_no_duplicate, _retry_of_a_conditional_append),
    (conditional_append_looks_at_no_offset, _late_conditional_append),
    (
        of_leaders.proposed_members_do_not_count.apply,
        isr_rules.test_follower_that_has_caught_up_is_proposed_and_counts_from_then_on,
    ),
    (
        of_leaders.proposed_members_count_towards_min_isr.apply,
        isr_rules.test_proposed_member_does_not_count_towards_min_isr,
    ),
    (earlier_process_vouches_for_the_next, _registered_anew_is_not_admitted),
    (refusal_takes_the_wish_back_whatever_is_on_its_way, _kept_after_a_lost_copy),
    (
        answer_to_an_earlier_wish_is_taken_for_one_to_the_next,
        isr_rules.test_answer_to_an_earlier_wish_is_not_taken_for_one_to_the_next,
    ),
    (recovering_partition_grows, isr_rules.test_recovering_partition_is_confirmed_before_it_grows),
    (nobody_is_waited_for, isr_rules.test_high_watermark_waits_for_a_follower_that_keeps_pace_and_admits_it),
    (lagging_members_stay, isr_rules.test_follower_that_stops_fetching_is_to_be_removed_and_still_counts),
    (
        the_silent_are_admitted_again,
        isr_rules.test_follower_that_was_put_out_for_its_silence_is_not_admitted_before_it_fetches_again,
    ),
    (follower_lags_from_its_last_fetch_on, isr_rules.test_follower_at_the_end_of_a_quiet_log_does_not_lag),
]


STORIES = tuple(each for each in of_leaders.MUTATIONS if isinstance(each.hunt, StoryHunt))


@pytest.mark.parametrize("mutation", [*of_replicas.MUTATIONS, *STORIES], ids=lambda mutation: mutation.name)
def test_mutation_is_noticed(mutation: Mutation) -> None:
    assert_is_noticed(mutation)


@pytest.mark.parametrize(("mutate", "story"), FOUND_BY_SCRIPT, ids=lambda value: value.__name__)
def test_mutation_is_noticed_by_its_story(
    mutate: Callable[[Patch], None], story: Callable[[], Awaitable[None] | None]
) -> None:
    assert_story_notices(mutate, story)
