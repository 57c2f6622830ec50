"""With one rule switched off two quorums are founded, or the one that there is takes in strangers."""

from __future__ import annotations

import pytest

from quorate.chaos.mutations.mutation import Mutation
from quorate.chaos.mutations.of_founding import MUTATIONS
from tests.mutants import assert_is_noticed


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_mutation_is_noticed(mutation: Mutation) -> None:
    assert_is_noticed(mutation)
