"""Calls of members that arrive again, when they have said something else or have gone: nothing follows."""

from __future__ import annotations

import pytest

from quorate.chaos.mutations.mutation import Mutation
from quorate.chaos.mutations.of_late_calls import MUTATIONS
from tests.mutants import assert_is_noticed


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_mutation_is_noticed(mutation: Mutation) -> None:
    """Each is hunted with the code as it is, which must pass, and with the mutation."""
    assert_is_noticed(mutation)
