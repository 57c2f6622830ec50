"""Each rule of the controller is switched off in turn, and the model's invariants must notice."""

from __future__ import annotations

import pytest

from quorate.chaos.mutations import of_broker_lives, of_elections, of_isr_changes
from quorate.chaos.mutations.mutation import Mutation
from tests.mutants import assert_is_noticed

MUTATIONS = (*of_elections.MUTATIONS, *of_broker_lives.MUTATIONS, *of_isr_changes.MUTATIONS)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_mutation_is_noticed(mutation: Mutation) -> None:
    assert_is_noticed(mutation)
