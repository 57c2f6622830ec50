"""Mutations of what a call of a member may still do that arrives late, or a second time (rules 62 and 63)."""

from __future__ import annotations

from typing import Final

from quorate.broker.groups import membership
from quorate.broker.groups.group_members import GroupMembers
from quorate.chaos.mutations import late_call_stories as stories
from quorate.chaos.mutations.cluster_stories import cluster_story
from quorate.chaos.mutations.model_hunts import ORDERED_GROUPS
from quorate.chaos.mutations.mutation import Mutation, mutation, mutations_in
from quorate.chaos.sim.patch import Patch
from quorate.client.consumer.group.member import Member
from quorate.v1.group_pb2 import GroupHeartbeatRequest

__all__ = ["MUTATIONS"]


@mutation(62, hunt=ORDERED_GROUPS)
def takes_an_old_subscription_for_a_new_one(patch: Patch) -> None:
    """A call from before it was changed arrives last, and its member never says again what it wants."""
    patch.setattr(membership, "check_call_number", lambda *_, **__: None)


@mutation(62, hunt=ORDERED_GROUPS)
def brings_back_who_has_gone(patch: Patch) -> None:
    """A join arrives when its member has left or was succeeded: nobody reads what it is given."""
    patch.setattr(membership, "_check_departures", lambda *_: None)


@mutation(62, hunt=cluster_story(stories.a_late_call_that_breaks_off_removes_nobody))
def lets_a_copy_take_the_place_of_the_call_that_waits(patch: Patch) -> None:
    """When its connection ends, a member that lives is taken for dead, and what it holds for free."""
    patch.setattr(GroupMembers, "_check_is_new", lambda *_: None)


@mutation(62, hunt=cluster_story(stories.a_late_call_leaves_the_last_subscription))
def members_give_their_calls_no_numbers(patch: Patch) -> None:
    original = Member.request

    def request(self: Member, *, max_wait_ms: int) -> GroupHeartbeatRequest:
        made = original(self, max_wait_ms=max_wait_ms)
        made.ClearField("call_number")
        return made

    patch.setattr(Member, "request", request)


@mutation(62, hunt=cluster_story(stories.a_late_join_brings_nobody_back))
def joins_do_not_say_what_they_are_based_on(patch: Patch) -> None:
    original = Member.request

    def request(self: Member, *, max_wait_ms: int) -> GroupHeartbeatRequest:
        made = original(self, max_wait_ms=max_wait_ms)
        made.ClearField("departure_epoch")
        return made

    patch.setattr(Member, "request", request)


MUTATIONS: Final[tuple[Mutation, ...]] = mutations_in(globals())
