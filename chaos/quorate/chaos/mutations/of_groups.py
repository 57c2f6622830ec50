"""Mutations of who reads a partition, and of who may say how far it was read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from quorate.broker.groups import group, membership, offset_decisions
from quorate.broker.groups.group import Group
from quorate.broker.groups.member import Member
from quorate.broker.groups.reconciliation import Draft
from quorate.broker.groups.records import TopicIdPartition
from quorate.chaos.models.groups.group_stories import an_epoch_is_given_once
from quorate.chaos.mutations.hunts import StoryHunt
from quorate.chaos.mutations.model_hunts import CLIENTS_IN_GROUPS, GROUPS
from quorate.chaos.mutations.mutation import Mutation, mutation, mutations_in
from quorate.chaos.sim.patch import Patch
from quorate.client.consumer.group.member import Hold
from quorate.client.consumer.group.member import Member as ClientMember
from quorate.client.groups.partitions import partitions_to
from quorate.errors import UnknownMember
from quorate.v1.group_pb2 import GroupHeartbeatRequest, GroupHeartbeatResponse

__all__ = ["MUTATIONS"]


# -- commits


@mutation(62, hunt=GROUPS)
def takes_commits_of_whoever_does_not_hold_the_partition(patch: Patch) -> None:
    original = Member.since_epoch

    def since_epoch(self: Member, partition: TopicIdPartition) -> int:
        return original(self, partition) or 0

    patch.setattr(Member, "since_epoch", since_epoch)


@mutation(62, hunt=GROUPS)
def takes_commits_from_before_the_partition_was_lost_and_regained(patch: Patch) -> None:
    original = Member.since_epoch

    def since_epoch(self: Member, partition: TopicIdPartition) -> int | None:
        return None if original(self, partition) is None else 0

    patch.setattr(Member, "since_epoch", since_epoch)


@mutation(62, hunt=GROUPS)
def takes_commits_that_a_later_one_has_overtaken(patch: Patch) -> None:
    """Whoever gave up on a request, sent another and was told of its success, is taken back by the first."""
    patch.setattr(offset_decisions, "_overtaken", lambda *_: None)


@mutation(62, hunt=GROUPS)
def takes_commits_of_whoever_was_removed(patch: Patch) -> None:
    original = offset_decisions.check_commit

    def check_commit(*args: Any) -> Member | None:
        try:
            return original(*args)
        except UnknownMember:
            return None

    patch.setattr(offset_decisions, "check_commit", check_commit)


@mutation(62, hunt=GROUPS)
def refuses_what_is_about_to_be_given_up(patch: Patch) -> None:
    """Whoever has it next would begin too early."""
    patch.setattr(Member, "since_epoch", lambda self, partition: self.assigned.get(partition))


@mutation(62, hunt=GROUPS)
def refuses_a_member_that_is_merely_behind(patch: Patch) -> None:
    """As Kafka did before KIP-1251."""
    original = offset_decisions.check_partition

    def check_partition(member: Member, partition: TopicIdPartition, *, member_epoch: int) -> None:
        is_behind = member_epoch < member.member_epoch
        original(member, partition, member_epoch=-1 if is_behind else member_epoch)

    patch.setattr(offset_decisions, "check_partition", check_partition)


@mutation(62, hunt=StoryHunt("model of groups", an_epoch_is_given_once))
def forgets_epochs_with_the_last_member(patch: Patch) -> None:
    """A group that comes into being again gives the same epochs a second time."""
    patch.setattr(offset_decisions, "_CALLS_UNDER_WAY_MS", 0)


# -- one owner


@mutation(62, hunt=GROUPS)
def believes_what_was_said_in_an_earlier_epoch(patch: Patch) -> None:
    patch.setattr(membership, "_is_believed", lambda *_: True)


@mutation(62, hunt=GROUPS)
def gives_more_within_one_epoch(patch: Patch) -> None:
    """As Kafka does: then a call from before the partition came looks like one from after it went."""

    def given(self: Draft, member: Member, gained: list[TopicIdPartition]) -> Member:
        return replace(member, assigned={**member.assigned, **dict.fromkeys(gained, member.member_epoch)})

    patch.setattr(Draft, "_given", given)


@mutation(62, hunt=GROUPS)
def gives_what_somebody_holds(patch: Patch) -> None:
    patch.setattr(Draft, "_is_free", lambda *_: True)


@mutation(62, hunt=GROUPS)
def takes_away_without_waiting(patch: Patch) -> None:
    original = Draft._towards

    def towards(self: Draft, member: Member, target: frozenset[TopicIdPartition]) -> Member:
        moved = original(self, replace(member, is_away=True), target)
        return replace(moved, is_away=member.is_away)

    patch.setattr(Draft, "_towards", towards)


@mutation(62, hunt=GROUPS)
def takes_a_join_for_a_beginning(patch: Patch) -> None:
    """A join that comes late would free what its member reads."""
    original = membership._come_again

    def come_again(draft: Draft, member: Member, *rest: Any) -> None:
        draft.release(member.member_id, ())
        original(draft, draft.member(member.member_id) or member, *rest)

    patch.setattr(membership, "_come_again", come_again)


@mutation(62, hunt=GROUPS)
def gives_back_in_the_same_epoch_what_was_to_be_given_up(patch: Patch) -> None:
    original = Draft._towards

    def towards(self: Draft, member: Member, target: frozenset[TopicIdPartition]) -> Member:
        moved = original(self, member, target)
        back = {each: since for each, since in moved.revoking.items() if each in target}
        rest = {each: since for each, since in moved.revoking.items() if each not in target}
        return replace(moved, assigned={**moved.assigned, **back}, revoking=rest)

    patch.setattr(Draft, "_towards", towards)


@mutation(62, hunt=GROUPS)
def lets_an_instance_take_over_from_one_that_is_there(patch: Patch) -> None:
    original = Group.member_of_instance

    def member_of_instance(self: Group, instance_id: str) -> Member | None:
        member = original(self, instance_id)
        return None if member is None else replace(member, is_away=True)

    patch.setattr(Group, "member_of_instance", member_of_instance)


@mutation(62, hunt=GROUPS)
def keeps_what_a_removed_member_held(patch: Patch) -> None:
    original = Draft.remove

    def remove(self: Draft, member_id: str) -> None:
        original(self, member_id)
        self._freed.clear()

    patch.setattr(Draft, "remove", remove)


@mutation(62, hunt=GROUPS)
def forgets_who_got_a_partition_when_the_former_owner_is_written_after_it(patch: Patch) -> None:
    def forget(
        owners: dict[TopicIdPartition, str], partitions: Mapping[TopicIdPartition, int], _: str
    ) -> None:
        for partition in partitions:
            owners.pop(partition, None)

    patch.setattr(group, "_forget", forget)


# -- one owner: the member's part


@mutation(62, hunt=CLIENTS_IN_GROUPS)
def takes_partitions_from_an_answer_of_its_own_epoch(patch: Patch) -> None:
    """One that was overtaken: what it gives has been given up since, and is somebody else's."""
    patch.setattr(ClientMember, "_is_higher", lambda *_: True)


@mutation(62, hunt=CLIENTS_IN_GROUPS)
def follows_an_answer_of_an_earlier_epoch(patch: Patch) -> None:
    """As if it had never been in a later one."""
    answered = ClientMember.answered

    def follow(self: ClientMember, response: GroupHeartbeatResponse, **more: Any) -> Any:
        if response.member_epoch < self.epoch and not self._is_late_welcome(more["asked_in"]):
            self.epoch = response.member_epoch - 1
        return answered(self, response, **more)

    patch.setattr(ClientMember, "answered", follow)


@mutation(62, hunt=CLIENTS_IN_GROUPS)
def takes_a_late_welcome_for_its_own(patch: Patch) -> None:
    """It goes on with what the group took from it, as a member that was never given it."""
    patch.setattr(ClientMember, "_is_late_welcome", lambda *_: False)


@mutation(62, hunt=CLIENTS_IN_GROUPS)
def says_that_it_gave_up_what_its_application_still_has(patch: Patch) -> None:
    original = ClientMember.request

    def request(self: ClientMember, *, max_wait_ms: int) -> GroupHeartbeatRequest:
        made = original(self, max_wait_ms=max_wait_ms)
        del made.owned[:]
        made.owned.extend(partitions_to(self.held(Hold.NEW, Hold.READY, Hold.ACTIVE)))
        return made

    patch.setattr(ClientMember, "request", request)


MUTATIONS: Final[tuple[Mutation, ...]] = mutations_in(globals())
