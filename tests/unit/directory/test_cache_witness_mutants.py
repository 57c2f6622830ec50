"""The cache witness is made worthless in one way after the other, and what stands for it must notice."""

from __future__ import annotations

from typing import Final

import pytest

from quorate.chaos.mutations.mutation import Mutation
from quorate.chaos.mutations.of_cache_witness import MUTATIONS
from tests.mutants import assert_is_noticed

#: Whole clusters notice these, and not in their first seeds. To look for the one that does each time would
#: take a minute; `quorate sim mutants` does.
NOTICED_BY_SEED: Final = {
    "lost-page-cache-passes-for-a-process-crash": 20,
    "number-that-was-heard-is-not-put-on-record": 11,
    "numbers-go-on-record-only-with-other-news": 20,
}


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_mutation_is_noticed(mutation: Mutation) -> None:
    assert_is_noticed(mutation, first_seed=NOTICED_BY_SEED.get(mutation.name, 1))
