"""Sessions by heartbeat on the monotonic clock; no time passes here but what is said."""

from __future__ import annotations

import pytest

from quorate.chaos.models.controller.broker_requests import epoch_of
from quorate.chaos.models.controller.small_cluster import SmallCluster
from quorate.controller.brokers import fence_broker
from quorate.controller.heard_witnesses import record_heard_witnesses
from quorate.controller.sessions import BrokerSessions, LapsedSession
from quorate.controller.witnesses import NOTHING_HEARD, HeardWitnesses
from quorate.core.ids import BrokerEpoch, BrokerId

ONE, TWO = BrokerId(1), BrokerId(2)


def sessions_of(cluster: SmallCluster, now: float = 0.0) -> BrokerSessions:
    sessions = BrokerSessions(3.0)
    sessions.start_all_afresh(cluster.image, now)
    return sessions


def epoch(cluster: SmallCluster, broker_id: BrokerId) -> BrokerEpoch:
    return BrokerEpoch(epoch_of(cluster, broker_id))


def test_a_session_lapses_when_no_heartbeat_has_come_for_the_time_out() -> None:
    cluster = SmallCluster(2)
    sessions = sessions_of(cluster)
    sessions.touch(TWO, epoch(cluster, TWO), 1.0, metadata_offset=5)
    assert sessions.next_deadline() == 3.0
    assert sessions.expired(2.9) == []
    assert sessions.expired(3.0) == [LapsedSession(ONE, epoch(cluster, ONE))]
    assert not sessions.is_live(ONE, 3.0)
    assert [each.broker_id for each in sessions.expired(4.0)] == [1, 2]


def test_a_lapsed_session_stays_on_the_list_until_its_end_is_appended() -> None:
    cluster = SmallCluster(1)
    sessions = sessions_of(cluster)
    (lapsed,) = sessions.expired(3.0)
    assert sessions.expired(3.0) == [lapsed]
    sessions.end(lapsed)
    assert sessions.expired(3.0) == []
    assert sessions.next_deadline() is None


def test_a_heartbeat_in_time_saves_a_session_and_the_clock_never_goes_back() -> None:
    cluster = SmallCluster(1)
    sessions = sessions_of(cluster)
    sessions.touch(ONE, epoch(cluster, ONE), 2.0, metadata_offset=5)
    sessions.touch(ONE, epoch(cluster, ONE), 1.0, metadata_offset=4)
    assert sessions.next_deadline() == 5.0


def test_the_end_of_an_earlier_session_does_not_end_the_next_one() -> None:
    cluster = SmallCluster(1)
    sessions = sessions_of(cluster)
    earlier = LapsedSession(ONE, epoch(cluster, ONE))
    cluster.add_broker(1)
    sessions.image_changed(cluster.image)
    sessions.touch(ONE, epoch(cluster, ONE), 1.0, metadata_offset=0)
    sessions.end(earlier)
    assert sessions.is_live(ONE, 2.0)


def test_a_registration_ends_the_session_of_the_process_before() -> None:
    cluster = SmallCluster(1)
    sessions = sessions_of(cluster)
    cluster.add_broker(1)
    sessions.image_changed(cluster.image)
    assert not sessions.is_live(ONE, 0.0)


def test_an_earlier_registration_whose_answer_comes_late_begins_no_session() -> None:
    cluster = SmallCluster(1)
    sessions = sessions_of(cluster)
    earlier = epoch(cluster, ONE)
    cluster.add_broker(1)
    sessions.image_changed(cluster.image)
    sessions.touch(ONE, earlier, 0.0, metadata_offset=0)
    sessions.touch(BrokerId(9), earlier, 0.0, metadata_offset=0)
    assert not sessions.is_live(ONE, 0.0)
    assert not sessions.is_live(BrokerId(9), 0.0)


def test_a_broker_that_was_let_go_has_no_session_so_that_its_next_process_can_register() -> None:
    cluster = SmallCluster(1)
    sessions = sessions_of(cluster)
    cluster.change_broker(1, is_fenced=True, is_shutting_down=True)
    sessions.image_changed(cluster.image)
    assert not sessions.is_live(ONE, 0.0)
    sessions.touch(ONE, epoch(cluster, ONE), 0.0, metadata_offset=0)
    assert not sessions.is_live(ONE, 0.0)
    sessions.start_all_afresh(cluster.image, 0.0)
    assert not sessions.is_live(ONE, 0.0)


def test_a_forgotten_broker_has_no_session() -> None:
    cluster = SmallCluster(1)
    sessions = sessions_of(cluster)
    sessions.image_changed(SmallCluster(0).image)
    assert sessions.expired(100.0) == []


def test_a_new_controller_starts_every_session_afresh_fenced_brokers_included() -> None:
    cluster = SmallCluster(1)
    cluster.add_broker(2, is_fenced=True)
    sessions = sessions_of(cluster, now=100.0)
    assert sessions.is_live(ONE, 102.9)
    assert sessions.is_live(TWO, 102.9)


def test_a_broken_stream_wants_a_probe_unless_the_session_is_over() -> None:
    cluster = SmallCluster(1)
    sessions = sessions_of(cluster)
    assert sessions.wants_probe(ONE, epoch(cluster, ONE), 1.0)
    assert not sessions.wants_probe(ONE, BrokerEpoch(1), 1.0)
    assert not sessions.wants_probe(ONE, epoch(cluster, ONE), 3.0)
    assert not sessions.wants_probe(TWO, epoch(cluster, ONE), 1.0)


def test_a_refused_probe_fences_unless_the_broker_was_heard_since() -> None:
    cluster = SmallCluster(1)
    sessions = sessions_of(cluster)
    current = epoch(cluster, ONE)
    assert sessions.probe_refused(ONE, current, probed_at=1.0) == LapsedSession(ONE, current)
    sessions.touch(ONE, current, 1.5, metadata_offset=0)
    assert sessions.probe_refused(ONE, current, probed_at=1.0) is None
    assert sessions.probe_refused(ONE, BrokerEpoch(1), probed_at=2.0) is None


def test_the_state_offset_is_where_the_broker_was_last_changed() -> None:
    cluster = SmallCluster(2)
    sessions = sessions_of(cluster)
    started = cluster.image.offset
    assert sessions.state_offset(ONE) == started
    cluster.change_broker(2, is_fenced=True)
    sessions.image_changed(cluster.image)
    assert sessions.state_offset(ONE) == started
    assert sessions.state_offset(TWO) == cluster.image.offset
    cluster.create("t", [1])
    sessions.image_changed(cluster.image)
    assert sessions.state_offset(TWO) == cluster.image.offset - 1


def test_others_offset_is_the_lowest_of_the_other_active_brokers() -> None:
    cluster = SmallCluster(3)
    sessions = sessions_of(cluster)
    assert sessions.others_offset(ONE) == -1
    sessions.touch(TWO, epoch(cluster, TWO), 0.0, metadata_offset=7)
    sessions.touch(BrokerId(3), epoch(cluster, BrokerId(3)), 0.0, metadata_offset=9)
    assert sessions.others_offset(ONE) == 7
    cluster.change_broker(2, is_fenced=True)
    sessions.image_changed(cluster.image)
    assert sessions.others_offset(ONE) == 9
    cluster.change_broker(3, is_shutting_down=True)
    sessions.image_changed(cluster.image)
    assert sessions.others_offset(ONE) is None


def test_nothing_that_a_broker_says_revives_a_session_that_was_given_up() -> None:
    cluster = SmallCluster(2)
    sessions = sessions_of(cluster)
    sessions.give_up(ONE, BrokerEpoch(epoch(cluster, ONE) - 1))
    assert sessions.is_live(ONE, 1.0)
    sessions.give_up(ONE, epoch(cluster, ONE))
    sessions.touch(ONE, epoch(cluster, ONE), 1.0, metadata_offset=5)
    assert not sessions.is_live(ONE, 1.0)
    assert sessions.leaving() == {ONE}
    assert sessions.expired(1.0) == [LapsedSession(ONE, epoch(cluster, ONE))]
    sessions.end(LapsedSession(ONE, epoch(cluster, ONE)))
    assert sessions.leaving() == frozenset()


def test_a_broker_that_asks_to_stop_is_leaving() -> None:
    cluster = SmallCluster(1)
    sessions = sessions_of(cluster)
    sessions.touch(ONE, epoch(cluster, ONE), 1.0, metadata_offset=5, wants_shutdown=True)
    assert sessions.leaving() == {ONE}
    assert sessions.is_live(ONE, 1.0)


def test_the_numbers_of_the_witnesses_outlive_the_session_and_goes_with_the_registration() -> None:
    cluster = SmallCluster(1)
    sessions = sessions_of(cluster)
    first = epoch(cluster, ONE)
    assert sessions.heard_witnesses(ONE) == NOTHING_HEARD
    for number in (7, 6, None):
        sessions.touch(ONE, first, 1.0, metadata_offset=0, heard=HeardWitnesses(number))
        assert sessions.heard_witnesses(ONE) == HeardWitnesses(7)
    # Each of the two numbers counts for itself.
    for number in (3, 2, None):
        sessions.touch(ONE, first, 1.0, metadata_offset=0, heard=HeardWitnesses(device=number))
        assert sessions.heard_witnesses(ONE) == HeardWitnesses(7, 3)
    sessions.end(LapsedSession(ONE, first))
    cluster.change_broker(1, is_fenced=True)
    sessions.image_changed(cluster.image)
    assert sessions.heard_witnesses(ONE) == HeardWitnesses(7, 3)
    cluster.add_broker(1)
    sessions.image_changed(cluster.image)
    sessions.touch(ONE, first, 2.0, metadata_offset=0, heard=HeardWitnesses(9))
    assert sessions.heard_witnesses(ONE) == NOTHING_HEARD


def test_a_new_controller_has_heard_of_no_number() -> None:
    cluster = SmallCluster(1)
    sessions = sessions_of(cluster)
    sessions.touch(ONE, epoch(cluster, ONE), 1.0, metadata_offset=0, heard=HeardWitnesses(7))
    sessions.start_all_afresh(cluster.image, 2.0)
    assert sessions.heard_witnesses(ONE) == NOTHING_HEARD


def test_a_number_on_record_is_no_change_of_the_brokers_state() -> None:
    """A stop waits until everybody has seen the last one; numbers go on record all the time."""
    cluster = SmallCluster(2)
    sessions = sessions_of(cluster)
    sessions.touch(ONE, epoch(cluster, ONE), 1.0, metadata_offset=5, heard=HeardWitnesses(7))
    state_offset = sessions.state_offset(ONE)
    cluster.commit(record_heard_witnesses(cluster.image, sessions.heard_witnesses))
    sessions.image_changed(cluster.image)
    assert cluster.image.brokers[ONE].cache_witness == 7
    assert cluster.image.brokers[TWO].cache_witness is None
    assert sessions.state_offset(ONE) == state_offset
    assert sessions.heard_witnesses(ONE) == HeardWitnesses(7)
    assert record_heard_witnesses(cluster.image, sessions.heard_witnesses).records == ()
    cluster.commit(fence_broker(cluster.image, ONE))
    sessions.image_changed(cluster.image)
    assert sessions.state_offset(ONE) == cluster.image.offset


@pytest.mark.parametrize("heard", [HeardWitnesses(cache=7), HeardWitnesses(device=7), HeardWitnesses(7, 7)])
def test_numbers_of_all_brokers_are_one_batch_that_changes_no_epoch(heard: HeardWitnesses) -> None:
    cluster = SmallCluster(40)
    cluster.create("t", [1, 2, 3])
    sessions = sessions_of(cluster)
    for broker in cluster.image.brokers.values():
        sessions.touch(broker.broker_id, broker.broker_epoch, 1.0, metadata_offset=5, heard=heard)
    before = cluster.image
    cluster.commit(record_heard_witnesses(cluster.image, sessions.heard_witnesses))
    assert cluster.image.offset == before.offset + 1
    assert (
        cluster.partition().partition_epoch
        == before.topics[cluster.partition().topic_id].partitions[0].partition_epoch
    )
    for broker_id, broker in cluster.image.brokers.items():
        assert (broker.cache_witness, broker.device_witness) == (heard.cache, heard.device or 0)
        assert broker.broker_epoch == before.brokers[broker_id].broker_epoch
        assert broker.is_as(before.brokers[broker_id])
    # Nothing is news any more: the next round has nothing to append.
    assert not record_heard_witnesses(cluster.image, sessions.heard_witnesses).records


def test_a_heartbeat_that_is_not_later_than_the_last_is_not_listened_to() -> None:
    cluster = SmallCluster(2)
    sessions = sessions_of(cluster)
    assert sessions.hear(ONE, 3)
    assert [sessions.hear(ONE, sequence) for sequence in (2, 3, 5, 4)] == [False, False, True, False]
    # Each broker counts for itself, and none begins with 0.
    assert not sessions.hear(TWO, 0)
    assert sessions.hear(TWO, 1)


def test_the_count_of_heartbeats_outlives_the_session_and_goes_with_the_registration() -> None:
    cluster = SmallCluster(1)
    sessions = sessions_of(cluster)
    assert sessions.hear(ONE, 7)
    sessions.end(LapsedSession(ONE, epoch(cluster, ONE)))
    cluster.change_broker(1, is_fenced=True)
    sessions.image_changed(cluster.image)
    assert not sessions.hear(ONE, 7)
    cluster.add_broker(1)
    sessions.image_changed(cluster.image)
    assert sessions.hear(ONE, 1)
    sessions.image_changed(SmallCluster(0).image)
    assert sessions.hear(ONE, 1)


def test_a_new_controller_listens_to_the_first_heartbeat_whatever_its_number() -> None:
    cluster = SmallCluster(1)
    sessions = sessions_of(cluster)
    assert sessions.hear(ONE, 7)
    sessions.start_all_afresh(cluster.image, 1.0)
    assert sessions.hear(ONE, 7)


def test_a_registration_that_is_answered_once_more_says_nothing_of_who_has_sent_heartbeats() -> None:
    cluster = SmallCluster(1)
    cluster.change_broker(1, is_fenced=True)
    sessions = sessions_of(cluster)
    current = epoch(cluster, ONE)
    sessions.end(LapsedSession(ONE, current))
    sessions.registered(ONE, current, 1.0)
    assert sessions.is_live(ONE, 3.9)
    assert sessions.hear(ONE, 1)
    sessions.touch(ONE, current, 2.0, metadata_offset=5, wants_shutdown=True)
    sessions.registered(ONE, current, 4.0)
    assert sessions.leaving() == {ONE}
    assert not sessions.is_live(ONE, 5.0)
