"""Each rule that a leader keeps is switched off in turn, and the model's invariants must notice.

A test that cannot fail proves nothing. Every mutant here is a mistake somebody could make, or has made in
another system.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any, Final

import pytest

from quorate.broker.replica import isr_membership, leadership
from quorate.broker.replica.commit_waiters import CommitWaiters
from quorate.broker.replica.followers import Follower, Followers
from quorate.broker.replica.in_sync_replicas import InSyncReplicas
from quorate.broker.replica.isr_membership import IsrMembership
from quorate.broker.replica.leadership import Leadership
from quorate.broker.replica.own_copy import OwnCopy
from quorate.broker.replica.partition import Partition
from quorate.core.ids import BrokerEpoch, BrokerId, Offset
from quorate.errors import IneligibleReplica, InvalidUpdateVersion, QuorateError
from quorate.metadata.image import Recovery
from quorate.storage import PartitionLog
from quorate.v1.controller_pb2 import PartitionAlterationResult
from tests.unit.replica import test_replica_isr as isr_rules
from tests.unit.replica import test_replica_leadership as leadership_rules
from tests.unit.replica import test_replica_storage as storage_rules
from tests.unit.replica.replica_harness import broker_image
from tests.unit.replica.replica_model import walk

Patch = pytest.MonkeyPatch

_WALKS_MAX: Final = 200
_STEPS: Final = 300


# -- epochs


def older_metadata_is_applied(patch: Patch) -> None:
    def commit(
        self: InSyncReplicas, committed: Collection[BrokerId], partition_epoch: int, recovery: Recovery
    ) -> None:
        self.committed = frozenset(committed)
        self.partition_epoch = partition_epoch
        self.recovery = recovery
        self._wish = None

    patch.setattr(InSyncReplicas, "commit", commit)


def followers_are_carried_over(patch: Patch) -> None:
    """Into the next leader epoch of the same broker (rule 7)."""
    original = Leadership.__init__
    last: dict[Any, Followers] = {}

    def init(self: Leadership, topic_partition: Any, partition_log: Any, *rest: Any, **more: Any) -> None:
        original(self, topic_partition, partition_log, *rest, **more)
        known = last.get(partition_log)
        if known is not None:
            for follower in self._membership.followers:
                before = known.get(follower.broker_id)
                if before is not None:
                    follower.log_end_offset = before.log_end_offset
                    follower.broker_epoch = before.broker_epoch
        last[partition_log] = self._membership.followers

    patch.setattr(Leadership, "__init__", init)


def leader_epoch_is_taken_from_an_answer(patch: Patch) -> None:
    original = Leadership.alteration_answered

    def answered(self: Leadership, result: PartitionAlterationResult) -> None:
        if result.leader_epoch > self.epoch:
            result.leader_epoch = self.epoch
        original(self, result)

    patch.setattr(Leadership, "alteration_answered", answered)


def leader_in_an_old_epoch_is_asked(patch: Patch) -> None:
    """Rule 3."""
    original = Partition.require_leadership
    patch.setattr(Partition, "require_leadership", lambda self, _: original(self, None))


# -- logs


def diverged_logs_count(patch: Patch) -> None:
    patch.setattr(leadership, "find_divergence", lambda *_: None)


def position_counts_before_it_is_checked(patch: Patch) -> None:
    original = Leadership.follower_at

    def follower_at(self: Leadership, broker_id: Any, broker_epoch: Any, offset: Any, last_epoch: Any) -> Any:
        follower = self._membership.followers.get(broker_id)
        if follower is not None:
            follower.log_end_offset = min(offset, self._log.log_end_offset)
            follower.broker_epoch = broker_epoch
        return original(self, broker_id, broker_epoch, offset, last_epoch)

    patch.setattr(Leadership, "follower_at", follower_at)


# -- the high watermark


def proposed_members_do_not_count(patch: Patch) -> None:
    patch.setattr(InSyncReplicas, "maximal", property(lambda self: self.committed))


def members_proposed_for_removal_do_not_count(patch: Patch) -> None:
    def maximal(self: InSyncReplicas) -> frozenset[BrokerId]:
        if self._wish is None:
            return self.committed
        return frozenset(BrokerId(member.broker_id) for member in self._wish.alteration.isr)

    patch.setattr(InSyncReplicas, "maximal", property(maximal))


def high_watermark_follows_the_leader_alone(patch: Patch) -> None:
    patch.setattr(IsrMembership, "stored_everywhere", lambda self, own_end_offset: own_end_offset)


def high_watermark_moves_with_too_few_members(patch: Patch) -> None:
    original = Leadership._advance_high_watermark

    def advance(self: Leadership) -> None:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(IsrMembership, "has_enough", True)
            original(self)

    patch.setattr(Leadership, "_advance_high_watermark", advance)


def proposed_members_count_towards_min_isr(patch: Patch) -> None:
    patch.setattr(
        IsrMembership,
        "has_enough",
        property(lambda self: len(self.isr.maximal) >= self._state.min_insync_replicas),
    )


def follower_takes_the_high_watermark_as_it_comes(patch: Patch) -> None:
    def advance(self: Partition, leader_high_watermark: Offset) -> None:
        self._high_watermark.offset = leader_high_watermark

    patch.setattr(Partition, "advance_high_watermark_from_leader", advance)


def new_leader_knows_the_high_watermark(patch: Patch) -> None:
    patch.setattr(Leadership, "is_high_watermark_known", True)


# -- outcomes


def lost_leadership_acknowledges(patch: Patch) -> None:
    def give_up(self: CommitWaiters, error: QuorateError) -> None:
        while self._queue:
            self._queue.popleft().finish(None)

    patch.setattr(CommitWaiters, "give_up", give_up)


def lost_leadership_forgets_who_waits(patch: Patch) -> None:
    patch.setattr(CommitWaiters, "give_up", lambda self, error: self._queue.clear())


def min_isr_is_not_looked_at_after_the_append(patch: Patch) -> None:
    patch.setattr(Leadership, "_isr_changed", Leadership._advance_high_watermark)


def ended_leadership_goes_on(patch: Patch) -> None:
    patch.setattr(Partition, "_end_leadership", lambda self, reason: None)


# -- asking for another ISR


def _refused(patch: Patch, frees: Callable[[InSyncReplicas, str], bool]) -> None:
    def refused(self: InSyncReplicas, code: str) -> None:
        self._asked = None
        if self._wish is not None and frees(self, code):
            self._wish = None

    patch.setattr(InSyncReplicas, "refused", refused)


def refusal_takes_the_wish_back_whatever_is_on_its_way(patch: Patch) -> None:
    _refused(patch, lambda self, code: code in ("INELIGIBLE_REPLICA", "OPERATION_NOT_ATTEMPTED"))


def any_refusal_takes_the_wish_back(patch: Patch) -> None:
    _refused(patch, lambda self, code: True)


def wish_without_an_answer_is_forgotten(patch: Patch) -> None:
    def unanswered(self: InSyncReplicas, *, may_be_applied: bool) -> None:
        self._asked = self._wish = None

    patch.setattr(InSyncReplicas, "unanswered", unanswered)


def wish_is_taken_for_granted(patch: Patch) -> None:
    original = InSyncReplicas.send

    def send(self: InSyncReplicas) -> Any:
        alteration = original(self)
        if alteration is not None:
            self.committed = frozenset(BrokerId(member.broker_id) for member in alteration.isr)
        return alteration

    patch.setattr(InSyncReplicas, "send", send)


def answer_to_an_earlier_wish_is_taken_for_one_to_the_next(patch: Patch) -> None:
    original = InSyncReplicas.commit

    def commit(self: InSyncReplicas, *arguments: Any) -> None:
        original(self, *arguments)
        if self._wish is None:
            self._asked = None

    def refused(self: InSyncReplicas, code: str) -> None:
        self._asked = None
        if self._wish is not None and not self._wish.is_copy_lost and code == "INELIGIBLE_REPLICA":
            self._wish = None

    patch.setattr(InSyncReplicas, "commit", commit)
    patch.setattr(InSyncReplicas, "refused", refused)


# -- admission


def incomplete_followers_are_admitted(patch: Patch) -> None:
    def is_complete(self: IsrMembership, follower: Follower) -> bool:
        return follower.has_fetched and follower.log_end_offset >= self._epoch_start_offset

    patch.setattr(IsrMembership, "_is_complete", is_complete)


def followers_below_the_epochs_start_are_admitted(patch: Patch) -> None:
    def is_complete(self: IsrMembership, follower: Follower) -> bool:
        return follower.has_fetched and follower.log_end_offset >= self._high_watermark.offset

    patch.setattr(IsrMembership, "_is_complete", is_complete)


def earlier_process_vouches_for_the_next(patch: Patch) -> None:
    """Rule 23: the fetch was by a process that is gone, and the disk with it (KIP-903)."""

    def may_join(self: IsrMembership, follower: Follower) -> bool:
        broker = self._state.brokers.get(follower.broker_id)
        return broker is not None and broker.is_active

    patch.setattr(IsrMembership, "_may_join", may_join)


def fetches_of_an_earlier_process_count(patch: Patch) -> None:
    """Rule 25, and the follower then counts with the epoch that is registered."""
    original = Leadership.follower_at

    def follower_at(self: Leadership, broker_id: BrokerId, broker_epoch: BrokerEpoch, *rest: Any) -> Any:
        broker = self._state.brokers.get(broker_id)
        if broker is not None and broker.broker_epoch > broker_epoch:
            broker_epoch = broker.broker_epoch
        return original(self, broker_id, broker_epoch, *rest)

    patch.setattr(Leadership, "follower_at", follower_at)


# -- liveness


def nobody_is_waited_for(patch: Patch) -> None:
    patch.setattr(isr_membership, "JOIN_WAIT_S", 0.0)


def lagging_members_stay(patch: Patch) -> None:
    patch.setattr(Follower, "is_lagging", lambda *_: False)


def follower_lags_from_its_last_fetch_on(patch: Patch) -> None:
    """Although the log was quiet since."""

    def log_grows(self: Followers, now: float) -> None:
        for follower in self._at_end:
            follower.is_at_end = False
        self._at_end.clear()

    patch.setattr(Followers, "log_grows", log_grows)


def min_isr_is_not_looked_at_before_the_append(patch: Patch) -> None:
    original = Leadership.append
    patch.setattr(
        Leadership, "append", lambda self, batch, *, acks_all: original(self, batch, acks_all=False)
    )


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


def caught_up_followers_are_not_admitted(patch: Patch) -> None:
    patch.setattr(IsrMembership, "can_admit", lambda *_: False)


def members_leave_before_they_know(patch: Patch) -> None:
    """Those that a reassignment takes away: one of them may have led until now."""
    original = IsrMembership._dispensable

    def dispensable(self: IsrMembership, wanted: set[BrokerId]) -> set[BrokerId]:
        is_ready = not self._leaving.isdisjoint(wanted) and self._leader not in self._leaving
        return set(self._leaving) if is_ready else original(self, wanted)

    patch.setattr(IsrMembership, "_dispensable", dispensable)


#: the walk finds these by itself
FOUND_BY_WALKING: Final[list[Callable[[Patch], None]]] = [
    diverged_logs_count,
    position_counts_before_it_is_checked,
    members_proposed_for_removal_do_not_count,
    high_watermark_follows_the_leader_alone,
    high_watermark_moves_with_too_few_members,
    follower_takes_the_high_watermark_as_it_comes,
    new_leader_knows_the_high_watermark,
    lost_leadership_acknowledges,
    lost_leadership_forgets_who_waits,
    min_isr_is_not_looked_at_after_the_append,
    ended_leadership_goes_on,
    wish_without_an_answer_is_forgotten,
    wish_is_taken_for_granted,
    incomplete_followers_are_admitted,
    followers_below_the_epochs_start_are_admitted,
    caught_up_followers_are_not_admitted,
]


def _kept_after_a_lost_copy() -> None:
    isr_rules.test_wish_counts_while_an_earlier_copy_may_be_on_its_way_and_is_withdrawn(
        IneligibleReplica("a test")
    )


def _kept_after_another_error() -> None:
    isr_rules.test_wish_is_kept_after_any_other_error(InvalidUpdateVersion("a test"))


def _registered_anew_is_not_admitted() -> None:
    isr_rules.test_follower_whose_broker_may_not_join_is_not_admitted(broker_image(3, epoch=104))


def _synced_first() -> None:
    asyncio.run(storage_rules.test_synced_topics_commit_what_is_on_the_leaders_device_too())


def _retry_of_a_conditional_append() -> None:
    asyncio.run(
        storage_rules.test_retry_of_a_conditional_append_gives_the_original_wherever_the_log_ends_by_now()
    )


def _late_conditional_append() -> None:
    asyncio.run(storage_rules.test_conditional_append_that_comes_too_late_learns_where_the_log_ends())


#: these do harm too rarely, or none but to liveness: each has its own story
FOUND_BY_SCRIPT: Final[list[tuple[Callable[[Patch], None], Callable[[], None]]]] = [
    (
        leader_epoch_is_taken_from_an_answer,
        isr_rules.test_new_leader_epoch_is_not_taken_from_an_answer,
    ),
    (
        members_leave_before_they_know,
        isr_rules.test_member_that_is_to_leave_is_let_go_once_it_has_fetched_in_this_epoch,
    ),
    (own_copy_counts_before_it_is_synced, _synced_first),
    (conditional_append_looks_for_no_duplicate, _retry_of_a_conditional_append),
    (conditional_append_looks_at_no_offset, _late_conditional_append),
    (any_refusal_takes_the_wish_back, _kept_after_another_error),
    (fetches_of_an_earlier_process_count, leadership_rules.test_fetch_of_an_earlier_process_is_refused),
    (
        proposed_members_do_not_count,
        isr_rules.test_follower_that_has_caught_up_is_proposed_and_counts_from_then_on,
    ),
    (
        proposed_members_count_towards_min_isr,
        isr_rules.test_proposed_member_does_not_count_towards_min_isr,
    ),
    (older_metadata_is_applied, leadership_rules.test_answer_is_not_undone_by_older_metadata),
    (earlier_process_vouches_for_the_next, _registered_anew_is_not_admitted),
    (
        followers_are_carried_over,
        leadership_rules.test_follower_counts_only_after_a_fetch_in_this_leader_epoch,
    ),
    (leader_in_an_old_epoch_is_asked, leadership_rules.test_only_the_current_leader_epoch_is_served),
    (refusal_takes_the_wish_back_whatever_is_on_its_way, _kept_after_a_lost_copy),
    (
        answer_to_an_earlier_wish_is_taken_for_one_to_the_next,
        isr_rules.test_answer_to_an_earlier_wish_is_not_taken_for_one_to_the_next,
    ),
    (
        min_isr_is_not_looked_at_before_the_append,
        leadership_rules.test_too_few_members_refuse_the_append_before_anything_is_written,
    ),
    (recovering_partition_grows, isr_rules.test_recovering_partition_is_confirmed_before_it_grows),
    (nobody_is_waited_for, isr_rules.test_high_watermark_waits_for_a_follower_that_keeps_pace_and_admits_it),
    (lagging_members_stay, isr_rules.test_follower_that_stops_fetching_is_to_be_removed_and_still_counts),
    (follower_lags_from_its_last_fetch_on, isr_rules.test_follower_at_the_end_of_a_quiet_log_does_not_lag),
]


def _name(mutate: Callable[[Patch], None]) -> str:
    return mutate.__name__.replace("_", " ")


@pytest.mark.parametrize("mutate", FOUND_BY_WALKING, ids=_name)
def test_mutant_is_noticed_by_the_walk(mutate: Callable[[Patch], None], monkeypatch: Patch) -> None:
    mutate(monkeypatch)
    with pytest.raises(AssertionError):
        _walk_many()


def _walk_many() -> None:
    for seed in range(_WALKS_MAX):
        walk(seed, steps=_STEPS)


@pytest.mark.parametrize(
    ("mutate", "check"), FOUND_BY_SCRIPT, ids=[_name(mutate) for mutate, _ in FOUND_BY_SCRIPT]
)
def test_mutant_is_noticed_by_its_script(
    mutate: Callable[[Patch], None], check: Callable[[], None], monkeypatch: Patch
) -> None:
    check()
    mutate(monkeypatch)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        check()
