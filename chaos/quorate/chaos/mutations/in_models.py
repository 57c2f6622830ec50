"""Mutations that are not made to the product, but to what stands in for it where they are hunted.

They say that the simulator or the model would notice; of the product they say nothing. Each has a reason, and
the page shows which they are. All others replace names of packages that run in production: a test looks.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Final

from quorate.chaos.mutations.mutation import Mutation
from quorate.chaos.sim.patch import Patch

__all__ = ["IN_MODELS", "is_in_production", "patched_modules"]

#: what runs in production, and what people start it with
_PRODUCTION: Final = ("broker", "client", "controller", "core", "metadata", "node", "rpc", "storage", "v1")

_RAFT: Final = "the Raft simulator has voters of its own around the core; of the product it is"
_CONTROL: Final = "another implementation takes the place of the whole core"

#: why, by the name of the mutation
IN_MODELS: Final[Mapping[str, str]] = {
    "votes-are-not-durable": f"{_RAFT} `term-and-vote-are-not-written`",
    "messages-do-not-wait-for-the-sync": f"{_RAFT} `answers-do-not-wait-for-what-they-rest-on`",
    "incarnations-are-not-durable": f"{_RAFT} `identity-stays-in-the-page-cache`",
    "an-installed-snapshot-is-not-given-to-the-state-machine": (
        f"{_RAFT} `installed-snapshot-is-kept-from-the-state-machine`"
    ),
    "second-process-is-registered": (
        "who has a live session is found out by the caller, and here that is the model of the controller; "
        "of the product it is `nobody-asks-whether-the-process-before-is-alive`"
    ),
    "stock-pysyncobj-crash": _CONTROL,
    "stock-pysyncobj-compaction": _CONTROL,
    "stock-pysyncobj-reconnect": _CONTROL,
    "stock-pysyncobj-default": _CONTROL,
}


def patched_modules(mutation: Mutation) -> list[str]:
    """Where the owners of the names that it replaces are defined."""
    with Patch() as patch:
        mutation.apply(patch)
        return [_module_of(owner) for owner in patch.owners]


def is_in_production(module: str) -> bool:
    return module.startswith(tuple(f"quorate.{package}." for package in _PRODUCTION))


def _module_of(owner: object) -> str:
    if isinstance(owner, ModuleType):
        return owner.__name__
    return owner.__module__ if isinstance(owner, type) else type(owner).__module__
