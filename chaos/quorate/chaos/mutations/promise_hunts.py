"""Hunting by a test: one promise of a handler, of the link to the controllers, of a compacted log.

Such tests stand beside others of their kind, in worlds that nobody else needs, so they are named here and
imported when they are run. Who has no source checkout has no tests: there these hunts are left out.

What fails a test is what counts as noticing: an assertion, an error that nobody expects, and one that was to
come and did not.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from quorate.chaos.evidence.checkout import find_checkout
from quorate.chaos.mutations.hunts import StoryHunt
from quorate.chaos.mutations.mutation import Catch
from quorate.errors import QuorateError

__all__ = ["TESTS", "PromiseHunt", "has_tests"]

#: with tests that mutations are hunted by
TESTS: Final = (
    "tests/log",
    "tests/raft",
    "tests/simulation",
    "tests/unit/broker",
    "tests/unit/controller_link",
)


def has_tests() -> bool:
    root = find_checkout()
    return root is not None and all((root / folder).is_dir() for folder in TESTS)


@dataclass(frozen=True, slots=True)
class PromiseHunt:
    """A function of the tests, which fails when it notices."""

    where: str
    module: str
    name: str
    #: what it is given, one after the other
    cases: tuple[tuple[Any, ...], ...] = ((),)
    seeds_max: int = field(default=1, init=False)

    def prepare(self) -> None:
        self._test()

    def trial(self, seed: int) -> Catch | None:
        # It comes with the tests, and is no part of what is installed.
        import pytest

        notices = (AssertionError, ValueError, QuorateError, pytest.fail.Exception)
        for arguments in self.cases:
            story = StoryHunt(self.where, partial(self._test(), *arguments), notices=notices)
            catch = story.trial(seed)
            if catch is not None:
                # Wherever in a helper it failed: the test says what was promised.
                return catch._replace(check=self.name)
        return None

    def _test(self) -> Callable[..., Any]:
        root = find_checkout()
        if root is not None and str(root) not in sys.path:
            sys.path.append(str(root))
        test: Callable[..., Any] = getattr(importlib.import_module(self.module), self.name)
        return test
