"""Mutations of the producer: what it numbers, repeats, and calls refused (rules 19, 50 and 52)."""

from __future__ import annotations

from typing import Any, Final

from quorate.chaos.models.producer import producer_stories
from quorate.chaos.mutations.hunts import StoryHunt
from quorate.chaos.mutations.model_hunts import PRODUCER
from quorate.chaos.mutations.mutation import Mutation, mutation, mutations_in
from quorate.chaos.sim.patch import Patch
from quorate.client.producer import partition_queue
from quorate.client.producer.batch import ProducerBatch
from quorate.client.producer.partition_queue import PartitionQueue
from quorate.errors import QuorateError

__all__ = ["MUTATIONS"]


@mutation(50, hunt=PRODUCER)
def numbers_what_may_be_written_anew(patch: Patch) -> None:
    original = PartitionQueue._begin_new_row

    def begin(self: PartitionQueue) -> None:
        for batch in self.undecided:
            batch.may_be_written = False
        original(self)

    patch.setattr(PartitionQueue, "_begin_new_row", begin)


@mutation(50, 52, hunt=PRODUCER)
def begins_a_row_in_the_same_epoch(patch: Patch) -> None:
    original = PartitionQueue._begin_new_row

    def begin(self: PartitionQueue) -> None:
        self._producer_epoch -= 1
        was_broken = self._is_row_broken
        original(self)
        if was_broken and self._is_row_broken:
            self._producer_epoch += 1

    patch.setattr(PartitionQueue, "_begin_new_row", begin)


@mutation(19, hunt=PRODUCER)
def takes_batches_before_a_hole_for_clean(patch: Patch) -> None:
    def break_row(self: PartitionQueue, at: ProducerBatch) -> None:
        self._is_row_broken = True
        if not at.may_be_written:
            for batch in self.undecided:
                batch.may_be_written = False

    patch.setattr(PartitionQueue, "_break_row", break_row)


@mutation(52, hunt=PRODUCER)
def gives_a_refused_number_to_the_next_batch(patch: Patch) -> None:
    """As after a refused condition, where it is safe."""

    def break_row(self: PartitionQueue, at: ProducerBatch) -> None:
        if at.base_sequence >= 0:
            self._next_sequence = at.base_sequence

    patch.setattr(PartitionQueue, "_break_row", break_row)


@mutation(19, hunt=PRODUCER)
def takes_unknown_for_refused(patch: Patch) -> None:
    original = PartitionQueue.unanswered

    def unanswered(
        self: PartitionQueue, batch: ProducerBatch, error: QuorateError, now: float, **_: Any
    ) -> QuorateError | None:
        return original(self, batch, error, now, was_sent=False)

    patch.setattr(PartitionQueue, "unanswered", unanswered)


@mutation(19, hunt=PRODUCER)
def takes_an_expired_batch_on_its_way_for_refused(patch: Patch) -> None:
    original = PartitionQueue._too_late

    def too_late(self: PartitionQueue, batch: ProducerBatch) -> QuorateError:
        batch.may_be_written = False
        return original(self, batch)

    patch.setattr(PartitionQueue, "_too_late", too_late)


@mutation(50, hunt=PRODUCER)
def sends_unnumbered_batches_together(patch: Patch) -> None:
    """So that one that is sent again comes behind its successors."""
    patch.setattr(partition_queue, "_may_have_company", lambda batch: batch.expected_offset is None)


@mutation(19, hunt=PRODUCER)
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


@mutation(
    50,
    hunt=StoryHunt(
        "a slow partition in the same request",
        producer_stories.a_written_batch_is_known_however_long_its_request_takes,
    ),
)
def counts_only_what_is_undecided(patch: Patch) -> None:
    """What was acknowledged since the oldest one left makes room, and the broker forgets the oldest."""
    original = PartitionQueue.acknowledged

    def acknowledged(self: PartitionQueue, batch: ProducerBatch) -> None:
        original(self, batch)
        if self.undecided:
            self.undecided[0].rank = self._numbered - len(self.undecided)

    patch.setattr(PartitionQueue, "acknowledged", acknowledged)


MUTATIONS: Final[tuple[Mutation, ...]] = mutations_in(globals())
