"""Rules 30 to 32 are switched off one by one, and the checks that stand for them must notice."""

from __future__ import annotations

import pytest

from quorate.chaos.mutations.mutation import Mutation
from quorate.chaos.mutations.of_directory import MUTATIONS
from tests.mutants import assert_is_noticed


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_mutation_is_noticed(mutation: Mutation) -> None:
    assert_is_noticed(mutation)
