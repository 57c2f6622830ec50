"""Each rule of groups is switched off in turn, and the model must notice."""

from __future__ import annotations

import pytest

from quorate.chaos.mutations import of_groups
from quorate.chaos.mutations.mutation import Mutation
from tests.mutants import assert_is_noticed


@pytest.mark.parametrize("mutation", of_groups.MUTATIONS, ids=lambda mutation: mutation.name)
def test_mutation_is_noticed(mutation: Mutation) -> None:
    assert_is_noticed(mutation)
