"""Mutations of leaders and followers: what counts as stored, as committed, as a member (rules 8 to 23)."""

from __future__ import annotations

from typing import Any, Final

from quorate.broker.replica import leadership
from quorate.broker.replica.commit_waiters import CommitWaiters
from quorate.broker.replica.followers import Follower
from quorate.broker.replica.in_sync_replicas import InSyncReplicas
from quorate.broker.replica.isr_membership import IsrMembership
from quorate.broker.replica.leadership import Leadership
from quorate.broker.replica.partition import Partition
from quorate.chaos.mutations.model_hunts import REPLICAS
from quorate.chaos.mutations.mutation import Mutation, mutation, mutations_in
from quorate.chaos.sim.patch import Patch
from quorate.core.ids import BrokerId, Offset
from quorate.errors import QuorateError

__all__ = ["MUTATIONS"]


# -- logs


@mutation(8, 1, hunt=REPLICAS)
def diverged_logs_count(patch: Patch) -> None:
    patch.setattr(leadership, "find_divergence", lambda *_, **__: None)


@mutation(8, hunt=REPLICAS)
def position_counts_before_it_is_checked(patch: Patch) -> None:
    original = Leadership.follower_at

    def follower_at(self: Leadership, broker_id: Any, broker_epoch: Any, offset: Any, *rest: Any) -> Any:
        follower = self._membership.followers.get(broker_id)
        if follower is not None:
            follower.log_end_offset = min(offset, self._log.log_end_offset)
            follower.broker_epoch = broker_epoch
        return original(self, broker_id, broker_epoch, offset, *rest)

    patch.setattr(Leadership, "follower_at", follower_at)


# -- the high watermark


@mutation(13, 26, hunt=REPLICAS)
def members_proposed_for_removal_do_not_count(patch: Patch) -> None:
    def maximal(self: InSyncReplicas) -> frozenset[BrokerId]:
        if self._wish is None:
            return self.committed
        return frozenset(BrokerId(member.broker_id) for member in self._wish.alteration.isr)

    patch.setattr(InSyncReplicas, "maximal", property(maximal))


@mutation(13, hunt=REPLICAS)
def high_watermark_follows_the_leader_alone(patch: Patch) -> None:
    patch.setattr(IsrMembership, "stored_everywhere", lambda self, own_end_offset: own_end_offset)


@mutation(14, hunt=REPLICAS)
def high_watermark_moves_with_too_few_members(patch: Patch) -> None:
    original = Leadership._advance_high_watermark

    def advance(self: Leadership) -> None:
        with Patch() as inner:
            inner.setattr(IsrMembership, "has_enough", True)
            original(self)

    patch.setattr(Leadership, "_advance_high_watermark", advance)


@mutation(18, hunt=REPLICAS)
def follower_takes_the_high_watermark_as_it_comes(patch: Patch) -> None:
    def advance(self: Partition, leader_high_watermark: Offset) -> None:
        self._high_watermark.offset = leader_high_watermark

    patch.setattr(Partition, "advance_high_watermark_from_leader", advance)


@mutation(17, hunt=REPLICAS)
def new_leader_knows_the_high_watermark(patch: Patch) -> None:
    patch.setattr(Leadership, "is_high_watermark_known", True)


# -- outcomes


@mutation(19, hunt=REPLICAS)
def lost_leadership_acknowledges(patch: Patch) -> None:
    def give_up(self: CommitWaiters, error: QuorateError) -> None:
        while self._queue:
            self._queue.popleft().finish(None)

    patch.setattr(CommitWaiters, "give_up", give_up)


@mutation(19, hunt=REPLICAS)
def lost_leadership_forgets_who_waits(patch: Patch) -> None:
    patch.setattr(CommitWaiters, "give_up", lambda self, error: self._queue.clear())


@mutation(15, hunt=REPLICAS)
def min_isr_is_not_looked_at_after_the_append(patch: Patch) -> None:
    patch.setattr(Leadership, "_isr_changed", Leadership._advance_high_watermark)


@mutation(4, 19, hunt=REPLICAS)
def ended_leadership_goes_on(patch: Patch) -> None:
    patch.setattr(Partition, "_end_leadership", lambda self, reason: None)


# -- asking for another ISR


@mutation(22, hunt=REPLICAS)
def wish_without_an_answer_is_forgotten(patch: Patch) -> None:
    def unanswered(self: InSyncReplicas) -> None:
        self._asked = self._wish = None

    patch.setattr(InSyncReplicas, "unanswered", unanswered)


@mutation(21, hunt=REPLICAS)
def wish_is_taken_for_granted(patch: Patch) -> None:
    original = InSyncReplicas.send

    def send(self: InSyncReplicas) -> Any:
        alteration = original(self)
        if alteration is not None:
            self.committed = frozenset(BrokerId(member.broker_id) for member in alteration.isr)
        return alteration

    patch.setattr(InSyncReplicas, "send", send)


# -- admission


@mutation(23, hunt=REPLICAS)
def incomplete_followers_are_admitted(patch: Patch) -> None:
    def is_complete(self: IsrMembership, follower: Follower) -> bool:
        return follower.has_fetched and follower.log_end_offset >= self._epoch_start_offset

    patch.setattr(IsrMembership, "_is_complete", is_complete)


@mutation(23, hunt=REPLICAS)
def followers_below_the_epochs_start_are_admitted(patch: Patch) -> None:
    def is_complete(self: IsrMembership, follower: Follower) -> bool:
        return follower.has_fetched and follower.log_end_offset >= self._high_watermark.offset

    patch.setattr(IsrMembership, "_is_complete", is_complete)


# -- liveness


@mutation(23, hunt=REPLICAS)
def caught_up_followers_are_not_admitted(patch: Patch) -> None:
    patch.setattr(IsrMembership, "can_admit", lambda *_: False)


# -- the log start


@mutation(48, hunt=REPLICAS)
def log_start_is_told_before_it_is_known(patch: Patch) -> None:
    patch.setattr(Leadership, "earliest_offset", lambda self: self.log_start_offset)


@mutation(48, hunt=REPLICAS)
def the_elr_may_have_an_earlier_log_start(patch: Patch) -> None:
    def lowest_log_start(self: IsrMembership) -> Offset:
        return min((each.log_start_offset for each in self._gating), default=Offset(1 << 62))

    patch.setattr(IsrMembership, "lowest_log_start", lowest_log_start)


MUTATIONS: Final[tuple[Mutation, ...]] = mutations_in(globals())
