"""What is too large for one batch is decided in pieces, each of which could be the last."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeVar

import pytest

from quorate.chaos.models.controller.broker_requests import alteration, ask_for_isr, beat, registration
from quorate.chaos.models.controller.small_cluster import SmallCluster
from quorate.controller.brokers import fence_broker, register_broker
from quorate.controller.decision import Decision
from quorate.controller.heartbeats import heartbeat
from quorate.controller.leaderless import elect_missing_leaders
from quorate.core.ids import BrokerId
from quorate.errors import DuplicateBroker
from quorate.metadata.image import NO_LEADER, PartitionImage

ONE, TWO = BrokerId(1), BrokerId(2)
Response = TypeVar("Response")


def partitions(cluster: SmallCluster) -> tuple[PartitionImage, ...]:
    return cluster.topic().partitions


def with_broker_1(cluster: SmallCluster) -> list[int]:
    """Partitions that it leads or is in sync for."""
    return [each.partition for each in partitions(cluster) if ONE in each.isr]


def fence_piece(
    cluster: SmallCluster, broker_id: BrokerId = ONE, *, changes_max: int, leaving: Collection[BrokerId] = ()
) -> bool:
    decision = fence_broker(cluster.image, broker_id, leaving=leaving, changes_max=changes_max)
    cluster.commit(decision)
    return decision.is_complete


def in_pieces(cluster: SmallCluster, decide: Callable[[], Decision[Response]]) -> tuple[Response, int]:
    """The last response, and how many pieces it took."""
    for count in range(1, 100):
        decision = decide()
        response = cluster.commit(decision)
        if decision.is_complete:
            return response, count
    raise AssertionError("it does not come to an end")


def test_leaderships_go_first_and_the_broker_is_fenced_with_the_last_piece() -> None:
    cluster = SmallCluster(3)
    cluster.create("t", [2, 1, 3], [1, 2, 3], [3, 1, 2], [1, 3, 2], [2, 3, 1])
    assert not fence_piece(cluster, changes_max=2)
    assert [each.leader for each in partitions(cluster)] == [2, 2, 3, 3, 2]
    assert with_broker_1(cluster) == [0, 2, 4]
    assert cluster.image.brokers[ONE].is_active
    assert not fence_piece(cluster, changes_max=2)
    assert fence_piece(cluster, changes_max=2)
    assert with_broker_1(cluster) == []
    assert cluster.image.brokers[ONE].is_fenced
    assert cluster.warnings() == ["broker_fenced"]


def test_what_just_fits_is_one_piece() -> None:
    cluster = SmallCluster(2)
    cluster.create("t", [1, 2], [1, 2])
    assert fence_piece(cluster, changes_max=2)
    assert cluster.image.brokers[ONE].is_fenced


def test_partitions_that_only_this_broker_can_lead_are_counted_once() -> None:
    cluster = SmallCluster(1)
    cluster.create("t", [1], [1], [1])
    _, count = in_pieces(cluster, lambda: fence_broker(cluster.image, ONE, changes_max=1))
    assert count == 3
    assert {(each.leader, each.isr) for each in partitions(cluster)} == {(NO_LEADER, (ONE,))}


def test_a_member_that_comes_back_between_two_pieces_is_among_those_that_are_left() -> None:
    cluster = SmallCluster(3)
    cluster.create("t", [1, 2, 3], [1, 2, 3])
    assert not fence_piece(cluster, changes_max=1)
    (result,) = ask_for_isr(cluster, 2, alteration(cluster, cluster.partition(0), [1, 2, 3]))
    assert not result.HasField("error")
    assert with_broker_1(cluster) == [0, 1]
    in_pieces(cluster, lambda: fence_broker(cluster.image, ONE, changes_max=1))
    assert with_broker_1(cluster) == []


def test_two_brokers_that_go_at_once_do_not_pass_their_partitions_to_and_fro() -> None:
    cluster = SmallCluster(2)
    cluster.create("t", *[[1, 2]] * 4, configs={"min.insync.replicas": "2"})
    is_fenced = {ONE: False, TWO: False}
    for _ in range(10):
        for broker_id in (ONE, TWO):
            is_fenced[broker_id] = fence_piece(cluster, broker_id, changes_max=1, leaving={ONE, TWO})
    assert is_fenced == {ONE: True, TWO: True}
    for partition in partitions(cluster):
        assert partition.leader == NO_LEADER
        assert {*partition.isr, *partition.elr} == {ONE, TWO}


def test_a_registration_takes_lost_replicas_out_before_it_is_on_record() -> None:
    cluster = SmallCluster(2)
    cluster.create("t", [1, 2], [1, 2], [2, 1], configs={"min.insync.replicas": "2"})
    cluster.set_partition(2, isr=[2], elr=[1])
    request = registration(cluster, 1)

    def decide(has_live_session: bool = False) -> Decision[object]:
        return register_broker(
            cluster.image,
            request,
            next_offset=cluster.next_offset,
            has_live_session=has_live_session,
            changes_max=1,
        )

    before = cluster.image.brokers[ONE]
    assert not decide().is_complete
    cluster.commit(decide())
    assert (cluster.partition(0).leader, cluster.partition(0).isr, cluster.partition(0).elr) == (2, (2,), ())
    assert cluster.image.brokers[ONE] == before
    with pytest.raises(DuplicateBroker):
        decide(has_live_session=True)
    response, count = in_pieces(cluster, decide)
    assert count == 2
    assert cluster.image.brokers[ONE].broker_epoch == cluster.image.offset
    assert not any({ONE} & {*each.isr, *each.elr} for each in partitions(cluster))
    assert decide(has_live_session=True).response == response


def test_each_heartbeat_of_a_broker_that_stops_moves_a_piece() -> None:
    cluster = SmallCluster(2)
    cluster.create("t", [1, 2], [1, 2], [1, 2])
    left = []
    while not cluster.image.brokers[ONE].is_shutting_down:
        decision = heartbeat(
            cluster.image,
            beat(cluster, 1, wants_shutdown=True),
            state_offset=0,
            others_offset=None,
            session_timeout_ms=1,
            changes_max=1,
        )
        assert decision.is_complete, "one heartbeat, one batch"
        assert not cluster.commit(decision).may_shut_down
        left.append(len(with_broker_1(cluster)))
    assert left == [2, 1, 0]


def test_a_broker_that_was_given_up_is_told_that_it_is_fenced_before_it_is_on_record() -> None:
    cluster = SmallCluster(1)
    decision = heartbeat(
        cluster.image,
        beat(cluster, 1, wants_unfence=True),
        state_offset=0,
        others_offset=None,
        session_timeout_ms=1,
        is_given_up=True,
    )
    assert decision.response.is_fenced
    assert not decision.records


def test_partitions_that_are_left_when_a_broker_is_unfenced_get_their_leaders_afterwards() -> None:
    cluster = SmallCluster(1)
    cluster.create("t", [1], [1], [1])
    cluster.commit(fence_broker(cluster.image, ONE))
    request = beat(cluster, 1, wants_unfence=True)
    decision = heartbeat(
        cluster.image, request, state_offset=0, others_offset=None, session_timeout_ms=1, changes_max=1
    )
    assert not cluster.commit(decision).is_fenced
    assert [each.leader for each in partitions(cluster)] == [1, NO_LEADER, NO_LEADER]
    assert elect_missing_leaders(cluster.image, leaving={ONE}).records == ()
    in_pieces(cluster, lambda: elect_missing_leaders(cluster.image, changes_max=1))
    assert [each.leader for each in partitions(cluster)] == [1, 1, 1]


@pytest.mark.parametrize("is_unclean_allowed", [False, True])
def test_who_is_not_in_sync_is_elected_only_where_the_owner_allows_it(is_unclean_allowed: bool) -> None:
    cluster = SmallCluster(2)
    cluster.create("t", [1, 2])
    cluster.set_partition(isr=[1])
    cluster.commit(fence_broker(cluster.image, ONE))
    assert cluster.partition().leader == NO_LEADER
    if is_unclean_allowed:
        cluster.configure("t", {"unclean.leader.election.enable": "true"})
        cluster.set_partition(leader=NO_LEADER)
    cluster.commit(elect_missing_leaders(cluster.image))
    assert cluster.partition().leader == (TWO if is_unclean_allowed else NO_LEADER)
