"""Mutations of the handlers of clients' requests: what is answered, when, by whom (rules 3, 17 to 20, 37).

Held against tests of one broker, whose replicas, lease and clock are moved by hand: what these rules are
about is the moment at which an answer leaves.
"""

from __future__ import annotations

import math
from typing import Any, Final

from quorate.broker.controller_link.lease import Lease
from quorate.broker.handlers import appending, fetch, lookup, produce_stream, reading, targets
from quorate.broker.handlers.produce_in_progress import PartitionAppend
from quorate.broker.replica.leadership import Leadership
from quorate.chaos.mutations.mutation import Mutation, mutation, mutations_in
from quorate.chaos.mutations.promise_hunts import PromiseHunt
from quorate.chaos.sim.patch import Patch
from quorate.core.clock import SystemClock
from quorate.v1 import broker_pb2, records_pb2

__all__ = ["MUTATIONS"]

_OF_ANOTHER_EPOCH: Final = broker_pb2.ProducePartition(
    topic="t", current_leader_epoch=9, records=[records_pb2.Record(value=b"a")]
)


def _test(part: str, name: str, *cases: tuple[Any, ...]) -> PromiseHunt:
    return PromiseHunt("one broker by hand", f"tests.unit.broker.test_broker_{part}", name, cases or ((),))


def _eternal_lease() -> Lease:
    lease = Lease(SystemClock(), duration_s=1.0)
    lease.renew(math.inf)
    return lease


@mutation(
    37, hunt=_test("acks", "test_lease_that_ends_before_the_answer_leaves_makes_acks_of_the_leader_unknown")
)
def lease_is_not_looked_at_when_an_append_is_answered(patch: Patch) -> None:
    original = PartitionAppend.fill
    patch.setattr(PartitionAppend, "fill", lambda self, result, _: original(self, result, _eternal_lease()))


@mutation(37, hunt=_test("produce_stream", "test_lease_counts_when_an_answer_leaves"))
def lease_counts_when_the_request_is_done_and_not_when_its_answer_leaves(patch: Patch) -> None:
    original = produce_stream._message
    patch.setattr(produce_stream, "_message", lambda answer, _: original(answer, _eternal_lease()))


@mutation(37, 17, hunt=_test("reads", "test_without_the_lease_no_reader_is_answered"))
def lease_is_not_looked_at_when_a_fetch_is_answered(patch: Patch) -> None:
    original = reading.fill_fetch_response
    patch.setattr(
        fetch,
        "fill_fetch_response",
        lambda response, readings, _: original(response, readings, _eternal_lease()),
    )


@mutation(37, hunt=_test("reads", "test_without_the_lease_no_reader_is_answered"))
def lease_is_not_looked_at_when_offsets_are_listed(patch: Patch) -> None:
    original = targets.answer_each

    def answer_each(hosted: Any, *rest: Any, **more: Any) -> None:
        with Patch() as lasting:
            lasting.setattr(hosted, "lease", _eternal_lease())
            original(hosted, *rest, **more)

    patch.setattr(lookup, "answer_each", answer_each)


@mutation(
    37, hunt=_test("acks", "test_without_the_lease_the_leader_alone_takes_nothing", (broker_pb2.ACKS_LEADER,))
)
def acks_of_the_leader_are_taken_without_a_lease(patch: Patch) -> None:
    patch.setattr(Lease, "check", lambda _: None)


@mutation(
    19, hunt=_test("conditional_append", "test_refusal_waits_until_the_offset_that_it_names_is_committed")
)
def refusal_does_not_wait_for_the_high_watermark(patch: Patch) -> None:
    original = PartitionAppend.wait_for

    def wait_for(self: PartitionAppend, waiter: Any) -> None:
        original(self, None if self.is_mismatch else waiter)

    patch.setattr(PartitionAppend, "wait_for", wait_for)


@mutation(
    19,
    hunt=_test(
        "conditional_append", "test_refusal_names_no_offset_when_leadership_is_lost_before_that_is_committed"
    ),
)
def refusal_keeps_its_offset_though_that_may_vanish(patch: Patch) -> None:
    def concluded(self: PartitionAppend, error: Any) -> None:
        self.waiter = None
        if error is not None and not self.is_mismatch:
            self.refuse(error)
        self._produce.one_answered()

    patch.setattr(PartitionAppend, "concluded", concluded)


@mutation(
    19,
    hunt=_test(
        "conditional_append", "test_refusal_names_no_offset_when_leadership_is_lost_before_that_is_committed"
    ),
)
def refusal_is_called_unknown(patch: Patch) -> None:
    def concluded(self: PartitionAppend, error: Any) -> None:
        self.waiter = None
        if error is not None:
            self.refuse(error)
        self._produce.one_answered()

    patch.setattr(PartitionAppend, "concluded", concluded)


@mutation(
    19, 20, hunt=_test("acks", "test_lost_leadership_leaves_the_outcome_unknown_whatever_the_new_leader_has")
)
def unknown_outcome_carries_offsets(patch: Patch) -> None:
    original = PartitionAppend.fill

    def fill(self: PartitionAppend, result: broker_pb2.ProducePartitionResult, lease: Any) -> None:
        original(self, result, lease)
        result.base_offset, result.next_offset = self.base_offset, self.next_offset

    patch.setattr(PartitionAppend, "fill", fill)


@mutation(20, 15, hunt=_test("acks", "test_retry_gets_the_original_offset_only_once_that_is_committed"))
def acks_all_of_a_retry_is_answered_by_the_leader_alone(patch: Patch) -> None:
    patch.setattr(Leadership, "when_committed", Leadership.when_stored)


@mutation(
    3,
    hunt=_test(
        "produce",
        "test_refused_partition_is_not_written_and_does_not_affect_the_others",
        (_OF_ANOTHER_EPOCH, "UNKNOWN_LEADER_EPOCH"),
    ),
)
def leader_epoch_of_the_client_is_ignored(patch: Patch) -> None:
    patch.setattr(appending, "known_epoch", lambda _: None)


@mutation(18, hunt=_test("reads", "test_follower_that_is_behind_does_not_call_an_offset_out_of_range"))
def follower_calls_what_it_lacks_out_of_range(patch: Patch) -> None:
    patch.setattr(reading, "_is_behind", lambda *_: False)


MUTATIONS: Final[tuple[Mutation, ...]] = mutations_in(globals())
