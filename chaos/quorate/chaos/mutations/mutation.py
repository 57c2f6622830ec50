"""What a mutation is, and what it takes to hunt one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from quorate.chaos.sim.patch import Patch

__all__ = ["Catch", "Hunt", "Mutation", "mutation", "mutations_in"]


class Catch(NamedTuple):
    """What noticed a mutation."""

    #: an invariant or a check, by its name
    check: str
    #: what it said, in one line
    finding: str


class Hunt(Protocol):
    """Where a mutation is looked for, one seed at a time."""

    @property
    def where(self) -> str:
        """For people."""

    @property
    def seeds_max(self) -> int:
        """One that is not noticed within so many has survived. A hunt without chance has one."""

    def prepare(self) -> None:
        """Before the mutation is applied: what is imported after that would keep it for ever."""

    def trial(self, seed: int) -> Catch | None:
        """None: nobody has noticed anything."""


@dataclass(frozen=True, slots=True)
class Mutation:
    name: str
    #: those that it switches off, wholly or in part
    rules: tuple[int, ...]
    #: what somebody got wrong; empty where the name says it all
    what: str
    apply: Callable[[Patch], None]
    hunt: Hunt

    @property
    def rule(self) -> int:
        """The one that it is listed under."""
        return self.rules[0]


def mutation(*rules: int, hunt: Hunt) -> Callable[[Callable[[Patch], None]], Mutation]:
    """Makes one of a function that applies it. Its docstring says more than its name, or is not there."""
    assert rules

    def make(apply: Callable[[Patch], None]) -> Mutation:
        name = apply.__name__.replace("_", "-")
        what = " ".join((apply.__doc__ or "").split())
        return Mutation(name, rules, what, apply, hunt)

    return make


def mutations_in(names: Mapping[str, Any]) -> tuple[Mutation, ...]:
    """Those that a module defines, in its order."""
    return tuple(value for value in names.values() if isinstance(value, Mutation))
