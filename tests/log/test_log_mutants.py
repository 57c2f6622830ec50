"""Each storage rule is switched off in turn, and the checks that stand for it must notice."""

from __future__ import annotations

import pytest

from quorate.chaos.models.log import log_checkers
from quorate.chaos.mutations.mutation import Mutation
from quorate.chaos.mutations.of_storage import MUTATIONS
from tests.mutants import assert_is_noticed


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_mutation_is_noticed(mutation: Mutation) -> None:
    assert_is_noticed(mutation)


@pytest.mark.parametrize("name", log_checkers.__all__)
async def test_checker_is_content_with_the_log_as_it_is(name: str) -> None:
    await getattr(log_checkers, name)()
