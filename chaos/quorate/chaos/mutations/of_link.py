"""Mutations of a broker's link to the controllers: lease, registration, damage (rules 30, 35, 37 and 44).

Held against scripted controllers, which answer late, twice or not at all: what these rules are about is the
milliseconds around one answer, to which a plan of faults comes too rarely.
"""

from __future__ import annotations

import itertools
from typing import Any, Final

from quorate.broker.controller_link.damage_reports import DamageReports
from quorate.broker.controller_link.lease import Lease
from quorate.broker.controller_link.link import ControllerLink
from quorate.broker.controller_link.registration import Registration
from quorate.chaos.mutations.mutation import Mutation, mutation, mutations_in
from quorate.chaos.mutations.promise_hunts import PromiseHunt
from quorate.chaos.sim.patch import Patch
from quorate.core.ids import LeaderEpoch
from quorate.v1.controller_pb2 import RegisterBrokerRequest

__all__ = ["MUTATIONS"]


def _rule(name: str) -> PromiseHunt:
    return PromiseHunt(
        "a broker and scripted controllers", "tests.unit.controller_link.link_rules", "holds", ((name,),)
    )


@mutation(37, hunt=_rule("the_lease_runs_from_when_the_heartbeat_was_sent"))
def lease_from_the_time_of_the_answer(patch: Patch) -> None:
    original = Lease.renew

    def renew(self: Lease, _sent_at: float, **rest: Any) -> None:
        original(self, self._clock.monotonic(), **rest)

    patch.setattr(Lease, "renew", renew)


@mutation(37, 36, hunt=_rule("a_fenced_answer_gives_no_lease"))
def lease_renewed_by_a_fenced_answer(patch: Patch) -> None:
    original = Lease.revoke

    def revoke(self: Lease) -> None:
        original(self)
        self.renew(self._clock.monotonic())

    patch.setattr(Lease, "revoke", revoke)


@mutation(37, hunt=_rule("a_broken_stream_ends_the_lease_at_once"))
def lease_kept_when_the_stream_breaks(patch: Patch) -> None:
    patch.setattr(Lease, "revoke", lambda _self: None)


@mutation(37, hunt=_rule("an_answer_gives_no_lease_before_the_metadata_that_it_names_is_here"))
def lease_renewed_before_the_metadata_is_here(patch: Patch) -> None:
    def renew_at_once(self: Lease, _offset: int, sent_at: float, **rest: Any) -> None:
        self.renew(sent_at, **rest)

    patch.setattr(Lease, "renew_with_metadata", renew_at_once)


@mutation(44, hunt=_rule("damage_is_reported_again_after_a_broken_stream"))
def damage_dropped_when_the_stream_breaks(patch: Patch) -> None:
    patch.setattr(DamageReports, "unanswered", DamageReports.answered)


@mutation(44, hunt=_rule("damage_is_reported_again_after_a_broken_stream"))
def damage_repeated_though_it_was_heard(patch: Patch) -> None:
    patch.setattr(DamageReports, "answered", DamageReports.unanswered)


@mutation(44, hunt=_rule("damage_that_was_repaired_meanwhile_is_not_reported_again"))
def damage_repeated_though_it_was_repaired(patch: Patch) -> None:
    original = DamageReports.__init__
    patch.setattr(DamageReports, "__init__", lambda self, _is_unusable: original(self, lambda _: True))


@mutation(44, hunt=_rule("damage_that_is_reported_again_names_the_epoch_in_which_it_was_found"))
def damage_repeated_in_a_later_leader_epoch(patch: Patch) -> None:
    """In which the replica may be whole again by the time that it is heard."""
    original = DamageReports.unanswered

    def unanswered(self: DamageReports) -> None:
        self._under_way = {each: LeaderEpoch(epoch + 1) for each, epoch in self._under_way.items()}
        original(self)

    patch.setattr(DamageReports, "unanswered", unanswered)


@mutation(35, 30, hunt=_rule("every_attempt_names_the_same_incarnation"))
def incarnation_drawn_for_each_attempt(patch: Patch) -> None:
    original = ControllerLink._attempt
    numbers = itertools.count()

    async def attempt(self: ControllerLink, method: Any, request: Any, timeout_s: float) -> Any:
        if isinstance(request, RegisterBrokerRequest):
            request.incarnation_id = f"incarnation-{next(numbers)}"
        return await original(self, method, request, timeout_s)

    patch.setattr(ControllerLink, "_attempt", attempt)


@mutation(30, 35, hunt=_rule("every_attempt_names_the_same_incarnation"))
def incarnation_noted_only_with_the_epoch(patch: Patch) -> None:
    original = Registration._until_accepted

    async def until_accepted(self: Registration, request: RegisterBrokerRequest) -> Any:
        response = await original(self, request)
        await self._directory.note_incarnation(self._incarnation_id)
        return response

    patch.setattr(Registration, "_until_accepted", until_accepted)


@mutation(35, hunt=_rule("a_refused_attempt_is_followed_by_one_that_expects_what_stands"))
def refused_registration_is_asked_for_in_the_same_words(patch: Patch) -> None:
    """So a process waits for ever behind one that died before it noted its epoch."""
    patch.setattr(Registration, "_learns_from", lambda _self, _error, _request: False)


MUTATIONS: Final[tuple[Mutation, ...]] = mutations_in(globals())
