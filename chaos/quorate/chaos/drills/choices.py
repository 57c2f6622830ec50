"""What a story does next, where it has several ways: every one of them, and on record which came up."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any, TypeVar

from quorate.chaos.report.drill_report import Coverage

__all__ = ["Choices"]

T = TypeVar("T")


class Choices:
    def __init__(self, seed: int, rng: random.Random) -> None:
        #: by name: what came up so far, each once
        self.covered: dict[str, Coverage] = {}
        self._seed = seed
        self._rng = rng
        #: what ``next_of`` has still to give before anything comes again, by name
        self._left: dict[str, list[Any]] = {}
        #: how many ``next_in_turn`` has given, by name
        self._given: Counter[str] = Counter()

    def next_of(self, name: str, choices: Sequence[T]) -> T:
        """Every choice once, in a random order, before any of them comes again."""
        left = self._left.get(name) or self._rng.sample(choices, len(choices))
        chosen: T = left.pop()
        self._left[name] = left
        self._cover(name, choices, chosen)
        return chosen

    def next_in_turn(self, name: str, choices: Sequence[T]) -> T:
        """For more choices than a run comes to: all runs follow one order, and the seed is where one begins.

        So runs add up: where one has ended, another can begin.
        """
        order = random.Random(name).sample(choices, len(choices))
        chosen = order[(self._seed + self._given[name]) % len(order)]
        self._given[name] += 1
        self._cover(name, choices, chosen)
        return chosen

    def _cover(self, name: str, choices: Sequence[object], chosen: object) -> None:
        before = self.covered[name].given if name in self.covered else ()
        words = ", ".join(map(str, chosen)) if isinstance(chosen, tuple) else str(chosen)
        self.covered[name] = Coverage(tuple(dict.fromkeys((*before, words))), len(choices))
