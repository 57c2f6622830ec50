"""Moving leaders: back to the preferred replicas, and away from brokers that are drained."""

from __future__ import annotations

import pytest

from quorate.chaos.models.controller.small_cluster import SmallCluster
from quorate.controller.brokers import fence_broker
from quorate.controller.draining import drain_broker
from quorate.controller.preferred import elect_preferred_leaders, move_leaders_back
from quorate.core.ids import BrokerId
from quorate.errors import BrokerNotAvailable
from quorate.v1.admin_pb2 import DrainBrokerRequest, ElectPreferredLeadersRequest, PartitionName


@pytest.fixture
def cluster() -> SmallCluster:
    """Broker 1 was away: 2 leads what 1 should lead."""
    cluster = SmallCluster(3)
    cluster.create("t", [1, 2, 3], [1, 2, 3], [3, 1, 2])
    for number in (0, 1):
        cluster.set_partition(number, leader=2)
    return cluster


def leaders(cluster: SmallCluster) -> list[int]:
    return [partition.leader for partition in cluster.topic().partitions]


def count_misplaced(cluster: SmallCluster) -> int:
    return move_leaders_back(cluster.image, moves_max=10).response


def drain(cluster: SmallCluster, broker_id: int, *, cancel: bool = False) -> list[int]:
    request = DrainBrokerRequest(broker_id=broker_id, cancel=cancel)
    response = cluster.commit(drain_broker(cluster.image, request))
    return [name.partition for name in response.remaining_leaders]


def test_a_round_moves_no_more_leaders_than_it_may(cluster: SmallCluster) -> None:
    before = cluster.partition(0)
    assert cluster.commit(move_leaders_back(cluster.image, moves_max=1)) == 1
    assert leaders(cluster) == [1, 2, 3]
    assert cluster.partition(0).leader_epoch == before.leader_epoch + 1
    assert cluster.commit(move_leaders_back(cluster.image, moves_max=10)) == 1
    assert cluster.commit(move_leaders_back(cluster.image, moves_max=10)) == 0


def test_a_replica_that_is_not_in_sync_gets_nothing_back(cluster: SmallCluster) -> None:
    cluster.set_partition(0, isr=[2, 3])
    cluster.commit(move_leaders_back(cluster.image, moves_max=10))
    assert leaders(cluster) == [2, 1, 3]


def test_an_operator_hears_what_was_moved_and_what_could_not_be(cluster: SmallCluster) -> None:
    cluster.set_partition(0, isr=[2, 3])
    names = [PartitionName(topic="t", partition=number) for number in (0, 1, 2, 7)]
    request = ElectPreferredLeadersRequest(partitions=names)
    response = cluster.commit(elect_preferred_leaders(cluster.image, request))
    assert [name.partition for name in response.moved] == [1]
    assert [(each.partition.partition, each.error.code) for each in response.refused] == [
        (0, "BROKER_NOT_AVAILABLE"),
        (7, "UNKNOWN_TOPIC_OR_PARTITION"),
    ]


def test_a_drained_broker_gets_no_leaders_back_by_name_either(cluster: SmallCluster) -> None:
    drain(cluster, 1)
    names = [PartitionName(topic="t", partition=number) for number in (0, 1, 2)]
    request = ElectPreferredLeadersRequest(partitions=names)
    response = cluster.commit(elect_preferred_leaders(cluster.image, request))
    assert list(response.moved) == []
    assert [(each.partition.partition, each.error.code) for each in response.refused] == [
        (0, "BROKER_NOT_AVAILABLE"),
        (1, "BROKER_NOT_AVAILABLE"),
    ]
    assert "cancel that first" in response.refused[0].error.message
    assert leaders(cluster) == [2, 2, 3]
    drain(cluster, 1, cancel=True)
    cluster.commit(elect_preferred_leaders(cluster.image, request))
    assert leaders(cluster) == [1, 1, 3]


def test_what_a_drained_broker_leads_for_want_of_another_is_no_refusal(cluster: SmallCluster) -> None:
    cluster.set_partition(2, isr=[3])
    assert drain(cluster, 3) == [2]
    request = ElectPreferredLeadersRequest(partitions=[PartitionName(topic="t", partition=2)])
    response = cluster.commit(elect_preferred_leaders(cluster.image, request))
    assert (list(response.moved), list(response.refused)) == ([], [])


def test_an_operator_may_move_all(cluster: SmallCluster) -> None:
    response = cluster.commit(elect_preferred_leaders(cluster.image, ElectPreferredLeadersRequest()))
    assert [name.partition for name in response.moved] == [0, 1]
    assert leaders(cluster) == [1, 1, 3]


def test_a_drained_broker_gives_up_its_leaders_and_stays_in_sync(cluster: SmallCluster) -> None:
    assert drain(cluster, 2) == []
    assert leaders(cluster) == [1, 1, 3]
    assert cluster.partition().isr == (1, 2, 3)
    assert cluster.image.brokers[BrokerId(2)].is_draining


def test_what_nobody_else_can_lead_is_told_and_moved_when_somebody_can(cluster: SmallCluster) -> None:
    cluster.set_partition(0, isr=[2])
    assert drain(cluster, 2) == [0]
    assert leaders(cluster) == [2, 1, 3]
    cluster.set_partition(0, isr=[2, 3])
    cluster.commit(move_leaders_back(cluster.image, moves_max=10))
    assert leaders(cluster) == [3, 1, 3]


def test_leaders_do_not_go_back_to_a_broker_that_is_drained(cluster: SmallCluster) -> None:
    drain(cluster, 1)
    assert count_misplaced(cluster) == 0
    drain(cluster, 1, cancel=True)
    assert count_misplaced(cluster) == 2


def test_draining_twice_changes_nothing_more(cluster: SmallCluster) -> None:
    drain(cluster, 2)
    offset = cluster.image.offset
    drain(cluster, 2)
    assert cluster.image.offset == offset


def test_a_fenced_broker_is_no_place_to_move_to(cluster: SmallCluster) -> None:
    cluster.commit(fence_broker(cluster.image, BrokerId(1)))
    assert count_misplaced(cluster) == 0


def test_an_unknown_broker_cannot_be_drained(cluster: SmallCluster) -> None:
    with pytest.raises(BrokerNotAvailable):
        drain(cluster, 9)


def test_whoever_is_leaving_gets_no_leaders_back(cluster: SmallCluster) -> None:
    assert cluster.commit(move_leaders_back(cluster.image, moves_max=9, leaving={BrokerId(1)})) == 0
    assert leaders(cluster) == [2, 2, 3]
