"""What a campaign runs: a world draws a plan from a seed, runs it, and can run a part of it.

A plan is a JSON document here, with its seed under ``seed``: what a campaign does with it is to pass it
between processes, to write it to a file, and to ask the world for the same plan with fewer events.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, TypeAlias

from quorate.chaos.campaign.outcome import RunOutcome

__all__ = ["WORLDS", "PlanDocument", "World", "load_world", "world_reference"]

PlanDocument: TypeAlias = dict[str, Any]

#: by name; loaded by whoever runs one, since each drags in what it simulates
WORLDS: Final = {
    "cluster": "quorate.chaos.campaign.cluster_world:ClusterWorld",
    "quorum": "quorate.chaos.campaign.quorum_world:QuorumWorld",
}


class World(Protocol):
    def draw(self, seed: int) -> PlanDocument:
        """From the seed alone."""

    def events(self, plan: PlanDocument) -> Sequence[int]:
        """Numbers of what can be left out; none where a run cannot be taken apart."""

    def without(self, plan: PlanDocument, events: Sequence[int]) -> PlanDocument: ...

    def describe(self, plan: PlanDocument) -> Sequence[str]:
        """What was planned, line by line, for people; nothing where it is decided on the way."""

    def run(self, plan: PlanDocument) -> RunOutcome:
        """Whatever goes wrong is an outcome, not an exception."""

    def trace(self, plan: PlanDocument, write: Callable[[str], object]) -> RunOutcome:
        """Run it, and write line by line what happened, for people."""


def world_reference(name: str) -> str:
    """``module:class``, for another process to load; such a reference stands for itself."""
    return WORLDS.get(name, name)


def load_world(name: str) -> World:
    """One of WORLDS, or a reference to another."""
    module, _, attribute = world_reference(name).partition(":")
    world: World = getattr(importlib.import_module(module), attribute)()
    return world
