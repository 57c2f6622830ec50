"""What heartbeats ask for: to serve, to stop, to give up damaged replicas (rules 36, 37, 44)."""

from __future__ import annotations

import pytest

from quorate.chaos.models.controller.broker_requests import alteration, ask_for_isr, beat, damage, epoch_of
from quorate.chaos.models.controller.small_cluster import SmallCluster
from quorate.controller.brokers import fence_broker
from quorate.controller.heartbeats import heartbeat
from quorate.core.ids import BrokerId
from quorate.errors import StaleBrokerEpoch
from quorate.metadata.image import NO_LEADER
from quorate.v1.controller_pb2 import BrokerSessionRequest, BrokerSessionResponse


def send(
    cluster: SmallCluster,
    request: BrokerSessionRequest,
    *,
    state_offset: int = 0,
    others_offset: int | None = None,
) -> BrokerSessionResponse:
    decision = heartbeat(
        cluster.image,
        request,
        state_offset=state_offset,
        others_offset=others_offset,
        session_timeout_ms=3_000,
    )
    return cluster.commit(decision)


def test_an_earlier_run_is_told_that_it_is_over() -> None:
    cluster = SmallCluster(1)
    with pytest.raises(StaleBrokerEpoch):
        send(cluster, beat(cluster, 1, broker_epoch=epoch_of(cluster, 1) - 1))


def test_a_plain_heartbeat_changes_nothing_and_is_answered_with_its_sequence() -> None:
    cluster = SmallCluster(1)
    offset = cluster.image.offset
    response = send(cluster, beat(cluster, 1, wants_unfence=True))
    assert (response.sequence, response.is_fenced, response.session_timeout_ms) == (7, False, 3_000)
    assert cluster.image.offset == offset


def test_a_broker_is_unfenced_once_it_has_seen_what_was_decided_about_it() -> None:
    cluster = SmallCluster(0)
    cluster.add_broker(1, is_fenced=True)
    assert send(cluster, beat(cluster, 1, wants_unfence=True, metadata_offset=4), state_offset=5).is_fenced
    assert not send(
        cluster, beat(cluster, 1, wants_unfence=True, metadata_offset=5), state_offset=5
    ).is_fenced
    assert cluster.image.brokers[BrokerId(1)].is_active


def test_a_broker_that_does_not_ask_stays_fenced() -> None:
    cluster = SmallCluster(0)
    cluster.add_broker(1, is_fenced=True)
    assert send(cluster, beat(cluster, 1)).is_fenced


def test_an_unfenced_broker_leads_what_waited_for_it() -> None:
    cluster = SmallCluster(2)
    cluster.create("t", [1], [2])
    cluster.commit(fence_broker(cluster.image, BrokerId(1)))
    assert cluster.partition(0).leader == NO_LEADER
    send(cluster, beat(cluster, 1, wants_unfence=True))
    assert cluster.partition(0).leader == 1
    assert cluster.partition(1).partition_epoch == 0


def test_a_stop_moves_leaders_first_and_is_granted_once_everybody_knows() -> None:
    cluster = SmallCluster(3)
    cluster.create("t", [1, 2, 3])
    stop = beat(cluster, 1, wants_shutdown=True)
    assert not send(cluster, stop, others_offset=100).may_shut_down
    assert (cluster.partition().leader, cluster.partition().isr) == (2, (2, 3))
    broker = cluster.image.brokers[BrokerId(1)]
    assert broker.is_shutting_down
    assert not broker.is_fenced
    assert not send(cluster, stop, state_offset=9, others_offset=8).may_shut_down
    granted = send(cluster, stop, state_offset=9, others_offset=9)
    assert granted.may_shut_down
    assert granted.is_fenced
    assert cluster.image.brokers[BrokerId(1)].is_fenced


def test_a_lost_grant_is_given_again() -> None:
    cluster = SmallCluster(1)
    cluster.change_broker(1, is_shutting_down=True, is_fenced=True)
    offset = cluster.image.offset
    assert send(cluster, beat(cluster, 1, wants_shutdown=True), state_offset=1 << 50).may_shut_down
    assert cluster.image.offset == offset


def test_a_stop_cannot_be_taken_back() -> None:
    cluster = SmallCluster(2)
    send(cluster, beat(cluster, 1, wants_shutdown=True))
    send(cluster, beat(cluster, 1, wants_shutdown=True))
    assert send(cluster, beat(cluster, 1, wants_unfence=True)).is_fenced


def test_a_partition_that_nobody_else_can_lead_does_not_hold_up_a_stop() -> None:
    cluster = SmallCluster(1)
    cluster.create("t", [1])
    stop = beat(cluster, 1, wants_shutdown=True)
    send(cluster, stop)
    assert (cluster.partition().leader, cluster.partition().isr) == (NO_LEADER, (1,))
    assert send(cluster, stop).may_shut_down


def test_a_damaged_leader_loses_its_partition() -> None:
    cluster = SmallCluster(3)
    cluster.create("t", [1, 2, 3])
    send(cluster, beat(cluster, 1, damaged=[damage(cluster.partition())]))
    assert (cluster.partition().leader, cluster.partition().isr) == (2, (2, 3))
    assert "replica_damaged" in cluster.warnings()


def test_a_report_of_damage_is_void_in_a_later_leader_epoch() -> None:
    """The replica may be whole again by then, and the only one that has everything (rule 44)."""
    cluster = SmallCluster(2)
    cluster.create("t", [2, 1])
    report = damage(cluster.partition())
    send(cluster, beat(cluster, 1, damaged=[report]))
    assert cluster.partition().isr == (2,)
    # Repaired, it is the last one.
    cluster.set_partition(isr=[1], elr=[], leader=1)
    offset = cluster.image.offset
    send(cluster, beat(cluster, 1, damaged=[report]))
    assert cluster.image.offset == offset
    # What is damaged in this epoch is another matter.
    send(cluster, beat(cluster, 1, damaged=[damage(cluster.partition())]))
    assert cluster.partition().leader == NO_LEADER


def test_what_a_replica_said_before_it_was_damaged_counts_no_more() -> None:
    cluster = SmallCluster(3)
    cluster.create("t", [1, 2, 3])
    cluster.set_partition(isr=[1, 2])
    delayed = alteration(cluster, cluster.partition(), [1, 2, 3])
    send(cluster, beat(cluster, 3, damaged=[damage(cluster.partition())]))
    (result,) = ask_for_isr(cluster, 1, delayed)
    assert result.error.code == "FENCED_LEADER_EPOCH"


def test_damage_to_replicas_that_are_not_there_is_nothing_to_decide() -> None:
    cluster = SmallCluster(2)
    cluster.create("t", [1])
    gone = damage(cluster.partition())
    assert not send(cluster, beat(cluster, 2, damaged=[gone])).is_fenced
    cluster.delete()
    offset = cluster.image.offset
    send(cluster, beat(cluster, 1, damaged=[gone]))
    assert cluster.image.offset == offset
