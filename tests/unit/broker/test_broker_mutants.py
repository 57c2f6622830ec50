"""Each promise of the handlers is broken in turn, and its test must notice.

Those that are safety rules are registered; the rest is what clients are told, and liveness.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest

from quorate.broker.handlers import appending, client_batches, produce_stream
from quorate.broker.handlers.client_batches import batch_of
from quorate.broker.handlers.fetch import FetchHandler
from quorate.broker.handlers.produce_in_progress import PartitionAppend, ProduceInProgress
from quorate.broker.handlers.request_memory import RequestMemory
from quorate.broker.replica.leadership import Leadership
from quorate.chaos.mutations.mutation import Mutation
from quorate.chaos.mutations.of_handlers import MUTATIONS
from quorate.chaos.sim.patch import Patch
from quorate.v1 import broker_pb2
from tests.mutants import assert_is_noticed, assert_story_notices
from tests.unit.broker import (
    test_broker_acks,
    test_broker_conditional_append,
    test_broker_fetch,
    test_broker_memory,
    test_broker_produce,
    test_broker_produce_stream,
    test_broker_reads,
)


def acks_all_is_answered_by_the_leader_alone(patch: Patch) -> None:
    patch.setattr(Leadership, "when_committed", Leadership.when_stored)


def one_partition_answers_for_the_whole_request(patch: Patch) -> None:
    def wait_for(self: PartitionAppend, waiter: Any) -> None:
        self.waiter = waiter
        self._produce.unanswered = 2

    patch.setattr(PartitionAppend, "wait_for", wait_for)


def transactional_batches_are_taken(patch: Patch) -> None:
    def take(entry: broker_pb2.ProducePartition, topic: Any, **more: Any) -> bytes:
        return entry.batch or batch_of(entry, topic, **more)

    patch.setattr(appending, "batch_of", take)


def timestamps_are_not_looked_at(patch: Patch) -> None:
    patch.setattr(client_batches, "_check_times", lambda *_: None)


def leader_is_not_named(patch: Patch) -> None:
    patch.setattr(appending, "for_client", lambda error, _: error)


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


acks, conditional, streams, reads = (
    test_broker_acks,
    test_broker_conditional_append,
    test_broker_produce_stream,
    test_broker_reads,
)
ACKS_LEADER = broker_pb2.ACKS_LEADER

#: what else may be broken, and the test that is about it
BROKEN: list[tuple[Callable[[Patch], None], Callable[[], None]]] = [
    (
        acks_all_is_answered_by_the_leader_alone,
        acks.test_acks_all_is_answered_when_every_member_of_the_isr_has_the_batch,
    ),
    (
        one_partition_answers_for_the_whole_request,
        acks.test_wait_of_many_partitions_ends_with_the_last_of_them_each_with_its_own_outcome,
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
    BROKEN,
    ids=[f"{number}-{mutate.__name__}" for number, (mutate, _) in enumerate(BROKEN)],
)
def test_broken_promise_is_noticed(mutate: Callable[[Patch], None], test: Callable[[], None]) -> None:
    assert_story_notices(mutate, test)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_mutation_is_noticed(mutation: Mutation) -> None:
    assert_is_noticed(mutation)
