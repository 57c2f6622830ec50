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


def test_a_leader_deletes_what_is_gone_at_everybody_who_may_lead_next() -> None:
    replica = leader_of_five()
    assert replica.partition.deletable_below == 0
    replica.fetch(2, 5, log_start=4)
    assert replica.partition.deletable_below == 0
    replica.fetch(3, 5, log_start=3)
    assert replica.partition.deletable_below == 3


def test_a_leader_without_followers_deletes_what_is_committed() -> None:
    replica = leader_of_five()
    replica.apply(replica.state(isr=(1,), replicas=(1,), min_isr=1))
    replica.append()
    assert replica.partition.deletable_below == 6


def test_a_leader_does_not_wait_for_who_may_not_lead_next() -> None:
    replica = leader_of_five()
    replica.fetch(2, 5, log_start=4)
    replica.apply(replica.state(isr=(1, 2)))
    assert replica.partition.deletable_below == 4


def test_a_follower_deletes_what_it_knows_to_be_committed() -> None:
    replica = leader_of_five()
    replica.apply(replica.state(leader=2, leader_epoch=1))
    assert replica.partition.deletable_below == 5


def test_who_left_the_isr_while_too_few_were_in_it_may_lead_next() -> None:
    replica = leader_of_five()
    for broker_id in (2, 3):
        replica.fetch(broker_id, 5, log_start=2)
    replica.apply(replica.state(isr=(1,), elr=(2, 3)))
    assert replica.partition.deletable_below == 2


def test_an_answer_of_the_controller_does_not_tell_of_the_elr() -> None:
    """Who was in the ISR by the metadata counts until the metadata says otherwise."""
    replica = leader_of_five()
    replica.append()
    replica.clock.advance(100.0)
    assert replica.asked_isr() == [1]
    replica.grant((1,), partition_epoch=2)
    assert replica.leadership.isr == (1,)
    assert replica.partition.deletable_below == 0


def test_the_log_start_is_told_once_everybody_who_may_lead_next_begins_there() -> None:
    replica = leader_of_five()
    assert replica.leadership.earliest_offset() == 0
    # As a follower it deleted by itself, and was then elected.
    replica.plain_log.log_start_offset = Offset(3)
    replica.lead(leader_epoch=1)
    for broker_id, log_start in ((2, 3), (3, 0)):
        with pytest.raises(OffsetNotAvailable, match="begins at 3 here"):
            replica.leadership.earliest_offset()
        replica.fetch(broker_id, 5, log_start=log_start)
    with pytest.raises(OffsetNotAvailable):
        replica.leadership.earliest_offset()
    replica.fetch(3, 5, log_start=4)
    assert replica.leadership.earliest_offset() == 3


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


def test_followers_are_asked_where_they_begin() -> None:
    replica = leader_of_five()
    heard: list[News] = []
    replica.leadership.wake_on_news(BrokerId(2), heard.append)
    replica.leadership.ask_log_starts()
    assert heard == [News.LOG_STARTS_WANTED]
