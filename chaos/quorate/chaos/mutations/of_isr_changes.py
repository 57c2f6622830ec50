"""Mutations of what the controller lets a leader change, and of moving replicas."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from quorate.chaos.mutations.model_hunts import CONTROLLER
from quorate.chaos.mutations.mutation import Mutation, mutation, mutations_in
from quorate.chaos.mutations.of_elections import change_with
from quorate.chaos.sim.patch import Patch
from quorate.controller import (
    alter_partition,
    heartbeats,
    reassignment,
)
from quorate.controller.elections import Assignment, Elections
from quorate.controller.reassignment import Completion
from quorate.core.ids import BrokerId, LeaderEpoch
from quorate.metadata.image import MetadataImage, PartitionImage, Recovery
from quorate.v1.controller_pb2 import BrokerSessionResponse, PartitionAlteration

__all__ = ["MUTATIONS"]


# -- AlterPartition


@mutation(21, hunt=CONTROLLER)
def no_partition_epoch_check(patch: Patch) -> None:
    original = alter_partition._check_epochs

    def check(partition: PartitionImage, leader: BrokerId, wish: PartitionAlteration) -> None:
        original(dataclasses.replace(partition, partition_epoch=wish.partition_epoch), leader, wish)

    patch.setattr(alter_partition, "_check_epochs", check)


@mutation(21, hunt=CONTROLLER)
def no_leader_epoch_check(patch: Patch) -> None:
    """No record is at stake here, and only the kind of the refusal tells.

    Whatever changes the leader epoch or the leader changes the partition epoch too, in the same record, so
    the check of the partition epoch refuses all that this one does. What the leader gets then is "try again
    with what you know now" in place of "you do not lead any more".
    """
    original = alter_partition._check_epochs

    def check(partition: PartitionImage, _: BrokerId, wish: PartitionAlteration) -> None:
        unaware = dataclasses.replace(partition, leader_epoch=LeaderEpoch(wish.leader_epoch))
        original(unaware, partition.leader, wish)

    patch.setattr(alter_partition, "_check_epochs", check)


@mutation(24, hunt=CONTROLLER)
def no_broker_epoch_check(patch: Patch) -> None:
    _admit(patch, broker_epoch=None)


@mutation(24, hunt=CONTROLLER)
def fenced_members_are_admitted(patch: Patch) -> None:
    _admit(patch, is_fenced=False)


@mutation(24, hunt=CONTROLLER)
def members_that_shut_down_are_admitted(patch: Patch) -> None:
    _admit(patch, is_shutting_down=False)


def _admit(patch: Patch, **unseen: Any) -> None:
    """Members are looked at as if this were so; an epoch of None: as the request has it."""
    original = alter_partition._check_eligible

    def check(image: MetadataImage, wish: PartitionAlteration) -> None:
        seen = image.brokers
        for member in wish.isr:
            broker_id = BrokerId(member.broker_id)
            changes: dict[str, Any] = {
                name: member.broker_epoch if value is None else value for name, value in unseen.items()
            }
            seen = seen.set(broker_id, dataclasses.replace(seen[broker_id], **changes))
        original(dataclasses.replace(image, brokers=seen), wish)

    patch.setattr(alter_partition, "_check_eligible", check)


@mutation(34, hunt=CONTROLLER)
def recovering_partition_grows(patch: Patch) -> None:
    original = alter_partition._check_members

    def check(partition: PartitionImage, wish: PartitionAlteration, _: Recovery) -> None:
        original(partition, wish, Recovery.NORMAL)

    patch.setattr(alter_partition, "_check_members", check)


# -- reassignment


@mutation(47, hunt=CONTROLLER)
def move_completes_before_everybody_has_caught_up(patch: Patch) -> None:
    def complete(image: MetadataImage, partition: PartitionImage) -> Completion | None:
        if not reassignment.is_reassigning(partition):
            return None
        target = tuple(each for each in partition.replicas if each not in partition.removing_replicas)
        isr = tuple(each for each in partition.isr if each in target)
        return Completion(Assignment(target), isr) if isr else None

    patch.setattr(reassignment, "complete_reassignment", complete)


@mutation(47, hunt=CONTROLLER)
def move_completes_in_one_step(patch: Patch) -> None:
    """The leader goes, out of the ISR and all, in the record that elects the next one."""

    def complete(image: MetadataImage, partition: PartitionImage) -> Completion | None:
        if not reassignment._is_ready(image, partition):
            return None
        target = reassignment._target_of(partition)
        return Completion(Assignment(target), tuple(each for each in partition.isr if each in target))

    patch.setattr(reassignment, "_can_hand_over", lambda *_: False)
    patch.setattr(reassignment, "complete_reassignment", complete)


@mutation(47, hunt=CONTROLLER)
def move_completes_when_it_hands_over(patch: Patch) -> None:
    """The leader is told first, and may have heard of it or not."""

    def complete(image: MetadataImage, partition: PartitionImage) -> Completion | None:
        if not reassignment._is_ready(image, partition) or partition.leader in partition.removing_replicas:
            return None
        target = reassignment._target_of(partition)
        return Completion(Assignment(target), tuple(each for each in partition.isr if each in target))

    patch.setattr(reassignment, "complete_reassignment", complete)


@mutation(47, hunt=CONTROLLER)
def called_off_move_ends_in_one_step(patch: Patch) -> None:
    def cancel(elections_: Elections, image: MetadataImage, partition: PartitionImage) -> PartitionImage:
        adding = partition.adding_replicas
        original = tuple(each for each in partition.replicas if each not in adding)
        isr = tuple(each for each in partition.isr if each not in adding)
        if not isr or not reassignment._is_safe(image, partition, isr, replica_count=len(original)):
            return partition
        return elections_.change(
            partition, isr=isr, assignment=Assignment(original), bump_leader_epoch=bool(adding)
        )

    patch.setattr(reassignment, "cancel_move", cancel)


@mutation(47, hunt=CONTROLLER)
def move_completes_with_too_few_in_sync(patch: Patch) -> None:
    patch.setattr(reassignment, "_is_safe", lambda *_, **__: True)


@mutation(47, hunt=CONTROLLER)
def move_is_called_off_although_it_is_needed(patch: Patch) -> None:
    """Of the old replicas too few are in sync, and the new ones go all the same."""
    original = reassignment.cancel_move

    def cancel(*arguments: Any) -> PartitionImage:
        with Patch() as inner:
            inner.setattr(reassignment, "_is_safe", lambda *_, **__: True)
            return original(*arguments)

    patch.setattr(reassignment, "cancel_move", cancel)


@mutation(37, hunt=CONTROLLER)
def lease_is_renewed_whatever_the_broker_knows(patch: Patch) -> None:
    def answer(**fields: Any) -> BrokerSessionResponse:
        return BrokerSessionResponse(**{**fields, "metadata_offset": 0})

    patch.setattr(heartbeats, "BrokerSessionResponse", answer)


@mutation(47, hunt=CONTROLLER)
def move_adds_to_the_isr(patch: Patch) -> None:
    def altered(before: PartitionImage, wish: dict[str, Any]) -> dict[str, Any]:
        assignment = wish.get("assignment")
        if assignment is None or not assignment.adding:
            return wish
        return {**wish, "isr": (*before.isr, *assignment.adding)}

    change_with(patch, altered)


@mutation(7, hunt=CONTROLLER)
def called_off_move_leaves_the_leader_epoch_as_it_is(patch: Patch) -> None:
    _end_moves_in_the_same_epoch(patch, is_completion=False)


@mutation(47, 2, hunt=CONTROLLER)
def completed_move_leaves_the_leader_epoch_as_it_is(patch: Patch) -> None:
    _end_moves_in_the_same_epoch(patch, is_completion=True)


def _end_moves_in_the_same_epoch(patch: Patch, *, is_completion: bool) -> None:
    def altered(before: PartitionImage, wish: dict[str, Any]) -> dict[str, Any]:
        assignment = wish.get("assignment")
        if assignment is None or not reassignment.is_reassigning(before):
            return wish
        keeps_new_ones = set(assignment.replicas).issuperset(before.adding_replicas)
        return {**wish, "bump_leader_epoch": False} if keeps_new_ones == is_completion else wish

    change_with(patch, altered)


@mutation(34, hunt=CONTROLLER)
def move_completes_while_the_partition_is_recovering(patch: Patch) -> None:
    original = reassignment.complete_reassignment

    def complete(image: MetadataImage, partition: PartitionImage) -> Completion | None:
        return original(image, dataclasses.replace(partition, recovery=Recovery.NORMAL))

    patch.setattr(reassignment, "complete_reassignment", complete)


MUTATIONS: Final[tuple[Mutation, ...]] = mutations_in(globals())
