"""Mutations of leaders, and of brokers that come back: committing, counting, acknowledging.

Most are hunted in the whole cluster; ``of_replicas`` has their kin for the model of replicas, which has no
clients and no disks. Those with a story do harm too rarely to wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final

from quorate.broker.controller_link.lease import Lease
from quorate.broker.controller_link.session import BrokerSession
from quorate.broker.handlers.produce_in_progress import PartitionAppend
from quorate.broker.replica import leadership
from quorate.broker.replica.divergence import Divergence, find_divergence
from quorate.broker.replica.followers import Followers
from quorate.broker.replica.in_sync_replicas import _SURELY_NOT_APPLIED, InSyncReplicas
from quorate.broker.replica.isr_membership import IsrMembership
from quorate.broker.replica.leadership import Leadership
from quorate.broker.replica.own_copy import OwnCopy
from quorate.broker.replica.partition import Partition
from quorate.broker.replicas import Replicas
from quorate.chaos.cluster.faults.kinds import Fault
from quorate.chaos.models.replica_set import leader_stories
from quorate.chaos.mutations import (
    complete_member_story,
    expired_log_story,
    of_elections,
    of_replicas,
    unvouched_log_story,
)
from quorate.chaos.mutations.cluster_hunt import ClusterHunt
from quorate.chaos.mutations.cluster_stories import cluster_story
from quorate.chaos.mutations.hunts import StoryHunt
from quorate.chaos.mutations.mutation import Mutation, mutation, mutations_in
from quorate.chaos.mutations.promise_hunts import PromiseHunt
from quorate.chaos.mutations.unvouched_log_story import LOOKS_OFTEN
from quorate.chaos.sim.patch import Patch
from quorate.core.config import Durability
from quorate.core.ids import NO_LEADER_EPOCH, BrokerEpoch, BrokerId, Offset
from quorate.storage import LogRead, PartitionLog

__all__ = ["MUTATIONS"]

_CUTS: Final = (Fault.CUT_OFF, Fault.CUT_LEADER_FROM_FOLLOWERS, Fault.CUT_LEADER_FROM_CONTROLLERS)


def _story(story: Callable[[], None]) -> StoryHunt:
    return StoryHunt("a leader and its followers' positions", story)


def _deposed(name: str, *cases: tuple[Any, ...]) -> PromiseHunt:
    where = "whole cluster, a leader that was replaced"
    return PromiseHunt(where, "tests.simulation.test_conditional_append", name, cases or ((),))


# -- committing


@mutation(13, hunt=ClusterHunt((Fault.CUT_OFF,)))
def leader_commits_what_it_has_itself(patch: Patch) -> None:
    """The high watermark is the leader's own end."""
    patch.setattr(IsrMembership, "stored_everywhere", lambda _, own_end_offset: own_end_offset)
    patch.setattr(IsrMembership, "is_leader_alone", property(lambda _: True))


@mutation(14, 15, hunt=ClusterHunt((Fault.KILL_ONE_BY_ONE,)))
def leader_commits_with_too_few(patch: Patch) -> None:
    """The high watermark moves whatever the size of the ISR."""
    patch.setattr(IsrMembership, "has_enough", property(lambda _: True))


@mutation(14, hunt=ClusterHunt((Fault.KILL_ONE_BY_ONE,)))
def proposed_members_count_towards_min_isr(patch: Patch) -> None:
    """The high watermark moves as soon as enough are asked for, whatever the controller says."""

    def has_enough(self: IsrMembership) -> bool:
        return len(self.isr.maximal) >= self._state.min_insync_replicas

    patch.setattr(IsrMembership, "has_enough", property(has_enough))


@mutation(13, hunt=ClusterHunt((Fault.KILL_BROKER,)))
def proposed_members_do_not_count(patch: Patch) -> None:
    """One that is asked for may be in the ISR already, and the leader commits without it."""
    patch.setattr(InSyncReplicas, "maximal", property(lambda self: self.committed))


@mutation(15, hunt=_story(leader_stories.too_few_members_refuse_before_the_append))
def min_isr_is_not_looked_at_before_the_append(patch: Patch) -> None:
    """What could have been refused ends as unknown, and may be in the log or not."""
    original = Leadership.append

    def append(self: Leadership, batch: Any, *, acks_all: bool) -> Any:
        del acks_all
        return original(self, batch, acks_all=False)

    patch.setattr(Leadership, "append", append)


@mutation(15, hunt=ClusterHunt((Fault.KILL_LEADER, Fault.CUT_LEADER_FROM_FOLLOWERS)))
def acks_all_is_answered_by_the_leader_alone(patch: Patch) -> None:
    """acks=all is taken for acks=1."""
    patch.setattr(Leadership, "when_committed", Leadership.when_stored)


@mutation(45, 13, hunt=ClusterHunt((Fault.SLOW_DISK, Fault.LOSE_POWER_EVERYWHERE), Durability.FSYNC))
def leader_counts_its_copy_before_the_sync(patch: Patch) -> None:
    """Under durability=fsync the followers sync, and the leader does not."""
    patch.setattr(OwnCopy, "end_offset", property(lambda self: self._log.log_end_offset))


@mutation(17, hunt=ClusterHunt((Fault.CUT_LEADER_FROM_FOLLOWERS, Fault.KILL_LEADER)))
def readers_see_what_is_not_committed(patch: Patch) -> None:
    """A consumer is served up to the end of the leader's log (Redpanda #15112)."""

    def read(self: Leadership, offset: Any, *, bytes_max: int) -> LogRead:
        self._check_leading()
        return self._log.read(offset, bytes_max=bytes_max)

    patch.setattr(Leadership, "read", read)


# -- epochs


@mutation(3, hunt=_story(leader_stories.only_the_current_leader_epoch_is_served))
def leader_serves_whatever_epoch_is_named(patch: Patch) -> None:
    """A follower, or a client, of another leader epoch is served as one of this one."""
    original = Partition.require_leadership
    patch.setattr(Partition, "require_leadership", lambda self, _: original(self, None))


@mutation(4, hunt=_story(leader_stories.an_answer_is_not_undone_by_older_metadata))
def older_metadata_is_applied(patch: Patch) -> None:
    """Answer and metadata race, and whichever comes last counts."""
    original = InSyncReplicas.commit

    def commit(
        self: InSyncReplicas, committed: Collection[BrokerId], partition_epoch: int, *rest: Any, **more: Any
    ) -> None:
        self.partition_epoch = partition_epoch - 1
        original(self, committed, partition_epoch, *rest, **more)

    patch.setattr(InSyncReplicas, "commit", commit)


@mutation(7, hunt=_story(leader_stories.a_follower_counts_only_after_a_fetch_in_this_epoch))
def followers_are_carried_over(patch: Patch) -> None:
    """What a follower had in the last leader epoch of the same broker counts in the next one."""
    original = Leadership.__init__
    last: dict[Any, Followers] = {}

    def init(self: Leadership, topic_partition: Any, partition_log: Any, *rest: Any, **more: Any) -> None:
        original(self, topic_partition, partition_log, *rest, **more)
        membership = self._membership
        membership.followers = last.setdefault(partition_log, membership.followers)
        membership._assign(self._clock.monotonic())

    patch.setattr(Leadership, "__init__", init)


@mutation(22, hunt=_story(leader_stories.a_request_that_is_delivered_twice_admits_nobody))
def refused_wish_is_taken_back_at_once(patch: Patch) -> None:
    """Although another copy of the request may be under way, and find the member eligible (as Kafka does)."""

    def refused(self: InSyncReplicas, code: str) -> None:
        asked, self._asked = self._asked, None
        if asked is not None and asked is self._wish and code in _SURELY_NOT_APPLIED:
            self._wish = None

    patch.setattr(InSyncReplicas, "refused", refused)


@mutation(25, 23, hunt=_story(leader_stories.a_fetch_of_an_earlier_process_does_not_count))
def fetches_of_an_earlier_process_count(patch: Patch) -> None:
    """A fetch counts for the process that is registered by now, whoever has sent it (KIP-903)."""
    original = Leadership.follower_at

    def follower_at(self: Leadership, broker_id: BrokerId, broker_epoch: BrokerEpoch, *rest: Any) -> Any:
        broker = self._state.brokers.get(broker_id)
        if broker is not None and broker.broker_epoch > broker_epoch:
            broker_epoch = broker.broker_epoch
        return original(self, broker_id, broker_epoch, *rest)

    patch.setattr(Leadership, "follower_at", follower_at)


@mutation(
    8,
    18,
    hunt=cluster_story(
        unvouched_log_story.a_log_that_ends_at_the_leaders_start_is_dropped, settings=LOOKS_OFTEN
    ),
)
def leader_vouches_for_what_it_has_deleted(patch: Patch) -> None:
    """It has nothing left of the follower's epoch, and takes a log that ends at its start for a prefix."""
    patch.setattr(PartitionLog, "earliest_leader_epoch", NO_LEADER_EPOCH)


@mutation(
    8,
    33,
    hunt=cluster_story(expired_log_story.what_was_written_since_is_not_passed_over, settings=LOOKS_OFTEN),
)
def leader_takes_an_empty_log_for_a_prefix(patch: Patch) -> None:
    """Also where a leader was forced since, and others have written at the offsets before its end."""
    _judge_differently(patch, is_anything_given_up=False)


@mutation(12, hunt=_story(leader_stories.an_empty_log_that_may_be_elected_stays))
def empty_logs_begin_anew_whoever_may_be_elected(patch: Patch) -> None:
    """With an end below what is committed."""
    _judge_differently(patch, holds_all_committed=lambda: False)


@mutation(
    12,
    49,
    hunt=cluster_story(
        complete_member_story.a_member_that_has_everything_keeps_its_producers, settings=LOOKS_OFTEN
    ),
)
def leader_vouches_for_no_member(patch: Patch) -> None:
    """Whoever ends in an epoch that the leader has deleted begins anew, and forgets its producers."""
    _judge_differently(patch, holds_all_committed=lambda: False)


@mutation(25, 30, hunt=_story(leader_stories.a_process_that_nobody_has_heard_of_is_not_vouched_for))
def leader_vouches_for_a_process_that_it_has_not_heard_of(patch: Patch) -> None:
    """Its start may have cost it its place, and what it held."""
    patch.setattr(
        IsrMembership, "holds_all_committed", lambda self, broker_id, _: broker_id in self._electable
    )


def _judge_differently(patch: Patch, **instead: object) -> None:
    """By other facts than the metadata's."""
    original: Callable[..., Divergence | None] = find_divergence
    patch.setattr(leadership, "find_divergence", lambda *log, **facts: original(*log, **{**facts, **instead}))


# -- the ISR


@mutation(21, hunt=ClusterHunt(_CUTS))
def leader_shrinks_its_isr_by_itself(patch: Patch) -> None:
    """What it has asked the controller for counts at once."""
    of_replicas.wish_is_taken_for_granted.apply(patch)


@mutation(26, 13, hunt=ClusterHunt(_CUTS))
def members_to_be_removed_do_not_count(patch: Patch) -> None:
    """As if a removal were accepted as soon as it is asked for."""
    of_replicas.members_proposed_for_removal_do_not_count.apply(patch)


@mutation(22, hunt=_story(leader_stories.a_wish_is_kept_while_it_may_be_granted))
def any_refusal_takes_the_wish_back(patch: Patch) -> None:
    """Also one that says nothing about whether an earlier copy of the request was granted."""

    def refused(self: InSyncReplicas, _: str) -> None:
        self._asked = self._wish = None

    patch.setattr(InSyncReplicas, "refused", refused)


# -- elections and starts


@mutation(27, hunt=ClusterHunt((Fault.KILL_ONE_BY_ONE,)))
def unclean_election_is_on(patch: Patch) -> None:
    """Somebody leads rather than nobody, whoever asked for it."""
    of_elections.elects_uncleanly_without_leave.apply(patch)


# -- answers


@mutation(19, hunt=ClusterHunt((Fault.PAUSE_LEADER, Fault.CUT_LEADER_FROM_FOLLOWERS)))
def lost_leadership_acknowledges_what_waits(patch: Patch) -> None:
    """A produce request that was pending ends as done."""
    concluded = PartitionAppend.concluded
    patch.setattr(PartitionAppend, "concluded", lambda self, _: concluded(self, None))


@mutation(20, hunt=ClusterHunt((Fault.KILL_LEADER, Fault.LOSE_ANSWERS)))
def acknowledgement_carries_offset_zero(patch: Patch) -> None:
    """Of a retry, whose offset somebody forgot to look up (Bufstream)."""
    appended = PartitionAppend.appended

    def forget(self: PartitionAppend, result: Any, *rest: Any) -> None:
        appended(self, result._replace(base_offset=0) if result.is_duplicate else result, *rest)

    patch.setattr(PartitionAppend, "appended", forget)


@mutation(37, hunt=ClusterHunt((Fault.PAUSE_LEADER, Fault.CUT_LEADER_FROM_CONTROLLERS), is_competition=True))
def lease_never_ends(patch: Patch) -> None:
    """A leader that was deposed, and does not know, answers alone."""
    patch.setattr(Lease, "is_valid", property(lambda _: True))


@mutation(
    37, 19, hunt=_deposed("test_a_leader_resumed_from_a_pause_refuses_nothing_with_what_it_knew_before")
)
def refusals_need_no_lease(patch: Patch) -> None:
    """A leader that was paused and replaced refuses with an offset that is long passed."""
    refused_at = PartitionAppend.refused_at

    def need_no_lease(self: PartitionAppend, log_end_offset: Offset) -> None:
        refused_at(self, log_end_offset)
        self.needs_lease = False

    patch.setattr(PartitionAppend, "refused_at", need_no_lease)


@mutation(
    37,
    hunt=_deposed(
        "test_a_leader_that_stops_and_has_not_heard_of_the_next_one_refuses_nothing",
        *((seed,) for seed in range(1, 20)),
    ),
)
def lease_is_kept_while_stopping(patch: Patch) -> None:
    """A leader that has asked to stop, and has not heard that another one leads, answers on."""
    patch.setattr(Lease, "revoke", lambda _: None)


@mutation(44, hunt=ClusterHunt((Fault.ROT,), is_apart=True))
def failed_replica_is_told_to_nobody(patch: Patch) -> None:
    """It plays no part any more, and is counted with those that do."""
    patch.setattr(BrokerSession, "report_damaged", lambda *_: None)


@mutation(44, hunt=ClusterHunt((Fault.ROT,), is_apart=True, is_compacted=True))
def damage_that_compaction_finds_is_told_to_nobody(patch: Patch) -> None:
    """As long as nobody reads there, the replica is counted on."""
    patch.setattr(Replicas, "found_damaged", lambda *_: None)


MUTATIONS: Final[tuple[Mutation, ...]] = mutations_in(globals())
