"""Emptying a broker for good."""

from __future__ import annotations

import pytest

from quorate.chaos.models.controller.small_cluster import SmallCluster
from quorate.controller.decommission import MOVES_AT_ONCE_MAX, OFFLINE_NAMED_MAX, decommission_broker
from quorate.controller.reassignment import complete_reassignments
from quorate.core.ids import BrokerId
from quorate.errors import BrokerNotAvailable, NotEnoughReplicas
from quorate.metadata.image import NO_LEADER
from quorate.v1 import admin_pb2


def decommission(cluster: SmallCluster, broker_id: int, *, cancel: bool = False) -> tuple[int, int, bool]:
    """(remaining, moving, removed)"""
    request = admin_pb2.DecommissionBrokerRequest(broker_id=broker_id, cancel=cancel)
    response = cluster.commit(decommission_broker(cluster.image, request))
    return response.remaining_replica_count, response.moving_count, response.is_removed


def catch_up(cluster: SmallCluster) -> None:
    """Every replica that was added is in sync now, and then the others are let go."""
    for topic in cluster.image.topics.values():
        for partition in topic.partitions:
            if partition.adding_replicas:
                isr = sorted({*partition.isr, *partition.adding_replicas})
                cluster.set_partition(partition.partition, topic.name, isr=isr)
    cluster.commit(complete_reassignments(cluster.image))
    let_go(cluster)


def let_go(cluster: SmallCluster) -> None:
    """Whoever is to leave a partition that can do without it has fetched from the next leader."""
    for topic in cluster.image.topics.values():
        for partition in topic.partitions:
            staying = [each for each in partition.isr if each not in partition.removing_replicas]
            if partition.leader in staying and set(partition.adding_replicas).issubset(staying):
                cluster.set_partition(partition.partition, topic.name, isr=staying)
    cluster.commit(complete_reassignments(cluster.image))


def test_broker_is_emptied_in_bounded_steps_and_then_forgotten() -> None:
    cluster = SmallCluster(5)
    cluster.create(partitions=150, replication_factor=3)
    cluster.create("gone", [1])
    cluster.delete("gone")
    held = 90
    assert decommission(cluster, 1) == (held, MOVES_AT_ONCE_MAX, False)
    assert decommission(cluster, 1) == (held, MOVES_AT_ONCE_MAX, False)
    assert cluster.image.brokers[BrokerId(1)].is_draining
    catch_up(cluster)
    assert decommission(cluster, 1) == (40, 40, False)
    catch_up(cluster)
    # It still runs, and could come back with its data at any moment.
    assert decommission(cluster, 1) == (0, 0, False)
    cluster.change_broker(1, is_fenced=True)
    assert decommission(cluster, 1) == (0, 0, True)
    assert BrokerId(1) not in cluster.image.brokers
    assert not cluster.image.removed_topics
    counts = [
        sum(number in partition.replicas for partition in cluster.topic().partitions)
        for number in (2, 3, 4, 5)
    ]
    assert sum(counts) == 450
    assert max(counts) - min(counts) <= 4


def test_replica_goes_to_a_rack_that_has_none() -> None:
    cluster = SmallCluster(6, racks=3)  # racks 1, 2, 0, 1, 2, 0
    cluster.create("t", [1, 2, 3])
    decommission(cluster, 2)
    assert cluster.partition().adding_replicas == (5,)
    assert cluster.partition().replicas[:3] == (1, 5, 3)


def test_dead_broker_is_emptied_too() -> None:
    cluster = SmallCluster(4)
    cluster.create("t", [1, 2, 3])
    cluster.set_partition(isr=[2, 3], leader=2)
    cluster.change_broker(1, is_fenced=True)
    assert decommission(cluster, 1) == (1, 1, False)
    catch_up(cluster)
    assert decommission(cluster, 1) == (0, 0, True)
    assert cluster.partition().replicas == (4, 2, 3)


def test_broker_that_nobody_can_replace_is_left_as_it_is() -> None:
    cluster = SmallCluster(3)
    cluster.create("t", [1, 2, 3])
    with pytest.raises(NotEnoughReplicas, match="no broker can take the replica of t-0 from broker 1"):
        decommission(cluster, 1)
    assert not cluster.image.brokers[BrokerId(1)].is_draining


def test_partition_without_a_leader_waits_for_one() -> None:
    cluster = SmallCluster(4)
    cluster.create("t", [1, 2])
    cluster.set_partition(isr=[2], leader=NO_LEADER)
    assert decommission(cluster, 1) == (1, 0, False)
    cluster.set_partition(leader=2)
    assert decommission(cluster, 1) == (1, 1, False)


def test_calling_it_off_takes_the_broker_back_and_keeps_what_has_moved() -> None:
    cluster = SmallCluster(4)
    cluster.create("t", [1, 2, 3], [1, 2, 3])
    decommission(cluster, 1)
    cluster.set_partition(0, isr=[1, 2, 3, 4])
    cluster.commit(complete_reassignments(cluster.image))
    let_go(cluster)
    assert decommission(cluster, 1, cancel=True) == (1, 0, False)
    assert not cluster.image.brokers[BrokerId(1)].is_draining
    assert cluster.partition(0).replicas == (4, 2, 3)
    assert set(cluster.partition(1).replicas) == {1, 2, 3}
    offset = cluster.image.offset
    decommission(cluster, 1, cancel=True)
    assert cluster.image.offset == offset


def test_move_that_cannot_be_called_off_safely_goes_on() -> None:
    cluster = SmallCluster(4)
    cluster.create("t", [1, 2, 3])
    decommission(cluster, 1)
    cluster.set_partition(isr=[1, 4])
    assert decommission(cluster, 1, cancel=True) == (1, 1, False)
    assert cluster.partition().adding_replicas == (4,)


def test_unknown_broker_is_refused() -> None:
    with pytest.raises(BrokerNotAvailable):
        decommission(SmallCluster(), 9)


def test_partitions_without_a_leader_are_named_because_they_wait_for_one() -> None:
    cluster = SmallCluster(4)
    cluster.create("alone", [4])
    cluster.create("copied", [4, 1])
    cluster.change_broker(4, is_fenced=True)
    cluster.set_partition(0, "alone", leader=NO_LEADER)
    cluster.set_partition(0, "copied", isr=[1], leader=1)
    request = admin_pb2.DecommissionBrokerRequest(broker_id=4)
    response = cluster.commit(decommission_broker(cluster.image, request))
    assert (response.remaining_replica_count, response.moving_count) == (2, 1)
    assert response.offline_count == 1
    [named] = response.offline_partitions
    assert (named.topic, named.partition) == ("alone", 0)


def test_only_some_of_many_partitions_without_a_leader_are_named() -> None:
    cluster = SmallCluster(3)
    cluster.create(partitions=OFFLINE_NAMED_MAX + 1, replication_factor=3)
    for number in range(OFFLINE_NAMED_MAX + 1):
        cluster.set_partition(number, leader=NO_LEADER)
    request = admin_pb2.DecommissionBrokerRequest(broker_id=1)
    response = cluster.commit(decommission_broker(cluster.image, request))
    assert response.offline_count == OFFLINE_NAMED_MAX + 1
    assert [each.partition for each in response.offline_partitions] == list(range(OFFLINE_NAMED_MAX))
