"""Each rule that a leader keeps is switched off in turn, and the model's invariants must notice.

A test that cannot fail proves nothing. Every mutant here is a mistake somebody could make, or has made in
another system.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final

import pytest

from quorate.broker.replica import isr_membership, leadership
from quorate.broker.replica.commit_waiters import CommitWaiters
from quorate.broker.replica.followers import Follower, Followers
from quorate.broker.replica.in_sync_replicas import InSyncReplicas
from quorate.broker.replica.isr_membership import IsrMembership
from quorate.broker.replica.leadership import Leadership
from quorate.broker.replica.partition import Partition
from quorate.core.ids import BrokerEpoch, BrokerId, Offset
from quorate.errors import QuorateError
from quorate.metadata.image import Recovery
from quorate.v1.controller_pb2 import PartitionAlterationResult
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
        if self._wish is not None:
            self._wish.is_in_flight = False
            if frees(self, code):
                self._wish = None

    patch.setattr(InSyncReplicas, "refused", refused)


def refusal_takes_the_wish_back_whatever_is_on_its_way(patch: Patch) -> None:
    _refused(patch, lambda self, code: code in ("INELIGIBLE_REPLICA", "OPERATION_NOT_ATTEMPTED"))


def any_refusal_takes_the_wish_back(patch: Patch) -> None:
    _refused(patch, lambda self, code: True)


def wish_without_an_answer_is_forgotten(patch: Patch) -> None:
    def unanswered(self: InSyncReplicas, *, may_be_applied: bool) -> None:
        self._wish = None

    patch.setattr(InSyncReplicas, "unanswered", unanswered)


def wish_is_taken_for_granted(patch: Patch) -> None:
    original = InSyncReplicas.send

    def send(self: InSyncReplicas) -> Any:
        alteration = original(self)
        if alteration is not None:
            self.committed = frozenset(BrokerId(member.broker_id) for member in alteration.isr)
        return alteration

    patch.setattr(InSyncReplicas, "send", send)


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
    """Not unsafe; a slower follower may wait for ever. The unit tests notice."""
    patch.setattr(isr_membership, "JOIN_WAIT_S", 0.0)


def lagging_members_stay(patch: Patch) -> None:
    patch.setattr(Follower, "is_lagging", lambda *_: False)


def caught_up_followers_are_not_admitted(patch: Patch) -> None:
    patch.setattr(IsrMembership, "can_admit", lambda *_: False)


MUTANTS: Final[list[Callable[[Patch], None]]] = [
    older_metadata_is_applied,
    followers_are_carried_over,
    leader_epoch_is_taken_from_an_answer,
    leader_in_an_old_epoch_is_asked,
    diverged_logs_count,
    position_counts_before_it_is_checked,
    proposed_members_do_not_count,
    members_proposed_for_removal_do_not_count,
    high_watermark_follows_the_leader_alone,
    high_watermark_moves_with_too_few_members,
    proposed_members_count_towards_min_isr,
    follower_takes_the_high_watermark_as_it_comes,
    new_leader_knows_the_high_watermark,
    lost_leadership_acknowledges,
    lost_leadership_forgets_who_waits,
    min_isr_is_not_looked_at_after_the_append,
    ended_leadership_goes_on,
    refusal_takes_the_wish_back_whatever_is_on_its_way,
    any_refusal_takes_the_wish_back,
    wish_without_an_answer_is_forgotten,
    wish_is_taken_for_granted,
    incomplete_followers_are_admitted,
    followers_below_the_epochs_start_are_admitted,
    earlier_process_vouches_for_the_next,
    fetches_of_an_earlier_process_count,
    caught_up_followers_are_not_admitted,
]


@pytest.mark.parametrize("mutate", MUTANTS, ids=[mutate.__name__.replace("_", " ") for mutate in MUTANTS])
def test_mutant_is_noticed(mutate: Callable[[Patch], None], monkeypatch: Patch) -> None:
    mutate(monkeypatch)
    with pytest.raises(AssertionError):
        _walk_many()


def _walk_many() -> None:
    for seed in range(_WALKS_MAX):
        walk(seed, steps=_STEPS)
