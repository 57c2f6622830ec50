"""Each rule of the link is broken in turn, and its scenario must notice."""

from __future__ import annotations

import pytest

from quorate.chaos.mutations.mutation import Mutation
from quorate.chaos.mutations.of_link import MUTATIONS
from tests.mutants import assert_is_noticed


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_mutant_is_caught(mutation: Mutation) -> None:
    assert_is_noticed(mutation)
