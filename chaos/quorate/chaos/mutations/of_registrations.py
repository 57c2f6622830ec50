"""Mutations of what is known when a broker registers; for what is decided then see ``of_broker_lives``."""

from __future__ import annotations

from typing import Any, Final

from quorate.chaos.mutations.cluster_stories import cluster_story
from quorate.chaos.mutations.mutation import Mutation, mutation, mutations_in
from quorate.chaos.mutations.second_process_story import a_second_process_waits
from quorate.chaos.sim.patch import Patch
from quorate.controller import brokers, controller_service

__all__ = ["MUTATIONS"]


@mutation(35, hunt=cluster_story(a_second_process_waits))
def nobody_asks_whether_the_process_before_is_alive(patch: Patch) -> None:
    """What is known of its session does not come to where registrations are decided on."""
    original = brokers.register_broker

    def register(*arguments: Any, has_live_session: bool, **more: Any) -> Any:
        del has_live_session
        return original(*arguments, has_live_session=False, **more)

    patch.setattr(controller_service, "register_broker", register)


MUTATIONS: Final[tuple[Mutation, ...]] = mutations_in(globals())
