"""The device witness is made worthless in one way after the other, and what stands for it must notice."""

from __future__ import annotations

from typing import Final

import pytest

from quorate.chaos.mutations.mutation import Mutation
from quorate.chaos.mutations.of_device_witness import MUTATIONS
from tests.mutants import assert_is_noticed

#: see ``test_cache_witness_mutants``
NOTICED_BY_SEED: Final = {
    "device-witness-is-never-compared": 3,
    "number-of-the-device-is-not-put-on-record": 2,
    "copy-of-the-last-run-passes-for-a-power-loss": 26,
}


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_mutation_is_noticed(mutation: Mutation) -> None:
    assert_is_noticed(mutation, first_seed=NOTICED_BY_SEED.get(mutation.name, 1))
