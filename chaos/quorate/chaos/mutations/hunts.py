"""The kinds of hunts: by chance, seed after seed; in a story that is always the same; by a test of a promise.

``cluster_hunt`` is the whole cluster in the simulator, and comes first wherever it can see a mutation within
a few seeds. ``model_hunts`` are for what it meets too rarely, and for what it cannot do at all;
``promise_hunts`` for what a test of one promise tells best, in a world that is there for tests alone. Each
hunt knows what counts as noticing there: an invariant that does not hold, a check that finds an anomaly, or a
run that does not come to its end.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from quorate.chaos.mutations.mutation import Catch

__all__ = ["SeededHunt", "StoryHunt", "caught"]

_LINE_MAX: Final = 160


def caught(error: BaseException) -> Catch:
    """Violations have a name; of an assertion it is that of the function in which it stands."""
    name = getattr(error, "check", None) or getattr(error, "invariant", None)
    if name is None and isinstance(error, AssertionError):
        frame = [frame for frame, _ in traceback.walk_tb(error.__traceback__)][-1]
        # A story is told in a function of its own, inside of the one that has the name.
        name = frame.f_code.co_qualname.partition(".<locals>")[0]
    lines = str(error).splitlines() or [""]
    return Catch(str(name or type(error).__name__), lines[0][:_LINE_MAX])


@dataclass(frozen=True, slots=True)
class SeededHunt:
    """One function of a seed, which raises when it notices."""

    where: str
    run: Callable[[int], object]
    seeds_max: int
    #: what counts as noticing; anything else is a mistake of the mutation
    notices: tuple[type[Exception], ...] = (AssertionError,)

    def prepare(self) -> None:
        pass

    def trial(self, seed: int) -> Catch | None:
        try:
            self.run(seed)
        except self.notices as error:
            return caught(error)
        return None


@dataclass(frozen=True, slots=True)
class StoryHunt:
    """One story in a model, without chance: for what no seed comes to within reason."""

    where: str
    play: Callable[[], Awaitable[None] | None]
    notices: tuple[type[BaseException], ...] = (AssertionError,)
    seeds_max: int = field(default=1, init=False)

    def prepare(self) -> None:
        pass

    def trial(self, seed: int) -> Catch | None:
        del seed
        try:
            told = self.play()
            if told is not None:
                asyncio.run(_hear(told))
        except self.notices as error:
            return caught(error)
        return None


async def _hear(told: Awaitable[None]) -> None:
    await told
