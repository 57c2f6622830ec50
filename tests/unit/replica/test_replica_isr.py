"""Who counts as in sync, and how the leader asks the controller for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from quorate.chaos.models.replica_set import leader_stories
from quorate.chaos.models.replica_set.plain_log import Entry
from quorate.chaos.models.replica_set.replica_harness import LAG_S, ReplicaHarness, broker_image, refusal
from quorate.errors import (
    FencedLeaderEpoch,
    IneligibleReplica,
    InvalidUpdateVersion,
    NotController,
    OperationNotAttempted,
    QuorateError,
)
from quorate.metadata.image import Recovery
from quorate.v1.metadata_pb2 import RECOVERY_STATE_NORMAL


def about_to_admit_3() -> ReplicaHarness:
    """ISR (1, 2), five records committed; broker 3 has just caught up."""
    replica = ReplicaHarness()
    replica.lead(isr=(1, 2))
    replica.append(5)
    replica.fetch(2, 5)
    replica.fetch(3, 5)
    return replica


def commits_without_3(replica: ReplicaHarness) -> bool:
    """Does the leader commit the next record although broker 3 does not fetch?"""
    replica.append()
    replica.fetch(2, replica.plain_log.log_end_offset)
    replica.clock.advance(2.0)
    return replica.high_watermark == replica.plain_log.log_end_offset


# -- admission (rule 23)


def test_follower_that_has_caught_up_is_proposed_and_counts_from_then_on() -> None:
    replica = about_to_admit_3()
    assert replica.wishes == 1
    alteration = replica.ask()
    assert [(each.broker_id, each.broker_epoch) for each in alteration.isr] == [(1, 101), (2, 102), (3, 103)]
    assert (alteration.leader_epoch, alteration.partition_epoch) == (0, 1)
    assert not commits_without_3(replica)
    replica.fetch(3, 6)
    assert replica.high_watermark == 6


def test_proposed_member_does_not_count_towards_min_isr() -> None:
    """Rule 14: it has to be committed first."""
    replica = ReplicaHarness()
    replica.lead(isr=(1,))
    replica.append(3)
    replica.fetch(2, 3)
    assert replica.asked_isr() == [1, 2]
    replica.fetch(2, 3)
    assert replica.high_watermark == 0
    replica.grant((1, 2), partition_epoch=2)
    assert replica.high_watermark == 3


def test_follower_below_the_high_watermark_is_not_admitted() -> None:
    replica = ReplicaHarness()
    replica.lead(isr=(1, 2))
    replica.append(5)
    replica.fetch(2, 5)
    replica.fetch(3, 4)
    assert replica.asked_isr() is None


def test_follower_below_the_start_of_the_leader_epoch_is_not_admitted() -> None:
    """What lies between the new leader's high watermark and its first record may be committed."""
    replica = ReplicaHarness()
    replica.plain_log.append_as_follower([Entry(0, b"v")] * 5)
    replica.lead(leader_epoch=1, isr=(1, 2))
    replica.fetch(3, 4)
    assert replica.high_watermark == 0
    assert replica.asked_isr() is None
    replica.fetch(3, 5)
    assert replica.asked_isr() == [1, 2, 3]


def test_follower_that_has_not_fetched_in_this_epoch_is_not_admitted() -> None:
    replica = ReplicaHarness()
    replica.lead(isr=(1, 2))
    assert replica.asked_isr() is None


@pytest.mark.parametrize(
    "broker",
    [
        broker_image(3, is_fenced=True),
        broker_image(3, is_shutting_down=True),
        broker_image(3, epoch=104),
    ],
    ids=["fenced", "shutting down", "registered anew"],
)
def test_follower_whose_broker_may_not_join_is_not_admitted(broker: object) -> None:
    replica = about_to_admit_3()
    replica.apply(replica.state(brokers=[broker]))  # type: ignore[list-item]
    assert replica.asked_isr() is None


def test_follower_is_admitted_once_the_leader_has_heard_of_its_registration() -> None:
    replica = ReplicaHarness()
    replica.lead(isr=(1, 2))
    replica.fetch(3, 0, broker_epoch=300)
    assert replica.asked_isr() is None
    replica.apply(replica.state(brokers=[broker_image(3, epoch=300)]))
    assert replica.wishes == 1
    assert replica.asked_isr() == [1, 2, 3]


def test_recovering_partition_is_confirmed_before_it_grows() -> None:
    """Rule 34."""
    replica = ReplicaHarness()
    replica.lead(isr=(1,), min_isr=1, recovery=Recovery.RECOVERING)
    assert replica.wishes == 1
    replica.fetch(2, 0)
    alteration = replica.ask()
    assert [member.broker_id for member in alteration.isr] == [1]
    assert alteration.recovery_state == RECOVERY_STATE_NORMAL
    replica.grant((1,), partition_epoch=2)
    assert replica.asked_isr() == [1, 2]


# -- waiting for who is about to join


def test_high_watermark_waits_for_a_follower_that_keeps_pace_and_admits_it() -> None:
    """Otherwise one that is always a moment behind would never be admitted."""
    replica = ReplicaHarness()
    replica.lead(isr=(1, 2))
    replica.append(5)
    replica.fetch(3, 4)
    replica.append(1)
    # It has what the log was at its last fetch: it keeps pace, and is never at the end.
    replica.fetch(3, 5)
    replica.fetch(2, 6)
    assert replica.high_watermark == 5
    assert replica.asked_isr() == [1, 2, 3]


def test_high_watermark_does_not_wait_long_for_a_follower_that_dies_on_the_threshold() -> None:
    replica = ReplicaHarness()
    replica.lead(isr=(1, 2))
    replica.append(5)
    replica.fetch(3, 5)
    replica.append(1)
    replica.fetch(2, 6)
    assert replica.high_watermark == 5
    replica.clock.advance(0.6)
    assert replica.high_watermark == 6


def test_high_watermark_waits_for_nobody_who_could_not_be_admitted() -> None:
    replica = ReplicaHarness()
    replica.lead(isr=(1, 2), brokers=[broker_image(3, is_fenced=True)])
    replica.append(5)
    replica.fetch(3, 5)
    replica.append(1)
    replica.fetch(2, 6)
    assert replica.high_watermark == 6


def test_end_of_a_leadership_leaves_no_timer() -> None:
    replica = ReplicaHarness()
    replica.lead(isr=(1, 2))
    replica.append(5)
    replica.fetch(3, 5)
    replica.append(1)
    replica.fetch(2, 6)
    assert replica.clock.timer_count == 1
    replica.partition.stop()
    assert replica.clock.timer_count == 0


# -- lag (rule 26)


def test_follower_that_stops_fetching_is_to_be_removed_and_still_counts() -> None:
    replica = ReplicaHarness()
    replica.lead()
    replica.append(5)
    replica.fetch(2, 5)
    replica.fetch(3, 5)
    replica.append()
    replica.clock.advance(LAG_S - 0.1)
    replica.fetch(2, 6)
    replica.leadership.check_lag(replica.clock.now)
    assert (replica.wishes, replica.asked_isr()) == (0, None)
    replica.clock.advance(0.2)
    replica.leadership.check_lag(replica.clock.now)
    assert replica.wishes == 1
    assert replica.asked_isr() == [1, 2]
    assert replica.high_watermark == 5, "the removal is not committed yet (rule 13)"
    replica.grant((1, 2), partition_epoch=2)
    assert replica.high_watermark == 6


def test_follower_at_the_end_of_a_quiet_log_does_not_lag() -> None:
    replica = ReplicaHarness()
    replica.lead()
    replica.append(5)
    replica.fetch(2, 5)
    replica.fetch(3, 5)
    replica.clock.advance(10 * LAG_S)
    assert replica.asked_isr() is None
    # It is late from the first append on, not from its last fetch on.
    replica.append()
    replica.clock.advance(LAG_S - 0.1)
    assert replica.asked_isr() is None


def test_follower_that_keeps_pace_one_fetch_behind_does_not_lag() -> None:
    replica = ReplicaHarness()
    replica.lead(isr=(1, 2))
    for end in range(1, 20):
        replica.append()
        replica.fetch(2, end - 1)
        replica.clock.advance(LAG_S / 2)
        assert replica.asked_isr() is None


def test_follower_that_falls_further_and_further_behind_lags_although_it_fetches() -> None:
    replica = ReplicaHarness()
    replica.lead(isr=(1, 2))
    replica.append(100)
    for offset in range(1, 5):
        replica.append(100)
        replica.fetch(2, offset)
        replica.clock.advance(LAG_S / 3)
    assert replica.asked_isr() == [1]


def test_member_that_never_fetches_has_the_lag_time_from_the_start_of_the_epoch() -> None:
    replica = ReplicaHarness()
    replica.lead(isr=(1, 2))
    replica.clock.advance(LAG_S - 0.1)
    assert replica.asked_isr() is None
    replica.clock.advance(0.2)
    assert replica.asked_isr() == [1]


def test_newcomer_has_the_lag_time_to_reach_the_end() -> None:
    """Below MinISR the high watermark stands still, and a slow follower reaches it before the end."""
    replica = ReplicaHarness()
    replica.lead(isr=(1,))
    replica.append(100)
    replica.clock.advance(10 * LAG_S)
    replica.fetch(2, 1)
    assert replica.asked_isr() == [1, 2]
    replica.grant((1, 2), partition_epoch=2)
    assert replica.asked_isr() is None
    replica.clock.advance(LAG_S + 0.1)
    assert replica.asked_isr() == [1]


def test_follower_that_was_put_out_for_its_silence_is_not_admitted_before_it_fetches_again() -> None:
    """Below MinISR nothing is committed, so it has all that is: for as long as it says nothing."""
    replica = ReplicaHarness()
    replica.lead(isr=(1, 2))
    replica.append(5)
    replica.fetch(2, 5)
    replica.append()
    replica.clock.advance(LAG_S + 0.1)
    assert replica.asked_isr() == [1]
    replica.grant((1,), partition_epoch=2)
    assert replica.asked_isr() is None
    replica.clock.advance(LAG_S)
    assert replica.asked_isr() is None
    replica.fetch(2, 5)
    assert replica.asked_isr() == [1, 2]


# -- one change at a time (rule 22)


def test_one_change_is_in_flight_at_a_time() -> None:
    replica = about_to_admit_3()
    assert replica.asked_isr() == [1, 2, 3]
    assert replica.asked_isr() is None


def test_wish_without_an_answer_is_sent_again_unchanged() -> None:
    replica = about_to_admit_3()
    first = replica.ask()
    replica.leadership.alteration_unanswered()
    replica.clock.advance(2 * LAG_S)
    assert replica.ask() == first
    assert not commits_without_3(replica)


@pytest.mark.parametrize("error", [IneligibleReplica("a test"), OperationNotAttempted("a test")])
def test_wish_to_remove_that_was_surely_not_applied_is_taken_back(error: QuorateError) -> None:
    replica = ReplicaHarness()
    replica.lead(isr=(1, 2, 3))
    replica.append(5)
    replica.fetch(2, 5)
    replica.clock.advance(LAG_S - 0.1)
    replica.fetch(2, 5)
    replica.clock.advance(0.2)
    assert replica.asked_isr() == [1, 2]
    replica.answer(refusal(error))
    assert not replica.ask().withdraw
    assert replica.high_watermark == 0, "whom it wanted to remove counts as before"


@pytest.mark.parametrize("is_first_copy_lost", [False, True])
@pytest.mark.parametrize("error", [IneligibleReplica("a test"), OperationNotAttempted("a test")])
def test_refused_wish_to_add_counts_until_no_copy_of_it_can_be_applied(
    error: QuorateError, is_first_copy_lost: bool
) -> None:
    replica = about_to_admit_3()
    first = replica.ask()
    if is_first_copy_lost:
        replica.leadership.alteration_unanswered()
        replica.ask()
    replica.answer(refusal(error))
    assert not commits_without_3(replica)
    withdrawal = replica.ask()
    assert withdrawal.withdraw
    assert not withdrawal.isr
    assert (withdrawal.leader_epoch, withdrawal.partition_epoch) == (
        first.leader_epoch,
        first.partition_epoch,
    )
    assert not commits_without_3(replica), "only asked for, not done"
    replica.grant((1, 2), partition_epoch=2)
    assert commits_without_3(replica)


def test_withdrawal_without_an_answer_is_sent_again_and_the_wish_still_counts() -> None:
    replica = about_to_admit_3()
    replica.ask()
    replica.leadership.alteration_unanswered()
    replica.ask()
    replica.answer(refusal(IneligibleReplica("a test")))
    withdrawal = replica.ask()
    replica.leadership.alteration_unanswered()
    assert not commits_without_3(replica)
    assert replica.ask() == withdrawal
    replica.answer(refusal(InvalidUpdateVersion("the lost copy was applied")))
    assert not commits_without_3(replica)


def test_request_that_is_delivered_twice_admits_nobody_who_lacks_records() -> None:
    leader_stories.a_request_that_is_delivered_twice_admits_nobody()


@pytest.mark.parametrize(
    "error",
    [InvalidUpdateVersion("a test"), FencedLeaderEpoch("a test"), NotController("a test")],
    ids=lambda error: error.code,
)
def test_wish_is_kept_after_any_other_error(error: QuorateError) -> None:
    replica = about_to_admit_3()
    first = replica.ask()
    replica.answer(refusal(error))
    assert not commits_without_3(replica)
    assert replica.ask() == first


def test_wish_is_over_when_the_partition_epoch_moves_on() -> None:
    replica = about_to_admit_3()
    replica.ask()
    replica.apply(replica.state(isr=(1, 2)))
    assert commits_without_3(replica)


def test_wish_is_over_when_a_member_registers_anew() -> None:
    """No copy of it can be applied any more: it names the old broker epoch."""
    replica = about_to_admit_3()
    replica.ask()
    replica.leadership.alteration_unanswered()
    replica.apply(replica.state(partition_epoch=1, brokers=[broker_image(3, is_fenced=True)]))
    assert not commits_without_3(replica)
    replica.apply(replica.state(partition_epoch=1, brokers=[broker_image(3, epoch=200, is_fenced=True)]))
    assert commits_without_3(replica)


def test_answer_to_an_earlier_wish_is_not_taken_for_one_to_the_next() -> None:
    replica = about_to_admit_3()
    replica.ask()
    # The metadata settles the wish before its answer comes, and broker 3 is to be admitted again.
    replica.apply(replica.state(isr=(1, 2)))
    replica.fetch(3, 5)
    assert replica.asked_isr() is None, "the controller has not answered yet"
    replica.answer(refusal(InvalidUpdateVersion("a test")))
    second = replica.ask()
    assert second.partition_epoch == 2
    replica.leadership.alteration_unanswered()
    assert not commits_without_3(replica)


def test_new_leader_epoch_is_not_taken_from_an_answer() -> None:
    replica = about_to_admit_3()
    replica.ask()
    replica.grant((1, 2), partition_epoch=7, leader_epoch=1)
    assert (replica.leadership.epoch, replica.partition.partition_epoch) == (0, 1)
    assert not commits_without_3(replica)


def test_answer_is_taken_before_the_metadata_comes() -> None:
    replica = about_to_admit_3()
    replica.ask()
    replica.grant((1, 2, 3), partition_epoch=2)
    assert (replica.leadership.isr, replica.partition.partition_epoch) == ((1, 2, 3), 2)


def test_leader_that_is_not_registered_as_far_as_it_knows_asks_for_nothing() -> None:
    replica = about_to_admit_3()
    state = replica.state()
    brokers = state.brokers.delete(state.image.leader)
    replica.apply(type(state)(state.image, state.min_insync_replicas, state.durability, brokers))
    assert replica.asked_isr() is None


# -- members that a reassignment takes away (rules 37, 47)


def moving_from_3(*, isr: Sequence[int] = (1, 2, 3), **change: Any) -> ReplicaHarness:
    """Broker 1 leads in place of broker 3, which is to go and may not know yet."""
    replica = ReplicaHarness()
    replica.plain_log.append_as_follower([Entry(0, b"v")] * 5)
    replica.apply(replica.state(leader=1, leader_epoch=1, isr=isr, min_isr=2, removing=(3,), **change))
    return replica


def test_member_that_is_to_leave_is_let_go_once_it_has_fetched_in_this_epoch() -> None:
    replica = moving_from_3()
    replica.fetch(2, 5)
    assert replica.asked_isr() is None
    replica.append()
    replica.fetch(2, 6)
    assert replica.high_watermark < 5, "committed without a leader that may not know that it is none"
    replica.fetch(3, 5)
    assert replica.wishes == 1
    assert replica.asked_isr() == [1, 2]


def test_member_that_is_to_leave_counts_until_that_is_committed() -> None:
    replica = moving_from_3()
    replica.fetch(2, 5)
    replica.fetch(3, 5)
    assert replica.asked_isr() == [1, 2]
    replica.append()
    replica.fetch(2, 6)
    assert replica.high_watermark == 5
    replica.grant((1, 2), partition_epoch=2, leader_epoch=1)
    assert commits_without_3(replica)


def test_member_that_was_let_go_is_not_taken_back() -> None:
    replica = moving_from_3(isr=(1, 2))
    replica.fetch(2, 5)
    replica.fetch(3, 5)
    assert (replica.wishes, replica.asked_isr()) == (0, None)


def test_member_that_is_to_leave_stays_while_fewer_than_min_isr_would_be_left() -> None:
    replica = moving_from_3(isr=(1, 3))
    replica.fetch(3, 5)
    assert replica.asked_isr() is None
    replica.fetch(2, 5)
    assert replica.asked_isr() == [1, 2]


def test_fewer_replicas_than_min_isr_can_be_what_a_move_leaves() -> None:
    replica = ReplicaHarness()
    replica.apply(replica.state(leader=1, leader_epoch=1, isr=(1, 2, 3), min_isr=2, removing=(2, 3)))
    replica.fetch(2, 0)
    assert replica.asked_isr() == [1, 3]


def test_member_that_is_to_leave_stays_while_a_new_replica_is_not_in_sync() -> None:
    four = broker_image(4)
    replica = moving_from_3(replicas=(1, 2, 4, 3), adding=(4,), brokers=[four])
    replica.fetch(2, 5)
    replica.fetch(3, 5)
    assert replica.asked_isr() is None
    replica.fetch(4, 5)
    # It has to be committed first that the new one counts.
    assert replica.asked_isr() == [1, 2, 3, 4]
    replica.grant((1, 2, 3, 4), partition_epoch=2, leader_epoch=1)
    assert replica.asked_isr() == [1, 2, 4]


def test_leader_that_is_to_leave_lets_nobody_go() -> None:
    replica = ReplicaHarness()
    replica.apply(replica.state(leader=1, leader_epoch=1, isr=(1, 2, 3), min_isr=1, removing=(1, 3)))
    replica.fetch(2, 0)
    replica.fetch(3, 0)
    assert replica.asked_isr() is None


def test_new_replicas_of_a_move_that_was_called_off_are_let_go() -> None:
    replica = moving_from_3(adding=(3,))
    replica.fetch(2, 5)
    replica.fetch(3, 5)
    assert replica.asked_isr() == [1, 2]
