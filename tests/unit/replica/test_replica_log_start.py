"""Rule 48: where a log begins never goes back, whoever leads next; the leader deletes last."""

from __future__ import annotations

import pytest

from quorate.broker.replica.news import News
from quorate.chaos.models.replica_set.replica_harness import ReplicaHarness
from quorate.core.ids import BrokerId, Offset
from quorate.errors import OffsetNotAvailable


def leader_of_five() -> ReplicaHarness:
    """Five records, committed by brokers 1, 2 and 3, that all begin at 0."""
    replica = ReplicaHarness()
    replica.lead()
    replica.append(5)
    replica.fetch(2, 5)
    replica.fetch(3, 5)
    assert replica.high_watermark == 5
    return replica


def expires(replica: ReplicaHarness, offset: int) -> None:
    replica.plain_log.expired = Offset(offset)
    replica.leadership.want_log_start()


def test_a_leader_deletes_what_is_gone_at_everybody_who_may_lead_next() -> None:
    replica = leader_of_five()
    expires(replica, 4)
    assert replica.leadership.wanted_log_start == 4
    assert replica.partition.deletable_below == 0
    replica.fetch(2, 5, log_start=4)
    assert replica.partition.deletable_below == 0
    replica.fetch(3, 5, log_start=3)
    assert replica.partition.deletable_below == 3


def test_a_leader_wants_nothing_to_go_that_is_not_committed() -> None:
    replica = leader_of_five()
    replica.append(2)
    expires(replica, 7)
    assert replica.leadership.wanted_log_start == 5


def test_a_leader_without_followers_deletes_what_has_expired() -> None:
    replica = leader_of_five()
    replica.apply(replica.state(isr=(1,), replicas=(1,), min_isr=1))
    replica.append()
    expires(replica, 6)
    assert replica.partition.deletable_below == 6


def test_a_leader_does_not_wait_for_who_may_not_lead_next() -> None:
    replica = leader_of_five()
    replica.fetch(2, 5, log_start=4)
    replica.apply(replica.state(isr=(1, 2)))
    expires(replica, 5)
    assert replica.partition.deletable_below == 4


def test_a_follower_deletes_nothing_by_itself() -> None:
    """One clock and one setting count: the leader's."""
    replica = leader_of_five()
    replica.apply(replica.state(leader=2, leader_epoch=1))
    assert replica.partition.deletable_below == 0


def test_who_left_the_isr_while_too_few_were_in_it_may_lead_next() -> None:
    replica = leader_of_five()
    expires(replica, 5)
    for broker_id in (2, 3):
        replica.fetch(broker_id, 5, log_start=2)
    replica.apply(replica.state(isr=(1,), elr=(2, 3)))
    assert replica.partition.deletable_below == 2


def test_answers_of_the_controller_do_not_tell_of_the_elr() -> None:
    """Who was in the ISR by the metadata, or since, counts until the metadata says otherwise."""
    replica = ReplicaHarness()
    replica.lead(isr=(1, 2))
    replica.append(5)
    replica.fetch(2, 5, log_start=4)
    replica.fetch(3, 5)
    assert replica.asked_isr() == [1, 2, 3]
    replica.grant((1, 2, 3), partition_epoch=2)
    replica.append()
    replica.clock.advance(100.0)
    assert replica.asked_isr() == [1]
    replica.grant((1,), partition_epoch=3)
    expires(replica, 5)
    assert replica.leadership.isr == (1,)
    assert replica.partition.deletable_below == 0
    replica.apply(replica.state(isr=(1,), partition_epoch=3))
    assert replica.partition.deletable_below == 5


def test_the_log_start_is_told_once_everybody_who_may_lead_next_begins_there() -> None:
    replica = leader_of_five()
    # As a follower it did what its leader said, and was then elected.
    replica.plain_log.log_start_offset = Offset(3)
    replica.lead(leader_epoch=1)
    heard: list[News] = []
    replica.leadership.wake_on_news(BrokerId(3), heard.append)
    for broker_id, log_start in ((2, 3), (3, 0)):
        with pytest.raises(OffsetNotAvailable, match="begins at 3 here"):
            replica.leadership.earliest_offset()
        replica.fetch(broker_id, 5, log_start=log_start)
    assert heard.count(News.LOG_START) == 2
    with pytest.raises(OffsetNotAvailable):
        replica.leadership.earliest_offset()
    replica.fetch(3, 5, log_start=4)
    assert replica.leadership.earliest_offset() == 3


def test_a_log_that_begins_at_0_is_told_at_once() -> None:
    replica = ReplicaHarness()
    replica.lead()
    assert replica.leadership.earliest_offset() == 0


def test_a_follower_that_has_not_deleted_what_the_leader_has_is_not_admitted() -> None:
    replica = ReplicaHarness()
    replica.lead(isr=(1, 2))
    replica.append(5)
    replica.fetch(2, 5, log_start=3)
    replica.plain_log.log_start_offset = Offset(3)
    replica.fetch(3, 5, log_start=2)
    assert replica.asked_isr() is None
    replica.fetch(3, 5, log_start=3)
    assert replica.asked_isr() == [1, 2, 3]


def test_followers_are_told_what_has_expired_once() -> None:
    replica = leader_of_five()
    heard: list[News] = []
    replica.leadership.wake_on_news(BrokerId(2), heard.append)
    expires(replica, 3)
    expires(replica, 3)
    assert heard == [News.LOG_START]
