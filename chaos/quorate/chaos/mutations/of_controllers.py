"""Mutations of what a controller is: when it acts, whom it serves (rules 36, 39 and 40)."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from quorate.chaos.mutations.cluster_stories import (
    a_controller_that_is_cut_off_is_left,
    a_new_controller_decides_on_all_that_is_committed,
    a_stop_is_granted,
    cluster_story,
)
from quorate.chaos.mutations.deposed_controller_story import a_deposed_controller_answers_no_read
from quorate.chaos.mutations.mutation import Mutation, mutation, mutations_in
from quorate.chaos.sim.patch import Patch
from quorate.controller import brokers, heartbeats
from quorate.controller.active import ActiveController
from quorate.metadata.image import MetadataImage
from quorate.metadata.publisher import MetadataPublisher
from quorate.metadata.raft.entries import Index
from quorate.metadata.raft.ready import SoftState

__all__ = ["MUTATIONS"]


@mutation(39, hunt=cluster_story(a_new_controller_decides_on_all_that_is_committed))
def controller_acts_before_it_has_replayed(patch: Patch) -> None:
    """It decides from the moment of its election, on whatever it has applied by then."""
    original = ActiveController.leadership_changed

    def leadership_changed(self: ActiveController, state: SoftState, committed: MetadataImage) -> None:
        original(self, dataclasses.replace(state, term_start=Index(0)), committed)

    patch.setattr(ActiveController, "leadership_changed", leadership_changed)


@mutation(39, hunt=cluster_story(a_deposed_controller_answers_no_read))
def an_earlier_commit_stands_in_for_the_barrier(patch: Patch) -> None:
    """Where something of the office is not committed yet, its commit is taken for a proof that it leads."""
    original = ActiveController._settle

    async def settle(self: ActiveController, office: Any, *, is_leadership_sure: bool = False) -> None:
        await original(self, office, is_leadership_sure=is_leadership_sure or bool(office.expected))

    patch.setattr(ActiveController, "_settle", settle)


@mutation(40, hunt=cluster_story(a_controller_that_is_cut_off_is_left))
def controller_that_hears_nobody_serves_on(patch: Patch) -> None:
    """Brokers that follow it hear its signs of life, and no news."""
    patch.setattr(MetadataPublisher, "stop_serving", lambda _: None)


@mutation(36, hunt=cluster_story(a_stop_is_granted))
def stop_is_not_put_on_record(patch: Patch) -> None:
    """Every heartbeat of a broker that wants to go begins its stop anew."""
    original = brokers.broker_change

    def broker_change(*arguments: Any, **changes: Any) -> Any:
        return original(*arguments, **{**changes, "is_shutting_down": None})

    patch.setattr(heartbeats, "broker_change", broker_change)


MUTATIONS: Final[tuple[Mutation, ...]] = mutations_in(globals())
