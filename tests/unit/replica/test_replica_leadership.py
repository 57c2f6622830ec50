"""Epochs, the high watermark and outcomes of one leader."""

from __future__ import annotations

from functools import partial

import pytest

from quorate.broker.replica.divergence import Divergence
from quorate.broker.replica.news import News
from quorate.chaos.models.replica_set import leader_stories
from quorate.chaos.models.replica_set.plain_log import Entry
from quorate.chaos.models.replica_set.replica_harness import ReplicaHarness
from quorate.core.ids import BrokerEpoch, BrokerId, LeaderEpoch, Offset
from quorate.errors import (
    FencedLeaderEpoch,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    OffsetNotAvailable,
    OffsetOutOfRange,
    Unavailable,
    UnknownLeaderEpoch,
)
from quorate.metadata.image import NO_LEADER

# -- epochs


def test_nobody_leads_before_the_first_metadata() -> None:
    replica = ReplicaHarness()
    assert (replica.partition.leader, replica.partition.leader_epoch) == (NO_LEADER, -1)
    assert replica.partition.partition_epoch == -1
    with pytest.raises(NotLeaderOrFollower):
        replica.partition.require_leadership(None)


def test_only_the_current_leader_epoch_is_served() -> None:
    leader_stories.only_the_current_leader_epoch_is_served()


def test_follower_names_the_leader() -> None:
    replica = ReplicaHarness()
    replica.apply(replica.state(leader=2, leader_epoch=5))
    assert replica.partition.is_following(LeaderEpoch(5))
    assert not replica.partition.is_following(LeaderEpoch(4))
    with pytest.raises(NotLeaderOrFollower) as caught:
        replica.partition.require_leadership(5)
    assert (caught.value.facts["leader"], caught.value.facts["leader_epoch"]) == (2, 5)
    with pytest.raises(FencedLeaderEpoch):
        replica.partition.require_leadership(4)


def test_older_metadata_is_ignored() -> None:
    replica = ReplicaHarness()
    replica.lead(leader_epoch=5)
    older = replica.state(leader=2, leader_epoch=4, partition_epoch=0)
    replica.apply(older)
    assert replica.leadership.epoch == 5


def test_answer_is_not_undone_by_older_metadata() -> None:
    leader_stories.an_answer_is_not_undone_by_older_metadata()


def test_epoch_is_on_record_before_its_first_record() -> None:
    replica = ReplicaHarness()
    replica.lead(leader_epoch=5)
    assert replica.plain_log.epochs == [(5, 0)]


def test_follower_counts_only_after_a_fetch_in_this_leader_epoch() -> None:
    leader_stories.a_follower_counts_only_after_a_fetch_in_this_epoch()


def test_leadership_waits_for_a_cut_that_is_under_way() -> None:
    replica = ReplicaHarness()
    replica.plain_log.is_being_cut = True
    replica.apply(replica.state(leader=1, leader_epoch=3))
    with pytest.raises(NotLeaderOrFollower):
        replica.partition.require_leadership(3)
    replica.plain_log.is_being_cut = False
    replica.partition.begin_waiting_leadership()
    assert replica.leadership.epoch == 3


def test_leadership_that_waited_is_not_begun_after_another_broker_was_elected() -> None:
    replica = ReplicaHarness()
    replica.plain_log.is_being_cut = True
    replica.apply(replica.state(leader=1, leader_epoch=3))
    replica.apply(replica.state(leader=2, leader_epoch=4))
    replica.plain_log.is_being_cut = False
    replica.partition.begin_waiting_leadership()
    assert replica.partition.leadership is None


# -- the high watermark


def test_high_watermark_is_what_every_member_has() -> None:
    replica = ReplicaHarness()
    replica.lead()
    replica.append(5)
    replica.fetch(2, 5)
    assert replica.high_watermark == 0
    replica.fetch(3, 3)
    assert replica.high_watermark == 3
    replica.fetch(3, 5)
    assert replica.high_watermark == 5


def test_follower_outside_the_isr_does_not_hold_back_the_high_watermark() -> None:
    replica = ReplicaHarness()
    replica.lead(isr=(1, 2))
    replica.append(5)
    replica.fetch(3, 0)
    replica.fetch(2, 5)
    assert replica.high_watermark == 5


def test_high_watermark_does_not_move_while_the_isr_is_below_min_isr() -> None:
    replica = ReplicaHarness()
    replica.lead(isr=(1,))
    replica.append(5)
    assert replica.high_watermark == 0
    replica.apply(replica.state(min_isr=1))
    assert replica.high_watermark == 5


def test_leader_alone_commits_at_the_append() -> None:
    replica = ReplicaHarness()
    leadership = replica.lead(isr=(1,), min_isr=1)
    appended = leadership.append(b"v", acks_all=True)
    assert replica.high_watermark == 1
    assert leadership.when_committed(Offset(appended.last_offset + 1), replica.outcomes.append) is None


def test_high_watermark_never_moves_back_with_a_follower_that_does() -> None:
    replica = ReplicaHarness()
    replica.lead(isr=(1, 2))
    replica.append(5)
    replica.fetch(2, 5)
    replica.fetch(2, 2)
    assert replica.high_watermark == 5


def test_follower_takes_no_more_of_the_high_watermark_than_its_log_holds() -> None:
    replica = ReplicaHarness()
    replica.apply(replica.state(leader=2, leader_epoch=1))
    replica.plain_log.append_as_follower([Entry(1, b"v")] * 3)
    replica.partition.advance_high_watermark_from_leader(Offset(7))
    assert replica.high_watermark == 3
    replica.partition.advance_high_watermark_from_leader(Offset(2))
    assert replica.high_watermark == 3


def test_high_watermark_goes_with_a_log_that_is_cut_below_it() -> None:
    """Only behind an unclean leader; what comes after the cut is not committed for having an old number."""
    replica = ReplicaHarness()
    replica.apply(replica.state(leader=2, leader_epoch=1))
    replica.plain_log.append_as_follower([Entry(1, b"v")] * 5)
    replica.partition.advance_high_watermark_from_leader(Offset(5))
    replica.plain_log.truncate_to(2)
    replica.partition.begin_waiting_leadership()
    replica.plain_log.append_as_follower([Entry(2, b"w")] * 5)
    assert replica.high_watermark == 2


def test_checkpointed_high_watermark_is_clamped_to_the_log() -> None:
    assert ReplicaHarness(high_watermark=9).high_watermark == 0


def test_new_leader_does_not_say_where_the_log_ends_before_it_knows() -> None:
    """Rule 17."""
    replica = ReplicaHarness()
    replica.plain_log.append_as_follower([Entry(0, b"v")] * 4)
    leadership = replica.lead(leader_epoch=1, isr=(1, 2))
    for question in (leadership.latest_offset, lambda: leadership.end_of_epoch(LeaderEpoch(0))):
        with pytest.raises(OffsetNotAvailable):
            question()
    replica.fetch(2, 4)
    assert leadership.latest_offset() == 4
    assert leadership.end_of_epoch(LeaderEpoch(0)) == (0, 4)


def test_end_of_the_current_epoch_is_the_high_watermark() -> None:
    replica = ReplicaHarness()
    leadership = replica.lead(isr=(1, 2))
    replica.append(5)
    replica.fetch(2, 3)
    assert leadership.end_of_epoch(LeaderEpoch(0)) == (0, 3)
    assert leadership.end_of_epoch(LeaderEpoch(1)) is None


# -- outcomes


def test_producers_are_told_in_the_order_of_offsets() -> None:
    replica = ReplicaHarness()
    leadership = replica.lead(isr=(1, 2))
    replica.append(3)
    told: list[int] = []
    # The second one is a retry that came late.
    for end in (3, 1, 2):
        on_done = partial(lambda end, _: told.append(end), end)
        assert leadership.when_committed(Offset(end), on_done) is not None
    replica.fetch(2, 2)
    assert told == [1, 2]
    replica.fetch(2, 3)
    assert told == [1, 2, 3]


def test_producer_that_left_is_not_told() -> None:
    replica = ReplicaHarness()
    leadership = replica.lead(isr=(1, 2))
    replica.append()
    waiter = leadership.when_committed(Offset(1), replica.outcomes.append)
    assert waiter is not None
    waiter.cancel()
    replica.fetch(2, 1)
    assert replica.outcomes == []


def test_too_few_members_refuse_the_append_before_anything_is_written() -> None:
    replica = ReplicaHarness()
    leadership = replica.lead(isr=(1,))
    with pytest.raises(NotEnoughReplicas) as caught:
        leadership.append(b"v", acks_all=True)
    assert caught.value.facts == {"isr_size": 1, "min_insync_replicas": 2}
    with pytest.raises(NotEnoughReplicas):
        leadership.append_if(b"v", Offset(0))
    assert replica.plain_log.log_end_offset == 0
    leadership.append(b"v", acks_all=False)


def test_isr_that_falls_below_min_isr_ends_what_waits_as_unknown() -> None:
    """Rule 15, at completion."""
    replica = ReplicaHarness()
    leadership = replica.lead()
    leadership.append(b"v", acks_all=True)
    replica.wait_for(1)
    replica.apply(replica.state(isr=(1,)))
    (outcome,) = replica.outcomes
    assert isinstance(outcome, NotEnoughReplicasAfterAppend)
    with pytest.raises(NotEnoughReplicasAfterAppend):
        leadership.when_committed(Offset(1), replica.outcomes.append)


def test_raised_min_isr_ends_what_waits_as_unknown() -> None:
    replica = ReplicaHarness()
    replica.lead(isr=(1, 2))
    replica.append()
    replica.wait_for(1)
    replica.apply(replica.state(min_isr=3))
    assert [type(each) for each in replica.outcomes] == [NotEnoughReplicasAfterAppend]


@pytest.mark.parametrize("how", ["elected another", "elected again", "failed", "stopped"])
def test_end_of_a_leadership_ends_what_waits_as_unknown_exactly_once(how: str) -> None:
    """Rule 19."""
    replica = ReplicaHarness()
    leadership = replica.lead()
    replica.append()
    replica.wait_for(1)
    news: list[News] = []
    leadership.wake_on_news(BrokerId(2), news.append)
    if how == "elected another":
        replica.apply(replica.state(leader=2, leader_epoch=1))
    elif how == "elected again":
        replica.apply(replica.state(leader=1, leader_epoch=1))
    elif how == "failed":
        replica.partition.fail(Unavailable("a test"))
    else:
        replica.partition.stop()
    assert [type(each) for each in replica.outcomes] == [Unavailable]
    assert news == [News.ENDED]
    replica.partition.stop()
    assert len(replica.outcomes) == 1
    assert leadership.next_alteration() is None
    for call in (
        lambda: leadership.append(b"v", acks_all=False),
        lambda: leadership.append_if(b"v", Offset(1)),
        lambda: leadership.read(Offset(0), bytes_max=1),
        lambda: leadership.latest_offset(),
        lambda: leadership.earliest_offset(),
        lambda: leadership.follower_at(BrokerId(2), BrokerEpoch(102), Offset(1), LeaderEpoch(0), Offset(0)),
        lambda: leadership.wake_on_news(BrokerId(2), news.append),
    ):
        with pytest.raises(NotLeaderOrFollower):
            call()
    # What was appended a moment ago may be anything by now.
    with pytest.raises(Unavailable):
        leadership.when_committed(Offset(1), replica.outcomes.append)


def test_failure_keeps_the_replica_from_leading_again() -> None:
    replica = ReplicaHarness()
    replica.lead()
    error = Unavailable("a test")
    replica.partition.fail(error)
    assert replica.partition.failure is error
    assert replica.failures == [error]
    replica.apply(replica.state(leader=1, leader_epoch=1))
    assert replica.partition.leadership is None
    assert replica.failures == [error, error]
    with pytest.raises(NotLeaderOrFollower) as caught:
        replica.partition.require_leadership(1)
    assert "leader" not in caught.value.facts


# -- followers


def test_position_of_a_diverged_log_is_no_acknowledgement() -> None:
    """Rules 8 and 16."""
    replica = ReplicaHarness()
    replica.plain_log.append_as_follower([Entry(0, b"v")] * 3 + [Entry(2, b"v")] * 3)
    replica.lead(leader_epoch=3, isr=(1, 2))
    assert replica.fetch(2, 5, last_epoch=0) == Divergence(LeaderEpoch(0), Offset(3))
    assert replica.fetch(2, 5, last_epoch=1) == Divergence(LeaderEpoch(0), Offset(3))
    assert replica.fetch(2, 7, last_epoch=2) == Divergence(LeaderEpoch(2), Offset(6))
    assert replica.high_watermark == 0
    assert replica.fetch(2, 6, last_epoch=2) is None
    assert replica.high_watermark == 6


def test_rule_8_an_empty_log_is_no_prefix_of_a_leader_that_was_forced() -> None:
    leader_stories.an_empty_log_of_another_past_begins_anew()


def test_rule_8_an_empty_log_is_a_prefix_of_every_leader_while_nothing_was_given_up() -> None:
    replica = ReplicaHarness()
    replica.lead(isr=(1, 2))
    replica.append(10)
    assert replica.fetch(3, 5, last_epoch=-1, log_start=5) is None


def test_rule_12_an_empty_log_that_may_be_elected_stays() -> None:
    leader_stories.an_empty_log_that_may_be_elected_stays()


def test_rule_12_a_member_keeps_what_its_leader_has_deleted() -> None:
    leader_stories.a_member_keeps_what_its_leader_has_deleted()


def test_rule_25_a_process_that_nobody_has_heard_of_is_not_vouched_for() -> None:
    leader_stories.a_process_that_nobody_has_heard_of_is_not_vouched_for()


def test_follower_that_is_longer_in_the_current_epoch_diverges() -> None:
    replica = ReplicaHarness()
    replica.lead(isr=(1, 2))
    replica.append(2)
    assert replica.fetch(2, 3, last_epoch=0) == Divergence(LeaderEpoch(0), Offset(2))


def test_follower_with_records_of_a_later_epoch_is_refused() -> None:
    replica = ReplicaHarness()
    replica.lead()
    with pytest.raises(UnknownLeaderEpoch):
        replica.fetch(2, 1, last_epoch=7)


def test_follower_outside_of_the_log_starts_anew() -> None:
    """Rule 12."""
    replica = ReplicaHarness()
    replica.lead()
    replica.append(5)
    replica.plain_log.log_start_offset = Offset(3)
    replica.partition.begin_waiting_leadership()
    for offset, last_epoch in ((2, 0), (0, -1), (9, -1)):
        with pytest.raises(OffsetOutOfRange) as caught:
            replica.fetch(2, offset, last_epoch=last_epoch)
        assert caught.value.facts["log_start_offset"] == 3
    assert replica.fetch(2, 4, last_epoch=-1) is None


def test_stranger_may_not_follow() -> None:
    replica = ReplicaHarness()
    replica.lead()
    with pytest.raises(NotLeaderOrFollower):
        replica.fetch(9, 0)


def test_fetch_of_an_earlier_process_is_refused() -> None:
    leader_stories.a_fetch_of_an_earlier_process_does_not_count()


def test_streams_of_followers_are_woken_for_news() -> None:
    replica = ReplicaHarness()
    leadership = replica.lead(isr=(1, 2))
    news: list[News] = []
    leadership.wake_on_news(BrokerId(2), news.append)
    replica.append()
    replica.fetch(2, 1)
    assert news == [News.APPENDED, News.HIGH_WATERMARK]
    leadership.forget(BrokerId(2))
    replica.append()
    assert len(news) == 2
