"""Mutations of followers: what they cut, believe, acknowledge, drop and report (rules 8 to 12, 16 and 44)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from quorate.broker.replica import partition as replicas
from quorate.broker.replica.partition import Partition
from quorate.broker.replication import following, leader_fetcher
from quorate.broker.replication.following import (
    NAME_POSITION,
    NamePosition,
    Next,
    ResetTo,
    Sync,
    TruncateTo,
    TryAgain,
)
from quorate.broker.replication.leader_fetcher import LeaderFetcher
from quorate.chaos.cluster.faults.kinds import Fault
from quorate.chaos.models.follower import follower_stories
from quorate.chaos.mutations import unvouched_log_story
from quorate.chaos.mutations.cluster_hunt import ClusterHunt
from quorate.chaos.mutations.cluster_stories import cluster_story
from quorate.chaos.mutations.damaged_log_story import a_damaged_log_is_kept_while_it_may_be_elected
from quorate.chaos.mutations.given_up_records_story import what_was_given_up_is_not_shown
from quorate.chaos.mutations.hunts import StoryHunt
from quorate.chaos.mutations.mutation import Mutation, mutation, mutations_in
from quorate.chaos.mutations.unvouched_log_story import LOOKS_OFTEN
from quorate.chaos.sim.patch import Patch
from quorate.core.config import Durability
from quorate.core.ids import BrokerId, LeaderEpoch, Offset, PartitionId, ReplicaKey, TopicId
from quorate.rpc.error_detail import error_from_detail
from quorate.v1.replica_pb2 import FollowerPosition, ReplicaUpdate

__all__ = ["MUTATIONS"]

_KILLS: Final = (Fault.KILL_BROKER, Fault.KILL_ALL_BROKERS, Fault.KILL_LEADER)


def _story(story: Callable[[], None]) -> StoryHunt:
    return StoryHunt("a follower and a leader by script", story)


def _follow_differently(patch: Patch, change: Callable[[Partition, Next], Next]) -> None:
    """Have a follower do something else than what is due."""
    proceed = LeaderFetcher._proceed

    def proceed_differently(self: LeaderFetcher, followed: Any, due: Next) -> None:
        proceed(self, followed, change(followed.partition, due))

    patch.setattr(LeaderFetcher, "_proceed", proceed_differently)


# -- cutting


@mutation(8, hunt=ClusterHunt(_KILLS))
def follower_cuts_to_its_high_watermark(patch: Patch) -> None:
    """In each leader epoch a follower first drops what it does not know to be committed (before KIP-101)."""
    cut_in: dict[Partition, LeaderEpoch] = {}

    def cut_first(partition: Partition, due: Next) -> Next:
        is_cut = cut_in.get(partition) == partition.leader_epoch
        if not isinstance(due, NamePosition | Sync) or is_cut:
            return due
        cut_in[partition] = partition.leader_epoch
        is_longer = partition.high_watermark < partition.log.log_end_offset
        return TruncateTo(partition.high_watermark) if is_longer else due

    _follow_differently(patch, cut_first)


@mutation(9, hunt=ClusterHunt((*_KILLS, Fault.CUT_OFF)))
def follower_cuts_when_a_question_fails(patch: Patch) -> None:
    """A question without an answer is answered by the follower itself: its high watermark (Liftbridge)."""

    def refused(partition: Partition, update: ReplicaUpdate) -> Next:
        del update
        is_longer = partition.high_watermark < partition.log.log_end_offset
        return TruncateTo(partition.high_watermark) if is_longer else NAME_POSITION

    patch.setattr(following, "_refused", refused)


@mutation(10, hunt=_story(follower_stories.an_answer_of_an_older_epoch_is_dropped))
def follower_believes_answers_of_any_epoch(patch: Patch) -> None:
    """An answer that was asked for in an earlier leader epoch is obeyed."""

    def take(self: LeaderFetcher, update: ReplicaUpdate) -> None:
        followed = self._followed.get(ReplicaKey(TopicId(update.topic_id), PartitionId(update.partition)))
        if followed is not None:
            self._proceed(followed, following.take_update(followed.partition, update))

    patch.setattr(LeaderFetcher, "_take", take)


@mutation(11, hunt=_story(follower_stories.a_cut_below_the_high_watermark_is_refused))
def follower_obeys_any_cut(patch: Patch) -> None:
    """A demand to cut below the own high watermark is obeyed. Without a bug elsewhere nobody demands it."""
    patch.setattr(following, "crosses_unclean_epoch", lambda *_, **__: True)


@mutation(11, hunt=ClusterHunt((Fault.RECOVER_PARTITION,), is_apart=True))
def follower_refuses_what_an_operator_has_decided(patch: Patch) -> None:
    """It keeps what was committed once, though the metadata says that it was given up."""
    patch.setattr(following, "crosses_unclean_epoch", lambda *_, **__: False)


@mutation(12, hunt=_story(follower_stories.a_follower_before_the_leaders_start_begins_anew))
def follower_never_begins_anew(patch: Patch) -> None:
    """One that ends before the leader's log begins asks for ever."""
    patch.setattr(following, "_refused", lambda _, update: TryAgain(error_from_detail(update.error)))


@mutation(12, 8, hunt=cluster_story(unvouched_log_story.a_longer_log_is_dropped, settings=LOOKS_OFTEN))
def follower_keeps_what_its_leader_has_deleted(patch: Patch) -> None:
    """Its log is cut where the leader's begins, and nobody vouches for what is left."""
    original = following._diverged

    def diverged(partition: Partition, update: ReplicaUpdate) -> Next:
        update.log_start_offset = min(update.log_start_offset, partition.log.log_start_offset)
        return original(partition, update)

    patch.setattr(following, "_diverged", diverged)


@mutation(12, 49, hunt=_story(follower_stories.what_a_leader_vouches_for_is_kept))
def follower_begins_anew_before_it_has_cut(patch: Patch) -> None:
    """It drops all it has, producers too, where the leader has said no more than that a part has to go."""
    _begin_anew_where_cut(patch, lambda _, update, offset: offset == update.log_start_offset)


@mutation(12, 49, hunt=_story(follower_stories.an_epoch_without_records_is_no_reason_to_begin_anew))
def follower_begins_anew_for_an_epoch_without_records(patch: Patch) -> None:
    """It is told to be cut at its end, where only an epoch goes that has no batch, and drops its log."""
    _begin_anew_where_cut(patch, lambda partition, _, offset: offset == partition.log.log_end_offset)


def _begin_anew_where_cut(patch: Patch, is_meant: Callable[[Partition, ReplicaUpdate, Offset], bool]) -> None:
    original = following._diverged

    def diverged(partition: Partition, update: ReplicaUpdate) -> Next:
        due = original(partition, update)
        if isinstance(due, TruncateTo) and is_meant(partition, update, due.offset):
            return ResetTo(Offset(update.log_start_offset))
        return due

    patch.setattr(following, "_diverged", diverged)


@mutation(18, 11, hunt=cluster_story(what_was_given_up_is_not_shown))
def follower_shows_what_was_given_up(patch: Patch) -> None:
    """It was committed once, and the leader was forced: that the leader lacks it, it has not said yet."""
    patch.setattr(replicas, "crosses_unclean_epoch", lambda *_, **__: False)


# -- acknowledging


@mutation(16, hunt=ClusterHunt((Fault.LOSE_POWER_EVERYWHERE,), Durability.FSYNC))
def follower_acknowledges_before_the_sync(patch: Patch) -> None:
    """A position is named when its records are in the page cache, under durability=fsync too."""
    _follow_differently(patch, lambda _, due: NAME_POSITION if isinstance(due, Sync) else due)


@mutation(16, 45, hunt=_story(follower_stories.a_position_that_waited_is_not_named_before_the_sync))
def position_that_waited_is_named_whatever_is_due(patch: Patch) -> None:
    """What was to be named in the last epoch is named in this one, where the log is to be synced first."""

    def position_to_send(self: LeaderFetcher, key: ReplicaKey) -> FollowerPosition | None:
        followed = self._followed.get(key)
        if followed is None or not self._is_current(followed):
            return None
        followed.state = leader_fetcher._State.NAMED
        return following.position_of(followed.partition, followed.leader_epoch)

    patch.setattr(LeaderFetcher, "_position_to_send", position_to_send)


@mutation(16, hunt=ClusterHunt((Fault.CUT_OFF, Fault.KILL_LEADER)))
def follower_names_what_it_was_only_sent(patch: Patch) -> None:
    """A position that counts what is on its way as stored."""
    original = following.position_of

    def position_of(partition: Partition, leader_epoch: LeaderEpoch) -> Any:
        position = original(partition, leader_epoch)
        position.fetch_offset = Offset(position.fetch_offset + 1)
        return position

    patch.setattr(leader_fetcher, "position_of", position_of)


# -- dropping


@mutation(44, hunt=cluster_story(a_damaged_log_is_kept_while_it_may_be_elected))
def damaged_log_is_dropped_at_once(patch: Patch) -> None:
    """Although the replica is in ISR or ELR, and may be elected with what is left."""

    def may_refetch(partition: Partition, _: BrokerId) -> bool:
        return partition.log.damage is not None

    patch.setattr(leader_fetcher, "may_refetch", may_refetch)


# -- reporting


@mutation(
    44, hunt=_story(follower_stories.a_failing_disk_is_reported_in_each_epoch_that_counts_on_the_replica)
)
def failing_disk_is_told_in_one_leader_epoch_only(patch: Patch) -> None:
    """The report may have come too late for that one, and is void in the next."""
    patch.setattr(Partition, "_counts_for_another_leader", lambda _self, _image: False)


MUTATIONS: Final[tuple[Mutation, ...]] = mutations_in(globals())
