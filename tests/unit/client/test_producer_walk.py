"""Random trouble: each record once, in order, with an honest end. And each rule switched off is noticed."""

from __future__ import annotations

from typing import Final

import pytest

from quorate.chaos.models.producer.producer_stories import (
    a_written_batch_is_known_however_long_its_request_takes,
)
from quorate.chaos.models.producer.producer_walk import walk_with
from quorate.chaos.mutations.mutation import Mutation
from quorate.chaos.mutations.of_producer import MUTATIONS
from tests.mutants import assert_is_noticed

_SEEDS: Final = 20

#: where the search begins, for those that need many; after a change of the walk it goes on from there
_FIRST_SEEDS: Final = {"takes-batches-before-a-hole-for-clean": 143, "sends-unnumbered-batches-together": 25}


@pytest.mark.parametrize("seed", range(_SEEDS))
def test_each_record_is_written_once_in_order_and_its_end_is_the_truth(seed: int) -> None:
    walk_with(seed)


def test_window_begins_at_the_oldest_undecided_batch() -> None:
    a_written_batch_is_known_however_long_its_request_takes()


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_mutation_is_noticed(mutation: Mutation) -> None:
    assert_is_noticed(mutation, first_seed=_FIRST_SEEDS.get(mutation.name, 1))
