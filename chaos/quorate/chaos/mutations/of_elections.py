"""Mutations of whom the controller elects, what it remembers of ISRs, and what an operator may force."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Final

from quorate.chaos.models.controller.offsets_topic_story import offsets_wait_for_their_last_copy
from quorate.chaos.models.controller.recovery_story import (
    expired_records_count,
    the_last_epoch_counts_before_the_length,
)
from quorate.chaos.mutations.hunts import StoryHunt
from quorate.chaos.mutations.model_hunts import CONTROLLER
from quorate.chaos.mutations.mutation import Mutation, mutation, mutations_in
from quorate.chaos.sim.patch import Patch
from quorate.controller import (
    alter_partition,
    brokers,
    departures,
    elections,
    partition_change,
    recover,
)
from quorate.controller.departures import Piece
from quorate.controller.elections import Assignment, Elections
from quorate.core.ids import BrokerId, LeaderEpoch
from quorate.metadata import topic_settings
from quorate.metadata.image import NO_LEADER, MetadataImage, PartitionImage

__all__ = ["MUTATIONS", "change_with"]


# -- elections


@mutation(27, 1, hunt=CONTROLLER)
def elects_outside_the_isr(patch: Patch) -> None:
    _elect_if_nobody(patch, lambda before: before.replicas)


@mutation(33, hunt=CONTROLLER)
def elects_the_last_known_leader(patch: Patch) -> None:
    _elect_if_nobody(patch, lambda before: before.last_known_elr)


def _elect_if_nobody(patch: Patch, candidates: Callable[[PartitionImage], tuple[BrokerId, ...]]) -> None:
    original = Elections._elect

    def elect(self: Elections, before: PartitionImage, *rest: Any) -> elections._Outcome:
        outcome = original(self, before, *rest)
        found = [each for each in candidates(before) if each in self.active]
        if outcome.leader != NO_LEADER or not found:
            return outcome
        return elections._Outcome(found[0], (found[0],))

    waits = Elections.waits_for_leader

    def waits_for_leader(self: Elections, partition: PartitionImage) -> bool:
        """Asked before any election, when a broker comes back: with the answer of old nobody is elected."""
        is_found = partition.leader == NO_LEADER and not self.active.isdisjoint(candidates(partition))
        return is_found or waits(self, partition)

    patch.setattr(Elections, "_elect", elect)
    patch.setattr(Elections, "waits_for_leader", waits_for_leader)


@mutation(27, hunt=CONTROLLER)
def elects_uncleanly_without_leave(patch: Patch) -> None:
    patch.setattr(elections, "unclean_election_enabled", lambda *_: True)


@mutation(27, hunt=StoryHunt("a controller and what brokers hold", offsets_wait_for_their_last_copy))
def offsets_are_given_up_by_the_clusters_setting(patch: Patch) -> None:
    """It is meant for the topics of whoever sets it."""
    patch.setattr(topic_settings, "INTERNAL_TOPICS", frozenset())


@mutation(36, hunt=CONTROLLER)
def elects_a_broker_that_leaves(patch: Patch) -> None:
    original = Elections.__init__

    def init(self: Elections, image: MetadataImage, **changes: Any) -> None:
        original(self, image, **{**changes, "leaving": ()})

    patch.setattr(Elections, "__init__", init)


@mutation(2, hunt=CONTROLLER)
def leader_epoch_stays_when_the_leader_changes(patch: Patch) -> None:
    original = partition_change.change_record

    def change_record(before: PartitionImage, after: PartitionImage) -> Any:
        return original(before, dataclasses.replace(after, leader_epoch=before.leader_epoch))

    patch.setattr(elections, "change_record", change_record)


@mutation(2, hunt=CONTROLLER)
def partition_epoch_stays_when_the_partition_changes(patch: Patch) -> None:
    original = partition_change.change_record

    def change_record(before: PartitionImage, after: PartitionImage) -> Any:
        record = original(before, after)
        record.partition_change.partition_epoch = before.partition_epoch
        return record

    patch.setattr(elections, "change_record", change_record)


@mutation(30, 7, hunt=CONTROLLER)
def registered_broker_keeps_its_leaders(patch: Patch) -> None:
    class Unaware(Elections):
        def __init__(self, image: MetadataImage, **_: Any) -> None:
            super().__init__(image)

    original = departures.leave_partitions

    def leave(*arguments: Any, **more: Any) -> Piece:
        with Patch() as inner:
            inner.setattr(departures, "Elections", Unaware)
            return original(*arguments, **more)

    patch.setattr(brokers, "leave_partitions", leave)


# -- the ELR


@mutation(28, 29, hunt=CONTROLLER)
def elr_is_not_kept(patch: Patch) -> None:
    patch.setattr(elections, "_elr_after", lambda *_: ((), ()))


@mutation(29, hunt=CONTROLLER)
def elr_is_not_emptied(patch: Patch) -> None:
    original = elections._elr_after

    def elr_after(before: PartitionImage, assignment: Assignment, isr: Any, complete: Any, _: int) -> Any:
        return original(before, assignment, isr, complete, 1 << 10)

    patch.setattr(elections, "_elr_after", elr_after)


@mutation(29, hunt=CONTROLLER)
def elr_survives_a_change_of_min_isr(patch: Patch) -> None:
    change_with(patch, lambda before, wish: {**wish, "clear_elr": False})


@mutation(30, hunt=CONTROLLER)
def lossy_replicas_stay_in_the_elr(patch: Patch) -> None:
    change_with(patch, lambda before, wish: {**wish, "lost": ()})


def change_with(patch: Patch, altered: Callable[[PartitionImage, dict[str, Any]], dict[str, Any]]) -> None:
    """Every change of a partition is asked for in another way."""
    original = Elections.change

    def change(self: Elections, before: PartitionImage, **wish: Any) -> PartitionImage:
        return original(self, before, **altered(before, wish))

    patch.setattr(Elections, "change", change)


# -- settings


@mutation(29, hunt=CONTROLLER)
def leader_need_not_know_of_a_higher_min_isr(patch: Patch) -> None:
    patch.setattr(Elections, "renew", lambda _self, _before: None)


@mutation(45, hunt=CONTROLLER)
def sync_is_promised_for_what_was_not_synced(patch: Patch) -> None:
    """A topic that is changed to durability=fsync counts as synced at once."""

    def altered(before: PartitionImage, wish: dict[str, Any]) -> dict[str, Any]:
        return {**wish, "is_synced": True} if wish.get("is_synced") is False else wish

    change_with(patch, altered)


@mutation(45, hunt=CONTROLLER)
def weaker_durability_leaves_the_partitions_synced(patch: Patch) -> None:
    """A topic that is changed to durability=replicated still counts as synced."""

    def altered(before: PartitionImage, wish: dict[str, Any]) -> dict[str, Any]:
        return {**wish, "is_synced": None} if wish.get("is_synced") is False else wish

    change_with(patch, altered)


@mutation(45, hunt=CONTROLLER)
def stricter_durability_begins_no_leader_epoch(patch: Patch) -> None:
    """Positions that followers named before they knew of durability=fsync count as synced."""

    def altered(before: PartitionImage, wish: dict[str, Any]) -> dict[str, Any]:
        return {**wish, "bump_leader_epoch": False} if wish.get("is_synced") is False else wish

    change_with(patch, altered)


@mutation(45, hunt=CONTROLLER)
def leader_speaks_for_members_that_leave(patch: Patch) -> None:
    """Members that a leader drops as it says that all others have synced count as synced, in the ELR."""
    patch.setattr(alter_partition, "_is_said_of_all", lambda *_: True)


# -- recovery


@mutation(33, hunt=CONTROLLER)
def recovery_passes_over_complete_replicas(patch: Patch) -> None:
    original = recover.replicas_to_ask

    def replicas_to_ask(image: MetadataImage, partition: PartitionImage) -> tuple[BrokerId, ...]:
        complete = (*partition.isr, *partition.elr)
        return tuple(each for each in original(image, partition) if each not in complete)

    patch.setattr(recover, "replicas_to_ask", replicas_to_ask)


@mutation(33, hunt=StoryHunt("a controller and what brokers hold", the_last_epoch_counts_before_the_length))
def recovery_takes_the_longest_log(patch: Patch) -> None:
    """Whatever leader epoch it ends in."""
    original = recover._choose

    def choose(image: MetadataImage, partition: PartitionImage, request: Any, ends: Any) -> BrokerId:
        lengths = {each: end._replace(last_epoch=LeaderEpoch(0)) for each, end in ends.items()}
        return original(image, partition, request, lengths)

    patch.setattr(recover, "_choose", choose)


@mutation(33, hunt=StoryHunt("a controller and what brokers hold", expired_records_count))
def recovery_passes_over_a_log_that_has_expired(patch: Patch) -> None:
    """A log without records comes last, wherever it ends."""
    patch.setattr(recover, "_best", lambda _, answered, ends: max(answered, key=lambda each: ends[each]))


MUTATIONS: Final[tuple[Mutation, ...]] = mutations_in(globals())
