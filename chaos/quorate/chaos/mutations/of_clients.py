"""Mutations of what clients rely on: conditional appends, idempotence, topic ids, positions of readers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from quorate.broker.handlers.produce_in_progress import PartitionAppend, Waiter
from quorate.broker.hosted import Hosted
from quorate.broker.replica.leadership import Leadership, LogEndsLater
from quorate.chaos.cluster.faults.kinds import Fault
from quorate.chaos.models.log import log_checkers
from quorate.chaos.mutations.cluster_hunt import ClusterHunt
from quorate.chaos.mutations.cluster_stories import (
    a_reader_is_told_what_has_vanished,
    a_reader_of_a_deleted_topic_is_told,
    a_topic_made_anew_is_another_one,
    cluster_story,
)
from quorate.chaos.mutations.hunts import StoryHunt
from quorate.chaos.mutations.mutation import Mutation, mutation, mutations_in
from quorate.chaos.sim.patch import Patch
from quorate.client.consumer.positions import EpochEnd, Need, PartitionReader
from quorate.core.disk import Bytes
from quorate.core.ids import Offset
from quorate.core.records import BatchHeader
from quorate.errors import OffsetNotAvailable
from quorate.storage import Appended, PartitionLog
from quorate.storage.leader_epochs import LeaderEpochCache
from quorate.storage.producer_state import ProducerEntry, ProducerStates
from quorate.storage.recovery import LogScanner

__all__ = ["MUTATIONS"]

_LEADER_TROUBLE: Final = (Fault.KILL_LEADER, Fault.CUT_LEADER_FROM_FOLLOWERS)


# -- conditional append (rules 19, 37 and 50 in one)


@mutation(19, hunt=ClusterHunt(_LEADER_TROUBLE, is_competition=True))
def refusal_rests_on_what_may_vanish(patch: Patch) -> None:
    """A conditional append is refused with the end of the leader's log, whether that will stay or not."""
    wait_for = PartitionAppend.wait_for

    def do_not_wait(self: PartitionAppend, waiter: Waiter | None) -> None:
        if self.is_mismatch and waiter is not None:
            waiter.cancel()
        else:
            wait_for(self, waiter)

    patch.setattr(PartitionAppend, "wait_for", do_not_wait)


@mutation(50, hunt=ClusterHunt((Fault.LOSE_ANSWERS,), is_competition=True))
def condition_is_looked_at_before_duplicates(patch: Patch) -> None:
    """A retry of what was written finds the log longer than expected: by itself."""

    def find_nothing(_: PartitionLog, batch: Bytes) -> None:
        del batch

    patch.setattr(PartitionLog, "find_duplicate", find_nothing)


@mutation(50, hunt=ClusterHunt((Fault.PAUSE, Fault.DELAY), is_competition=True))
def condition_is_compared_with_the_high_watermark(patch: Patch) -> None:
    """Two appends on their way at once have the same expectation, and both fit."""

    def append_if(self: Leadership, batch: Bytes, expected_offset: Offset) -> Appended | LogEndsLater:
        duplicate = self._log.find_duplicate(batch)
        if duplicate is not None:
            return duplicate
        if expected_offset < self.high_watermark:
            return LogEndsLater(self.high_watermark)
        if expected_offset > self.high_watermark:
            raise OffsetNotAvailable("not yet")
        return self.append(batch, acks_all=True)

    patch.setattr(Leadership, "append_if", append_if)


# -- idempotence


@mutation(49, 50, hunt=ClusterHunt((Fault.LOSE_ANSWERS,)))
def producers_are_forgotten(patch: Patch) -> None:
    """A batch that was sent again is written again."""
    patch.setattr(ProducerStates, "check", lambda *_: None)


@mutation(49, hunt=ClusterHunt((Fault.LOSE_ANSWERS, Fault.KILL_ALL_BROKERS)))
def start_does_not_replay_producers(patch: Patch) -> None:
    """A start knows the producers of the last snapshot, and not what they have written since."""
    original = LogScanner.__init__

    def init(self: LogScanner, epochs: LeaderEpochCache, _: ProducerStates, **more: Any) -> None:
        original(self, epochs, ProducerStates(), **more)

    patch.setattr(LogScanner, "__init__", init)


@mutation(51, hunt=StoryHunt("lives of a log", log_checkers.check_duplicates_are_told_from_gaps))
def duplicate_is_called_out_of_order(patch: Patch) -> None:
    """So that the client begins a new epoch, and writes it again (Redpanda #3039)."""

    def duplicate_of(self: ProducerStates, header: BatchHeader, entry: ProducerEntry) -> Any:
        raise self._out_of_order(header, expected=entry.next_sequence)

    patch.setattr(ProducerStates, "_duplicate_of", duplicate_of)


@mutation(52, hunt=ClusterHunt((Fault.LOSE_ANSWERS, Fault.KILL_LEADER, Fault.CUT_LEADER_FROM_CLIENTS)))
def new_producer_epoch_keeps_the_old_window(patch: Patch) -> None:
    """A new record of a new epoch is taken for a duplicate of an old one, and lost."""
    original = ProducerStates.check

    def check(self: ProducerStates, header: BatchHeader) -> Any:
        entry = self._entries.get(header.producer_id)
        if entry is not None and header.producer_epoch > entry.epoch:
            for batch in entry.batches:
                if batch.base_sequence == header.base_sequence:
                    return batch
        return original(self, header)

    patch.setattr(ProducerStates, "check", check)


# -- topics and positions


@mutation(43, hunt=cluster_story(a_topic_made_anew_is_another_one))
def topic_is_found_by_its_name_alone(patch: Patch) -> None:
    """A topic that was made anew is taken for the one that was deleted."""
    original: Callable[..., Any] = Hosted.topic

    def topic(self: Hosted, name: str, topic_id: str) -> Any:
        return original(self, name, "" if name else topic_id)

    patch.setattr(Hosted, "topic", topic)


@mutation(43, hunt=cluster_story(a_reader_of_a_deleted_topic_is_told))
def reader_goes_on_in_a_topic_made_anew(patch: Patch) -> None:
    """With the offset that it had in the one that was deleted."""
    original = PartitionReader.replaced_by

    def replaced_by(self: PartitionReader, topic_id: str | None) -> None:
        if topic_id is None:
            original(self, topic_id)
        else:
            self.topic_id = topic_id

    patch.setattr(PartitionReader, "replaced_by", replaced_by)


@mutation(66, hunt=cluster_story(a_reader_is_told_what_has_vanished))
def reader_is_not_validated(patch: Patch) -> None:
    """After an election the reader goes on from its offset, whatever is there by now."""

    def need(self: PartitionReader, read_epoch: object) -> Need:
        self.validated_epoch = self.leader_epoch
        return Need.OFFSET if self.start is not None else Need.FETCH

    patch.setattr(PartitionReader, "need", need)


@mutation(66, hunt=cluster_story(a_reader_is_told_what_has_vanished))
def reader_is_reset_silently(patch: Patch) -> None:
    """What has vanished is not reported; the reader goes on where the log ends."""

    def validated(self: PartitionReader, end: EpochEnd, *, read_epoch: int, leader_epoch: int) -> None:
        assert self.fetch_offset is not None
        self.fetch_offset = min(self.fetch_offset, end.end_offset)
        self.validated_epoch = leader_epoch

    patch.setattr(PartitionReader, "validated", validated)


MUTATIONS: Final[tuple[Mutation, ...]] = mutations_in(globals())
