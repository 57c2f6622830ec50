"""Random trouble: each record once, in order, with an honest end. And each rule switched off is noticed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from quorate.client.producer import partition_queue
from quorate.client.producer.batch import ProducerBatch
from quorate.client.producer.partition_queue import PartitionQueue
from quorate.errors import QuorateError
from tests.unit.client.producer_walk import walk_with, walk_with_seeds

Patch = pytest.MonkeyPatch

_SEEDS: Final = 20
_SEEDS_FOR_A_MUTANT: Final = 400


@pytest.mark.parametrize("seed", range(_SEEDS))
def test_each_record_is_written_once_in_order_and_its_end_is_the_truth(seed: int) -> None:
    walk_with(seed)


def numbers_what_may_be_written_anew(patch: Patch) -> None:
    original = PartitionQueue._begin_new_row

    def begin(self: PartitionQueue) -> None:
        for batch in self.undecided:
            batch.may_be_written = False
        original(self)

    patch.setattr(PartitionQueue, "_begin_new_row", begin)


def begins_a_row_in_the_same_epoch(patch: Patch) -> None:
    original = PartitionQueue._begin_new_row

    def begin(self: PartitionQueue) -> None:
        self._producer_epoch -= 1
        was_broken = self._is_row_broken
        original(self)
        if was_broken and self._is_row_broken:
            self._producer_epoch += 1

    patch.setattr(PartitionQueue, "_begin_new_row", begin)


def takes_batches_before_a_hole_for_clean(patch: Patch) -> None:
    def break_row(self: PartitionQueue, at: ProducerBatch) -> None:
        self._is_row_broken = True
        if not at.may_be_written:
            for batch in self.undecided:
                batch.may_be_written = False

    patch.setattr(PartitionQueue, "_break_row", break_row)


def gives_a_refused_number_to_the_next_batch(patch: Patch) -> None:
    """As after a refused condition, where it is safe."""

    def break_row(self: PartitionQueue, at: ProducerBatch) -> None:
        if at.base_sequence >= 0:
            self._next_sequence = at.base_sequence

    patch.setattr(PartitionQueue, "_break_row", break_row)


def takes_unknown_for_refused(patch: Patch) -> None:
    original = PartitionQueue.unanswered

    def unanswered(
        self: PartitionQueue, batch: ProducerBatch, error: QuorateError, now: float, **_: Any
    ) -> QuorateError | None:
        return original(self, batch, error, now, was_sent=False)

    patch.setattr(PartitionQueue, "unanswered", unanswered)


def takes_an_expired_batch_on_its_way_for_refused(patch: Patch) -> None:
    original = PartitionQueue._too_late

    def too_late(self: PartitionQueue, batch: ProducerBatch) -> QuorateError:
        batch.may_be_written = False
        return original(self, batch)

    patch.setattr(PartitionQueue, "_too_late", too_late)


def sends_unnumbered_batches_together(patch: Patch) -> None:
    """So that one that is sent again comes behind its successors."""
    patch.setattr(partition_queue, "_may_have_company", lambda batch: batch.expected_offset is None)


def repeats_an_unnumbered_batch_that_may_be_written(patch: Patch) -> None:
    original = PartitionQueue.refused

    def refused(
        self: PartitionQueue, batch: ProducerBatch, error: QuorateError, now: float
    ) -> QuorateError | None:
        batch.attempt = None
        if not batch.is_numbered and error.retriable:
            self.retry_at = now + 0.01
            return None
        return original(self, batch, error, now)

    patch.setattr(PartitionQueue, "refused", refused)


#: each with a seed that notices it; after a change of the walk the search goes on from there
MUTANTS: Final[list[tuple[Callable[[Patch], None], int]]] = [
    (numbers_what_may_be_written_anew, 6),
    (begins_a_row_in_the_same_epoch, 0),
    (takes_batches_before_a_hole_for_clean, 143),
    (gives_a_refused_number_to_the_next_batch, 5),
    (takes_unknown_for_refused, 6),
    (takes_an_expired_batch_on_its_way_for_refused, 0),
    (sends_unnumbered_batches_together, 25),
    (repeats_an_unnumbered_batch_that_may_be_written, 1),
]


@pytest.mark.parametrize(("mutate", "first_seed"), MUTANTS, ids=[mutate.__name__ for mutate, _ in MUTANTS])
def test_mutant_is_noticed(mutate: Callable[[Patch], None], first_seed: int, monkeypatch: Patch) -> None:
    mutate(monkeypatch)
    with pytest.raises(AssertionError):
        walk_with_seeds(range(first_seed, first_seed + _SEEDS_FOR_A_MUTANT))
