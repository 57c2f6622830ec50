"""Each promise of the handlers is broken in turn, and its test must notice."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest

from quorate.broker.controller_link.lease import Lease
from quorate.broker.handlers import appending, client_batches, fetch, lookup, produce_stream, reading, targets
from quorate.broker.handlers.client_batches import batch_of
from quorate.broker.handlers.fetch import FetchHandler
from quorate.broker.handlers.produce_in_progress import PartitionAppend, ProduceInProgress
from quorate.broker.handlers.request_memory import RequestMemory
from quorate.broker.replica.leadership import Leadership
from quorate.chaos.sim.patch import Patch
from quorate.core.clock import SystemClock
from quorate.v1 import broker_pb2
from tests.mutants import assert_story_notices
from tests.unit.broker import (
    test_broker_acks,
    test_broker_conditional_append,
    test_broker_fetch,
    test_broker_memory,
    test_broker_produce,
    test_broker_produce_stream,
    test_broker_reads,
)
from tests.unit.broker.broker_harness import batch


def eternal_lease() -> Lease:
    lease = Lease(SystemClock(), duration_s=1.0)
    lease.renew(math.inf)
    return lease


def lease_is_not_looked_at_when_an_append_is_answered(patch: Patch) -> None:
    original = PartitionAppend.fill
    patch.setattr(PartitionAppend, "fill", lambda self, result, _: original(self, result, eternal_lease()))


def lease_counts_when_the_request_is_done_and_not_when_its_answer_leaves(patch: Patch) -> None:
    original = produce_stream._message
    patch.setattr(produce_stream, "_message", lambda answer, _: original(answer, eternal_lease()))


def lease_is_not_looked_at_when_a_fetch_is_answered(patch: Patch) -> None:
    original = reading.fill_fetch_response
    patch.setattr(
        fetch,
        "fill_fetch_response",
        lambda response, readings, _: original(response, readings, eternal_lease()),
    )


def acks_of_the_leader_are_taken_without_a_lease(patch: Patch) -> None:
    patch.setattr(Lease, "check", lambda _: None)


def refusal_does_not_wait_for_the_high_watermark(patch: Patch) -> None:
    original = PartitionAppend.wait_for

    def wait_for(self: PartitionAppend, waiter: Any) -> None:
        original(self, None if self.is_mismatch else waiter)

    patch.setattr(PartitionAppend, "wait_for", wait_for)


def refusal_keeps_its_offset_though_that_may_vanish(patch: Patch) -> None:
    def concluded(self: PartitionAppend, error: Any) -> None:
        self.waiter = None
        if error is not None and not self.is_mismatch:
            self.refuse(error)
        self._produce.one_answered()

    patch.setattr(PartitionAppend, "concluded", concluded)


def refusal_is_called_unknown(patch: Patch) -> None:
    def concluded(self: PartitionAppend, error: Any) -> None:
        self.waiter = None
        if error is not None:
            self.refuse(error)
        self._produce.one_answered()

    patch.setattr(PartitionAppend, "concluded", concluded)


def unknown_outcome_carries_offsets(patch: Patch) -> None:
    original = PartitionAppend.fill

    def fill(self: PartitionAppend, result: broker_pb2.ProducePartitionResult, lease: Any) -> None:
        original(self, result, lease)
        result.base_offset, result.next_offset = self.base_offset, self.next_offset

    patch.setattr(PartitionAppend, "fill", fill)


def acks_all_is_answered_by_the_leader_alone(patch: Patch) -> None:
    patch.setattr(Leadership, "when_committed", Leadership.when_stored)


def one_partition_answers_for_the_whole_request(patch: Patch) -> None:
    def wait_for(self: PartitionAppend, waiter: Any) -> None:
        self.waiter = waiter
        self._produce.unanswered = 2

    patch.setattr(PartitionAppend, "wait_for", wait_for)


def leader_epoch_of_the_client_is_ignored(patch: Patch) -> None:
    patch.setattr(appending, "known_epoch", lambda _: None)


def transactional_batches_are_taken(patch: Patch) -> None:
    def take(entry: broker_pb2.ProducePartition, topic: Any, **more: Any) -> bytes:
        return entry.batch or batch_of(entry, topic, **more)

    patch.setattr(appending, "batch_of", take)


def timestamps_are_not_looked_at(patch: Patch) -> None:
    patch.setattr(client_batches, "_check_times", lambda *_: None)


def leader_is_not_named(patch: Patch) -> None:
    patch.setattr(appending, "for_client", lambda error, _: error)


def follower_calls_what_it_lacks_out_of_range(patch: Patch) -> None:
    patch.setattr(reading, "_is_behind", lambda *_: False)


def fetch_looks_only_once(patch: Patch) -> None:
    original = FetchHandler._read_or_wait

    def read(self: FetchHandler, request: broker_pb2.FetchRequest) -> Any:
        request.max_wait_ms = 0
        return original(self, request)

    patch.setattr(FetchHandler, "_read_or_wait", read)


def partition_may_be_named_twice(patch: Patch) -> None:
    def find(hosted: Any, named: Any, **_: Any) -> list[Any]:
        return [hosted.find(each.topic, each.topic_id, each.partition) for each in named]

    patch.setattr(appending, "find_partitions", find)


def client_that_has_gone_is_still_waited_for(patch: Patch) -> None:
    patch.setattr(ProduceInProgress, "give_up", lambda _: None)


def calls_are_never_refused(patch: Patch) -> None:
    patch.setattr(RequestMemory, "hold_or_refuse", lambda *_: nullcontext())


def streams_are_read_without_end(patch: Patch) -> None:
    patch.setattr(produce_stream, "_PARTITIONS_MAX", 1_000_000)


def lease_is_not_looked_at_when_offsets_are_listed(patch: Patch) -> None:
    original = targets.answer_each

    def answer_each(hosted: Any, *rest: Any, **more: Any) -> None:
        with Patch() as lasting:
            lasting.setattr(hosted, "lease", eternal_lease())
            original(hosted, *rest, **more)

    patch.setattr(lookup, "answer_each", answer_each)


acks, conditional, streams, reads = (
    test_broker_acks,
    test_broker_conditional_append,
    test_broker_produce_stream,
    test_broker_reads,
)
ACKS_LEADER = broker_pb2.ACKS_LEADER

#: a broken promise, and the test that is about it
MUTANTS: list[tuple[Callable[[Patch], None], Callable[[], None]]] = [
    (
        lease_is_not_looked_at_when_an_append_is_answered,
        acks.test_lease_that_ends_before_the_answer_leaves_makes_acks_of_the_leader_unknown,
    ),
    (
        lease_is_not_looked_at_when_an_append_is_answered,
        conditional.test_refusal_needs_the_lease_as_it_leaves,
    ),
    (
        lease_counts_when_the_request_is_done_and_not_when_its_answer_leaves,
        streams.test_lease_counts_when_an_answer_leaves,
    ),
    (lease_is_not_looked_at_when_a_fetch_is_answered, reads.test_without_the_lease_no_reader_is_answered),
    (lease_is_not_looked_at_when_offsets_are_listed, reads.test_without_the_lease_no_reader_is_answered),
    (
        acks_of_the_leader_are_taken_without_a_lease,
        lambda: acks.test_without_the_lease_the_leader_alone_takes_nothing(ACKS_LEADER),
    ),
    (
        refusal_does_not_wait_for_the_high_watermark,
        conditional.test_refusal_waits_until_the_offset_that_it_names_is_committed,
    ),
    (
        refusal_keeps_its_offset_though_that_may_vanish,
        conditional.test_refusal_names_no_offset_when_leadership_is_lost_before_that_is_committed,
    ),
    (
        refusal_is_called_unknown,
        conditional.test_refusal_names_no_offset_when_leadership_is_lost_before_that_is_committed,
    ),
    (
        unknown_outcome_carries_offsets,
        acks.test_lost_leadership_leaves_the_outcome_unknown_whatever_the_new_leader_has,
    ),
    (
        acks_all_is_answered_by_the_leader_alone,
        acks.test_acks_all_is_answered_when_every_member_of_the_isr_has_the_batch,
    ),
    (
        acks_all_is_answered_by_the_leader_alone,
        acks.test_retry_gets_the_original_offset_only_once_that_is_committed,
    ),
    (
        one_partition_answers_for_the_whole_request,
        acks.test_wait_of_many_partitions_ends_with_the_last_of_them_each_with_its_own_outcome,
    ),
    (
        leader_epoch_of_the_client_is_ignored,
        lambda: test_broker_produce.test_refused_partition_is_not_written_and_does_not_affect_the_others(
            broker_pb2.ProducePartition(topic="t", current_leader_epoch=9, batch=batch("a")),
            "UNKNOWN_LEADER_EPOCH",
        ),
    ),
    (
        transactional_batches_are_taken,
        lambda: test_broker_produce.test_refused_partition_is_not_written_and_does_not_affect_the_others(
            broker_pb2.ProducePartition(topic="t", batch=test_broker_produce.TRANSACTIONAL),
            "UNSUPPORTED_BATCH",
        ),
    ),
    (
        timestamps_are_not_looked_at,
        lambda: acks.test_record_from_another_time_is_refused(-acks.HOUR_MS - 1, {}, False),
    ),
    (leader_is_not_named, acks.test_broker_that_does_not_lead_names_the_one_that_does),
    (
        follower_calls_what_it_lacks_out_of_range,
        reads.test_follower_that_is_behind_does_not_call_an_offset_out_of_range,
    ),
    (fetch_looks_only_once, test_broker_fetch.test_fetch_wakes_when_a_record_arrives),
    (
        partition_may_be_named_twice,
        test_broker_produce.test_partition_named_twice_fails_the_call_and_nothing_is_written,
    ),
    (client_that_has_gone_is_still_waited_for, streams.test_client_that_goes_away_leaves_nothing_behind),
    (
        calls_are_never_refused,
        test_broker_memory.test_call_that_was_refused_succeeds_when_there_is_room_again,
    ),
    (streams_are_read_without_end, streams.test_stream_is_not_read_on_beyond_what_may_be_unanswered),
]


@pytest.mark.parametrize(
    ("mutate", "test"),
    MUTANTS,
    ids=[f"{number}-{mutate.__name__}" for number, (mutate, _) in enumerate(MUTANTS)],
)
def test_broken_promise_is_noticed(mutate: Callable[[Patch], None], test: Callable[[], None]) -> None:
    assert_story_notices(mutate, test)
