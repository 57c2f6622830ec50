"""Mutations of how far a group has come: who may say it, who keeps it, and what members make of the answer.

In whole clusters, with members that are processes: they crash and stand still, coordinators fail over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, cast

from quorate.broker.groups import shard
from quorate.broker.groups.group import Groups
from quorate.broker.groups.loading import load
from quorate.broker.groups.offset_calls import OffsetCalls
from quorate.broker.groups.records import GroupRecord
from quorate.broker.groups.revisions import BEFORE_ALL
from quorate.broker.groups.shard import GroupShard
from quorate.broker.replica.leadership import Leadership
from quorate.chaos.cluster.faults.kinds import Fault
from quorate.chaos.mutations import of_groups
from quorate.chaos.mutations.cluster_hunt import ClusterHunt
from quorate.chaos.mutations.cluster_stories import cluster_story
from quorate.chaos.mutations.group_stories_of_clusters import (
    RETENTION_SETTINGS,
    SESSION_SETTINGS,
    a_coordinator_in_doubt_loads_again,
    a_coordinator_that_was_replaced_says_nothing,
    a_group_is_told_what_has_vanished,
    a_group_is_told_what_retention_has_taken,
    a_member_that_was_cut_off_does_not_take_its_group_back,
    a_partition_that_is_added_is_read_from_its_beginning,
    an_application_that_was_at_work_does_not_take_its_group_back,
)
from quorate.chaos.mutations.mutation import Hunt, Mutation, mutation, mutations_in
from quorate.chaos.mutations.one_owner_story import a_partition_waits_for_who_is_at_work_on_it
from quorate.chaos.sim.patch import Patch
from quorate.client.consumer.group import beginnings, by_hand
from quorate.client.consumer.group.beginnings import Beginnings
from quorate.client.consumer.group.commit_queue import CommitQueue
from quorate.client.consumer.group.origin import GroupOrigin
from quorate.client.consumer.group.session import GroupSession
from quorate.client.consumer.positions import BEGINNING, END, PartitionReader
from quorate.client.groups import committed
from quorate.client.groups.committed import fetch_committed
from quorate.client.groups.coordinator import CoordinatorLink
from quorate.client.groups.offsets import OffsetAndMetadata
from quorate.client.groups.partitions import GroupPartition
from quorate.core.ids import Offset
from quorate.errors import CoordinatorLoadInProgress
from quorate.v1.group_pb2 import CommittedOffset, FetchOffsetsRequest, FetchOffsetsResponse

__all__ = ["MUTATIONS"]

_FAILOVER: Final = (Fault.KILL_LEADER, Fault.KILL_BROKER)
_ALONE: Final = (Fault.CUT_LEADER_FROM_FOLLOWERS, Fault.KILL_LEADER)


# -- what a coordinator knows


@mutation(63, hunt=ClusterHunt(_FAILOVER, is_grouped=True))
def answers_no_offset_while_it_loads(patch: Patch) -> None:
    """As SeaweedFS did: whoever asks too early begins from the start, or at the end."""
    original = OffsetCalls.fetch

    async def fetch(self: OffsetCalls, request: FetchOffsetsRequest) -> FetchOffsetsResponse:
        try:
            return await original(self, request)
        except CoordinatorLoadInProgress:
            offsets = (
                CommittedOffset(topic_id=each.topic_id, topic=each.topic, partition=partition)
                for each in request.partitions
                for partition in each.partitions
            )
            return FetchOffsetsResponse(offsets=offsets)

    patch.setattr(OffsetCalls, "fetch", fetch)


@mutation(63, hunt=ClusterHunt(_FAILOVER, is_grouped=True))
def takes_over_without_a_look_at_the_log(patch: Patch) -> None:
    async def load_nothing(*_: Any) -> Groups:
        return Groups()

    patch.setattr(shard, "load", load_nothing)


@mutation(63, hunt=ClusterHunt(_FAILOVER, is_grouped=True))
def loads_what_it_knows_to_be_committed(patch: Patch) -> None:
    """A new leader learns of that late: what lies between that and its end was answered, perhaps."""

    async def load_less(leadership: Leadership, end_offset: Offset) -> Groups:
        return await load(leadership, min(end_offset, leadership.high_watermark))

    patch.setattr(shard, "load", load_less)


@mutation(53, hunt=ClusterHunt((Fault.KILL_ONE_BY_ONE,), is_grouped=True))
def memory_changes_before_the_log(patch: Patch) -> None:
    """An offset that could not be written down is told to whoever asks, until another coordinates."""
    original = GroupShard.carry_out

    def carry_out(self: GroupShard, records: Sequence[GroupRecord]) -> None:
        self.check_loaded()
        for record in records:
            if record.key.WhichOneof("about") == "offset":
                self.groups.apply(record, BEFORE_ALL)
        original(self, records)

    patch.setattr(GroupShard, "carry_out", carry_out)


@mutation(54, hunt=cluster_story(a_coordinator_in_doubt_loads_again))
def goes_on_after_an_append_of_which_nobody_knows(patch: Patch) -> None:
    def append(self: GroupShard, batch: bytes) -> Offset:
        return self._leadership.append(batch, acks_all=True).base_offset

    patch.setattr(GroupShard, "_append", append)


@mutation(63, 56, hunt=ClusterHunt(_ALONE, is_grouped=True, is_apart=True))
def answers_before_a_commit_is_on_enough_replicas(patch: Patch) -> None:
    async def do_not_wait(*_: Any) -> None:
        pass

    patch.setattr(GroupShard, "_wait_for_commit", do_not_wait)


@mutation(63, 37, hunt=cluster_story(a_coordinator_that_was_replaced_says_nothing))
def answers_when_another_may_coordinate_by_now(patch: Patch) -> None:
    """With offsets that the group has moved on from."""

    async def committed(self: GroupShard, *, is_appended: bool) -> None:
        del is_appended
        await self._wait_for_commit(self._replica.log.log_end_offset)

    patch.setattr(GroupShard, "committed", committed)


# -- what a member makes of it


@mutation(66, 63, hunt=ClusterHunt(_FAILOVER, is_grouped=True))
def takes_loading_for_no_offset(patch: Patch) -> None:
    async def fetch(link: CoordinatorLink, *args: Any, **more: Any) -> Any:
        try:
            return await fetch_committed(cast(CoordinatorLink, _AskedOnce(link)), *args, **more)
        except CoordinatorLoadInProgress:
            return {}

    for module in (beginnings, by_hand):
        patch.setattr(module, "fetch_committed", fetch)


class _AskedOnce:
    """A link that does not try again while a coordinator loads."""

    def __init__(self, link: CoordinatorLink) -> None:
        self._link = link
        self.group = link.group

    async def call(self, method: Any, request: Any, *, timeout_s: float) -> Any:
        try:
            return await self._link.call_once(method, request, timeout_s=timeout_s)
        except CoordinatorLoadInProgress:
            raise
        except Exception:  # noqa: BLE001  # all else as before
            return await self._link.call(method, request, timeout_s=timeout_s)


@mutation(
    62,
    hunt=cluster_story(a_member_that_was_cut_off_does_not_take_its_group_back, settings=SESSION_SETTINGS),
)
def commits_in_another_life_what_it_read_in_this_one(patch: Patch) -> None:
    """In the name of the next incarnation, which has got the partition back: the group is taken back."""
    patch.setattr(CommitQueue, "_drop_what_was_lost", lambda *_: None)


@mutation(
    62,
    hunt=cluster_story(
        an_application_that_was_at_work_does_not_take_its_group_back, settings=SESSION_SETTINGS
    ),
)
def commits_what_was_handed_out_in_another_life(patch: Patch) -> None:
    """The partition is held again, and that the application has not heard of it does not matter."""
    patch.setattr(GroupSession, "tenure_told_of", GroupSession.tenure_of)


@mutation(66, hunt=ClusterHunt((Fault.KILL_BROKER,), is_grouped=True))
def begins_anew_where_the_group_has_been(patch: Patch) -> None:
    """auto_offset_reset counts although an offset is committed."""
    original = Beginnings._reader

    def reader(self: Beginnings, partition: GroupPartition, _: OffsetAndMetadata | None) -> PartitionReader:
        return original(self, partition, None)

    patch.setattr(Beginnings, "_reader", reader)


@mutation(66, hunt=ClusterHunt((Fault.GROW_PARTITIONS,), is_grouped=True))
def begins_at_the_end_where_nothing_is_committed(patch: Patch) -> None:
    """Also where a partition has just been added, and records are in it already."""
    original = Beginnings._reader

    def reader(
        self: Beginnings, partition: GroupPartition, offset: OffsetAndMetadata | None
    ) -> PartitionReader:
        found = original(self, partition, offset)
        if offset is None:
            found.seek_to(END)
        return found

    patch.setattr(Beginnings, "_reader", reader)


@mutation(66, hunt=cluster_story(a_partition_that_is_added_is_read_from_its_beginning))
def latest_is_the_end_of_what_is_added_too(patch: Patch) -> None:
    """As in Kafka: whatever is written before a member hears of the partition is never read."""
    patch.setattr(GroupOrigin, "is_newer", lambda *_: False)


@mutation(66, hunt=cluster_story(a_group_is_told_what_has_vanished))
def committed_offsets_are_not_validated(patch: Patch) -> None:
    """They come without the epoch of the record before them: any record at that offset will do."""

    def offset_alone(message: CommittedOffset) -> OffsetAndMetadata | None:
        return OffsetAndMetadata(message.offset) if message.HasField("offset") else None

    patch.setattr(committed, "offset_from", offset_alone)


@mutation(66, hunt=cluster_story(a_group_is_told_what_retention_has_taken, settings=RETENTION_SETTINGS))
def a_group_goes_on_where_the_log_begins(patch: Patch) -> None:
    """Nobody hears of what it has missed."""

    def out_of_range(self: PartitionReader, *_: object) -> bool:
        self.seek_to(BEGINNING)
        return True

    patch.setattr(PartitionReader, "out_of_range", out_of_range)


# -- what the model of groups finds, too

_SEEN_IN_A_CLUSTER: Final[tuple[tuple[Mutation, Hunt], ...]] = (
    (of_groups.takes_commits_of_whoever_was_removed, ClusterHunt((Fault.PAUSE,), is_grouped=True)),
    (of_groups.gives_what_somebody_holds, cluster_story(a_partition_waits_for_who_is_at_work_on_it)),
)

MUTATIONS: Final[tuple[Mutation, ...]] = (
    *mutations_in(globals()),
    *(replace(each, name=f"{each.name}-in-a-cluster", hunt=hunt) for each, hunt in _SEEN_IN_A_CLUSTER),
)
