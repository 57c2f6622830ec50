"""Each rule of the link is broken in turn, and its scenario must notice."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from quorate.broker.controller_link.damage_reports import DamageReports
from quorate.broker.controller_link.lease import Lease
from quorate.broker.controller_link.link import ControllerLink
from quorate.broker.controller_link.registration import Registration
from quorate.chaos.sim.patch import Patch
from quorate.v1.controller_pb2 import RegisterBrokerRequest
from tests.mutants import assert_story_notices
from tests.unit.controller_link import link_rules
from tests.unit.controller_link.scripted_controllers import ScriptedWorld, run_scripted


def lease_from_the_time_of_the_answer(patch: Patch) -> None:
    original = Lease.renew

    def renew(self: Lease, _sent_at: float, **rest: Any) -> None:
        original(self, self._clock.monotonic(), **rest)

    patch.setattr(Lease, "renew", renew)


def lease_renewed_by_a_fenced_answer(patch: Patch) -> None:
    original = Lease.revoke

    def revoke(self: Lease) -> None:
        original(self)
        self.renew(self._clock.monotonic())

    patch.setattr(Lease, "revoke", revoke)


def lease_kept_when_the_stream_breaks(patch: Patch) -> None:
    patch.setattr(Lease, "revoke", lambda _self: None)


def lease_renewed_before_the_metadata_is_here(patch: Patch) -> None:
    def renew_at_once(self: Lease, _offset: int, sent_at: float, **rest: Any) -> None:
        self.renew(sent_at, **rest)

    patch.setattr(Lease, "renew_with_metadata", renew_at_once)


def damage_dropped_when_the_stream_breaks(patch: Patch) -> None:
    patch.setattr(DamageReports, "unanswered", DamageReports.answered)


def damage_repeated_though_it_was_heard(patch: Patch) -> None:
    patch.setattr(DamageReports, "answered", DamageReports.unanswered)


def damage_repeated_though_it_was_repaired(patch: Patch) -> None:
    original = DamageReports.__init__
    patch.setattr(DamageReports, "__init__", lambda self, _is_unusable: original(self, lambda _: True))


def incarnation_drawn_for_each_attempt(patch: Patch) -> None:
    original = ControllerLink._attempt
    numbers = itertools.count()

    async def attempt(self: ControllerLink, method: Any, request: Any, timeout_s: float) -> Any:
        if isinstance(request, RegisterBrokerRequest):
            request.incarnation_id = f"incarnation-{next(numbers)}"
        return await original(self, method, request, timeout_s)

    patch.setattr(ControllerLink, "_attempt", attempt)


def incarnation_noted_only_with_the_epoch(patch: Patch) -> None:
    original = Registration._until_accepted

    async def until_accepted(self: Registration, request: RegisterBrokerRequest) -> Any:
        response = await original(self, request)
        await self._directory.note_incarnation(self._incarnation_id)
        return response

    patch.setattr(Registration, "_until_accepted", until_accepted)


@pytest.mark.parametrize(
    ("mutant", "scenario"),
    [
        (lease_from_the_time_of_the_answer, link_rules.the_lease_runs_from_when_the_heartbeat_was_sent),
        (lease_renewed_by_a_fenced_answer, link_rules.a_fenced_answer_gives_no_lease),
        (lease_kept_when_the_stream_breaks, link_rules.a_broken_stream_ends_the_lease_at_once),
        (
            lease_renewed_before_the_metadata_is_here,
            link_rules.an_answer_gives_no_lease_before_the_metadata_that_it_names_is_here,
        ),
        (damage_dropped_when_the_stream_breaks, link_rules.damage_is_reported_again_after_a_broken_stream),
        (
            damage_repeated_though_it_was_repaired,
            link_rules.damage_that_was_repaired_meanwhile_is_not_reported_again,
        ),
        (damage_repeated_though_it_was_heard, link_rules.damage_is_reported_again_after_a_broken_stream),
        (incarnation_drawn_for_each_attempt, link_rules.every_attempt_names_the_same_incarnation),
        (incarnation_noted_only_with_the_epoch, link_rules.every_attempt_names_the_same_incarnation),
    ],
)
def test_a_mutant_is_caught(
    mutant: Callable[[Patch], None], scenario: Callable[[ScriptedWorld], Awaitable[None]]
) -> None:
    assert_story_notices(mutant, lambda: run_scripted(scenario))
