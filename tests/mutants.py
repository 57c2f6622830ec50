"""What the tests of mutations share: the product's own runner, and stories that only tests can tell."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from quorate.chaos.mutations.hunting import hunt
from quorate.chaos.mutations.hunts import StoryHunt
from quorate.chaos.mutations.mutation import Mutation
from quorate.chaos.sim.patch import Patch
from quorate.errors import QuorateError

__all__ = ["assert_is_noticed", "assert_story_notices"]

#: an error that was expected and did not come counts too
_NOTICES = (AssertionError, ValueError, QuorateError, pytest.fail.Exception)


def assert_is_noticed(mutation: Mutation, *, first_seed: int = 1) -> None:
    outcome = hunt(mutation, first_seed=first_seed)
    assert not outcome.red_anyway, f"seeds {outcome.red_anyway} are red without {mutation.name} too"
    assert outcome.catch is not None, f"{mutation.name} has survived {outcome.seeds} seeds"


def assert_story_notices(apply: Callable[[Patch], None], story: Callable[[], Awaitable[None] | None]) -> None:
    """A test that is content with the code as it is, and not with the mutation."""
    in_story = StoryHunt("a test", story, notices=_NOTICES)
    assert_is_noticed(Mutation(apply.__name__, (1,), apply.__name__, apply, in_story))
