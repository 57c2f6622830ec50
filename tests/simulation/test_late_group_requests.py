"""Changes of a group's offsets that arrive again, when others have had the last word: it stands."""

from __future__ import annotations

import pytest

from quorate.chaos.mutations.mutation import Mutation
from quorate.chaos.mutations.of_late_group_requests import MUTATIONS
from tests.mutants import assert_is_noticed


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_mutation_is_noticed(mutation: Mutation) -> None:
    """Each story is told twice: with the code as it is, which must pass, and with the mutation."""
    assert_is_noticed(mutation)
