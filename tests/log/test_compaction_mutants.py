"""Each rule of compaction is switched off in turn, and the tests that stand for it must notice."""

from __future__ import annotations

import pytest

from quorate.chaos.mutations.mutation import Mutation
from quorate.chaos.mutations.of_compacted_logs import MUTATIONS
from tests.mutants import assert_is_noticed


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_mutation_is_noticed(mutation: Mutation) -> None:
    assert_is_noticed(mutation)
