"""Moving partitions: grow, catch up, hand over, let go, shrink; and calling it off (rules 37, 47)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from quorate.chaos.models.controller.small_cluster import SmallCluster
from quorate.controller.alter_partition import alter_partition
from quorate.controller.brokers import fence_broker
from quorate.controller.preferred import move_leaders_back
from quorate.controller.reassignment import (
    complete_reassignments,
    list_reassignments,
    reassign_partitions,
)
from quorate.core.ids import BrokerId
from quorate.errors import (
    BrokerNotAvailable,
    InvalidReplicaAssignment,
    InvalidRequest,
    NotEnoughReplicas,
    ReassignmentInProgress,
    UnknownTopicOrPartition,
    UnsafeReassignment,
)
from quorate.metadata.image import NO_LEADER, Recovery
from quorate.metadata.topic_settings import min_insync_replicas_of
from quorate.v1 import admin_pb2, controller_pb2


def cluster_with(*replicas: int, brokers: int = 6) -> SmallCluster:
    cluster = SmallCluster(brokers)
    cluster.create("t", replicas)
    return cluster


def ask_for_isr(cluster: SmallCluster, *isr: int) -> None:
    """As the leader does."""
    partition = cluster.partition()
    epochs = {broker_id: broker.broker_epoch for broker_id, broker in cluster.image.brokers.items()}
    wish = controller_pb2.PartitionAlteration(
        topic_id=partition.topic_id,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        isr=[controller_pb2.IsrMember(broker_id=each, broker_epoch=epochs[BrokerId(each)]) for each in isr],
    )
    request = controller_pb2.AlterPartitionRequest(
        broker_id=partition.leader, broker_epoch=epochs[partition.leader], partitions=[wish]
    )
    [result] = cluster.commit(alter_partition(cluster.image, request)).partitions
    assert not result.HasField("error"), result.error


def test_new_replicas_join_the_old_ones_and_change_neither_leader_nor_isr() -> None:
    cluster = cluster_with(1, 2, 3)
    cluster.move(4, 3, 5)
    partition = cluster.partition()
    assert partition.replicas == (4, 3, 5, 1, 2)
    assert partition.adding_replicas == (4, 5)
    assert partition.removing_replicas == (1, 2)
    assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (1, 0, 1)
    assert (partition.isr, partition.elr) == ((1, 2, 3), ())


def test_leader_that_goes_hands_over_when_every_new_replica_is_in_the_isr_and_not_before() -> None:
    cluster = cluster_with(1, 2, 3)
    cluster.move(4, 3, 5)
    ask_for_isr(cluster, 1, 2, 3, 4)
    assert (cluster.partition().leader, cluster.partition().leader_epoch) == (1, 0)
    ask_for_isr(cluster, 1, 2, 3, 4, 5)
    partition = cluster.partition()
    # The preferred one of the target leads, and commits nothing before the old leader fetches from it.
    assert (partition.leader, partition.leader_epoch) == (4, 1)
    assert partition.isr == (1, 2, 3, 4, 5)
    assert partition.replicas == (4, 3, 5, 1, 2)
    assert (partition.adding_replicas, partition.removing_replicas) == ((4, 5), (1, 2))


def test_old_replicas_go_when_none_of_them_is_in_the_isr_and_not_before() -> None:
    cluster = cluster_with(1, 2, 3)
    cluster.move(4, 3, 5)
    ask_for_isr(cluster, 1, 2, 3, 4, 5)
    ask_for_isr(cluster, 1, 3, 4, 5)
    cluster.commit(complete_reassignments(cluster.image))
    assert cluster.partition().replicas == (4, 3, 5, 1, 2)
    ask_for_isr(cluster, 3, 4, 5)
    partition = cluster.partition()
    assert partition.replicas == (4, 3, 5)
    assert partition.replicas == (4, 3, 5)
    assert (partition.isr, partition.elr) == ((3, 4, 5), ())
    assert (partition.adding_replicas, partition.removing_replicas) == ((), ())
    assert (partition.leader, partition.leader_epoch) == (4, 2)


def test_dead_old_leader_leaves_by_being_fenced_and_the_move_completes() -> None:
    cluster = cluster_with(1, 2, 3)
    cluster.move(4, 2, 3)
    ask_for_isr(cluster, 1, 2, 3, 4)
    assert cluster.partition().leader == 4
    cluster.commit(fence_broker(cluster.image, BrokerId(1)))
    cluster.commit(complete_reassignments(cluster.image))
    assert cluster.partition().replicas == (4, 2, 3)


def test_draining_gives_no_leader_back_to_a_replica_that_goes() -> None:
    # The move would hand over again, and the draining take it back, without an end.
    cluster = cluster_with(1, 2)
    cluster.move(3, 4)
    ask_for_isr(cluster, 1, 2, 3, 4)
    assert cluster.partition().leader == 3
    cluster.change_broker(3, is_draining=True)
    cluster.change_broker(4, is_draining=True)
    assert not move_leaders_back(cluster.image, moves_max=9).records


def test_completion_bumps_the_leader_epoch_even_if_the_leader_stays() -> None:
    cluster = cluster_with(1, 2, 3)
    cluster.move(1, 2, 4)
    ask_for_isr(cluster, 1, 2, 3, 4)
    assert (cluster.partition().leader, cluster.partition().leader_epoch) == (1, 0)
    ask_for_isr(cluster, 1, 2, 4)
    assert (cluster.partition().leader, cluster.partition().leader_epoch) == (1, 1)


def test_move_waits_until_those_that_stay_are_min_isr() -> None:
    cluster = cluster_with(1, 2, 3)
    cluster.move(3, 4)
    # Everything that was added is in sync, but 4 would be alone.
    ask_for_isr(cluster, 1, 2, 4)
    assert (cluster.partition().leader, cluster.partition().removing_replicas) == (1, (1, 2))
    ask_for_isr(cluster, 1, 2, 3, 4)
    ask_for_isr(cluster, 3, 4)
    assert cluster.partition().replicas == (3, 4)


def test_move_to_fewer_replicas_waits_until_those_that_stay_are_min_isr() -> None:
    cluster = cluster_with(1, 2, 3)
    cluster.set_partition(isr=[1, 3])
    cluster.move(1, 2)
    # 1 alone would be left in sync, of two replicas with a MinISR of 2.
    assert cluster.partition().removing_replicas == (3,)
    ask_for_isr(cluster, 1)
    assert cluster.partition().removing_replicas == (3,)
    ask_for_isr(cluster, 1, 2)
    assert cluster.partition().replicas == (1, 2)


def test_move_to_fewer_replicas_needs_no_copies_and_hands_over_at_once() -> None:
    cluster = cluster_with(1, 2, 3)
    cluster.move(2)
    partition = cluster.partition()
    assert (partition.leader, partition.leader_epoch, partition.isr) == (2, 1, (1, 2, 3))
    ask_for_isr(cluster, 2)
    partition = cluster.partition()
    assert (partition.replicas, partition.isr, partition.elr, partition.leader) == ((2,), (2,), (), 2)
    assert partition.leader_epoch == 2
    assert min_insync_replicas_of(cluster.image, partition) == 1


def test_growing_from_one_replica_keeps_min_isr_until_the_copies_are_made() -> None:
    cluster = cluster_with(1)
    cluster.move(1, 2, 3)
    assert min_insync_replicas_of(cluster.image, cluster.partition()) == 1
    ask_for_isr(cluster, 1, 2, 3)
    assert cluster.partition().adding_replicas == ()
    assert min_insync_replicas_of(cluster.image, cluster.partition()) == 2


def test_partition_does_not_go_offline_by_completion() -> None:
    cluster = cluster_with(1, 2, 3)
    cluster.set_partition(isr=[3])
    cluster.configure("t", {"min.insync.replicas": "1"})
    cluster.change_broker(3, is_fenced=True)
    cluster.set_partition(leader=NO_LEADER)
    cluster.move(3)
    assert cluster.partition().removing_replicas == (1, 2)
    cluster.change_broker(3, is_fenced=False)
    cluster.commit(complete_reassignments(cluster.image))
    assert (cluster.partition().replicas, cluster.partition().leader) == ((3,), 3)


def test_old_replicas_stay_while_the_partition_is_recovering() -> None:
    # Rule 34: the leader may lack records that one of them still holds.
    cluster = cluster_with(1, 2, 3)
    cluster.set_partition(isr=[], leader=NO_LEADER)
    cluster.configure("t", {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"})
    assert cluster.partition().recovery is Recovery.RECOVERING
    cluster.move(cluster.partition().leader)
    cluster.commit(complete_reassignments(cluster.image))
    assert len(cluster.partition().replicas) == 3


def test_lower_min_isr_lets_a_waiting_move_complete() -> None:
    cluster = cluster_with(1, 2, 3)
    cluster.set_partition(isr=[1, 3])
    cluster.move(1, 2)
    assert not complete_reassignments(cluster.image).records
    ask_for_isr(cluster, 1)
    assert cluster.partition().replicas == (1, 2, 3)
    cluster.configure("t", {"min.insync.replicas": "1"})
    cluster.commit(complete_reassignments(cluster.image))
    assert cluster.partition().replicas == (1, 2)
    assert cluster.partition().isr == (1,)


def test_new_order_alone_is_taken_at_once_without_a_new_leader() -> None:
    cluster = cluster_with(1, 2, 3)
    cluster.move(3, 1, 2)
    partition = cluster.partition()
    assert partition.replicas == (3, 1, 2)
    assert (partition.leader, partition.leader_epoch, partition.adding_replicas) == (1, 0, ())


def test_same_request_twice_changes_nothing_the_second_time() -> None:
    cluster = cluster_with(1, 2, 3)
    cluster.move(4, 5, 6)
    offset = cluster.image.offset
    cluster.move(4, 5, 6)
    assert cluster.image.offset == offset
    ask_for_isr(cluster, 1, 2, 3, 4, 5, 6)
    ask_for_isr(cluster, 4, 5, 6)
    assert cluster.partition().replicas == (4, 5, 6)
    offset = cluster.image.offset
    cluster.move(4, 5, 6)
    assert cluster.image.offset == offset


def test_second_move_waits_for_the_first() -> None:
    cluster = cluster_with(1, 2, 3)
    cluster.move(4, 2, 3)
    with pytest.raises(ReassignmentInProgress, match="t-0 is being moved to 4, 2, 3"):
        cluster.move(5, 2, 3)


@pytest.mark.parametrize(
    ("target", "told"), [([1, 1], "twice"), ([1, 9], "no broker 9"), ([1, 5], "5 is draining")]
)
def test_impossible_target_is_refused(target: Sequence[int], told: str) -> None:
    cluster = cluster_with(1, 2, 3)
    cluster.change_broker(5, is_draining=True)
    with pytest.raises(InvalidReplicaAssignment, match=told):
        cluster.move(*target)


def test_broker_that_cannot_copy_now_is_refused() -> None:
    cluster = cluster_with(1, 2, 3)
    cluster.change_broker(4, is_fenced=True)
    with pytest.raises(BrokerNotAvailable, match="broker 4 is fenced"):
        cluster.move(1, 2, 4)


def test_offline_partition_gets_no_new_replicas() -> None:
    cluster = cluster_with(1, 2, 3)
    cluster.set_partition(isr=[], leader=NO_LEADER)
    with pytest.raises(NotEnoughReplicas, match="no leader from which"):
        cluster.move(1, 2, 4)


def test_one_impossible_move_stops_all_of_the_request() -> None:
    cluster = SmallCluster(6)
    cluster.create("t", [1, 2, 3], [1, 2, 3])
    moves = [
        admin_pb2.PartitionMove(
            partition=admin_pb2.PartitionName(topic="t", partition=number), replicas=[4, 5, 6]
        )
        for number in (0, 1, 2)
    ]
    with pytest.raises(UnknownTopicOrPartition, match="partitions 0 to 1, not 2"):
        reassign_partitions(cluster.image, admin_pb2.ReassignPartitionsRequest(moves=moves))
    with pytest.raises(InvalidRequest, match="named twice"):
        reassign_partitions(cluster.image, admin_pb2.ReassignPartitionsRequest(moves=[moves[0], moves[0]]))
    checked = admin_pb2.ReassignPartitionsRequest(moves=moves[:2], validate_only=True)
    assert not reassign_partitions(cluster.image, checked).records


def test_moves_under_way_are_listed_by_topic_and_partition() -> None:
    cluster = SmallCluster(6)
    cluster.create("b", [1, 2], [1, 2])
    cluster.create("a", [1, 2])
    cluster.move(1, 3, partition=1, name="b")
    cluster.move(1, 4, name="a")
    listed = list_reassignments(cluster.image, admin_pb2.ListReassignmentsRequest()).reassignments
    assert [(each.partition.topic, each.partition.partition) for each in listed] == [("a", 0), ("b", 1)]
    assert (list(listed[0].adding_replicas), list(listed[0].removing_replicas)) == ([4], [2])


# --- calling off


def test_called_off_move_lets_new_replicas_outside_the_isr_go_at_once() -> None:
    cluster = cluster_with(1, 2, 3)
    cluster.move(4, 3, 5)
    cluster.move()
    partition = cluster.partition()
    assert set(partition.replicas) == {1, 2, 3}
    assert (partition.leader, partition.leader_epoch) == (1, 1)


def test_called_off_move_leaves_the_old_replicas_and_a_new_leader_epoch() -> None:
    cluster = cluster_with(1, 2, 3)
    cluster.move(4, 3, 5)
    ask_for_isr(cluster, 1, 2, 3, 4)
    cluster.move()
    # 4 may have led, and not know yet that it no longer does.
    assert cluster.partition().isr == (1, 2, 3, 4)
    assert cluster.partition().adding_replicas == cluster.partition().removing_replicas == (4, 5)
    ask_for_isr(cluster, 1, 2, 3)
    partition = cluster.partition()
    assert set(partition.replicas) == {1, 2, 3}
    assert (partition.isr, partition.adding_replicas, partition.removing_replicas) == ((1, 2, 3), (), ())
    # Rule 7: if 4 is added again, empty, what the leader knew of it must not count.
    assert (partition.leader, partition.leader_epoch) == (1, 1)


def test_calling_off_is_refused_where_too_few_of_the_old_replicas_are_in_sync() -> None:
    cluster = cluster_with(1, 2, 3)
    cluster.move(4, 3, 5)
    ask_for_isr(cluster, 1, 4)
    with pytest.raises(
        UnsafeReassignment, match=r"only these would be in sync: 1; min\.insync\.replicas is 2"
    ):
        cluster.move()
    ask_for_isr(cluster, 1, 2, 4)
    cluster.move()
    ask_for_isr(cluster, 1, 2)
    assert cluster.partition().isr == (1, 2)
    assert set(cluster.partition().replicas) == {1, 2, 3}


def test_calling_off_is_refused_where_a_new_replica_is_in_the_elr() -> None:
    cluster = cluster_with(1, 2, 3)
    cluster.move(4, 2, 3)
    ask_for_isr(cluster, 1, 4)
    ask_for_isr(cluster, 1)
    assert cluster.partition().elr == (4,)
    with pytest.raises(UnsafeReassignment):
        cluster.move()


def test_calling_off_is_allowed_however_small_the_isr_is_if_no_new_replica_was_in_it() -> None:
    cluster = cluster_with(1, 2, 3)
    cluster.move(4, 2, 3)
    ask_for_isr(cluster, 1)
    before = cluster.partition()
    assert before.elr == (2, 3)
    cluster.move()
    assert (cluster.partition().isr, cluster.partition().elr) == ((1,), (2, 3))
    assert set(cluster.partition().replicas) == {1, 2, 3}


def test_leader_among_the_new_replicas_gives_way_when_a_move_is_called_off() -> None:
    cluster = cluster_with(1, 2, 3)
    cluster.move(4, 5, 6)
    ask_for_isr(cluster, 1, 2, 3, 4)
    cluster.set_partition(leader=4)
    cluster.move()
    assert cluster.partition().leader in (1, 2, 3)
    assert (cluster.partition().leader_epoch, cluster.partition().isr) == (2, (1, 2, 3, 4))
    ask_for_isr(cluster, 1, 2, 3)
    assert set(cluster.partition().replicas) == {1, 2, 3}
    assert cluster.partition().leader_epoch == 3


def called_off(*isr: int) -> SmallCluster:
    """1, 2 and 3 were to become 4, 5 and 6."""
    cluster = cluster_with(1, 2, 3)
    cluster.move(4, 5, 6)
    ask_for_isr(cluster, *isr)
    cluster.move()
    return cluster


def test_move_that_was_called_off_is_not_called_off_again() -> None:
    cluster = called_off(1, 2, 3, 4)
    offset = cluster.image.offset
    cluster.move()
    assert cluster.image.offset == offset


def test_move_that_was_called_off_keeps_min_isr_as_it_was() -> None:
    cluster = cluster_with(1)
    cluster.move(1, 2, 3)
    ask_for_isr(cluster, 1, 2)
    cluster.move()
    assert cluster.partition().removing_replicas == (2, 3)
    assert min_insync_replicas_of(cluster.image, cluster.partition()) == 1
    ask_for_isr(cluster, 1)
    assert cluster.partition().replicas == (1,)


def test_another_move_may_take_the_place_of_one_that_was_called_off() -> None:
    cluster = called_off(1, 2, 3, 4)
    cluster.move(1, 4, 5)
    partition = cluster.partition()
    assert partition.replicas == (1, 4, 5, 2, 3, 6)
    assert set(partition.adding_replicas) == {4, 5, 6}
    assert set(partition.removing_replicas) == {2, 3, 6}
    ask_for_isr(cluster, 1, 2, 3, 4, 5)
    ask_for_isr(cluster, 1, 4, 5)
    assert cluster.partition().replicas == (1, 4, 5)
    assert cluster.partition().adding_replicas == ()


def test_move_to_all_replicas_after_one_was_called_off_waits_for_the_new_ones() -> None:
    cluster = called_off(1, 2, 3, 4)
    cluster.move(1, 2, 3, 4, 5, 6)
    assert cluster.partition().adding_replicas == (4, 5, 6)
    ask_for_isr(cluster, 1, 2, 3, 4, 5, 6)
    assert cluster.partition().adding_replicas == ()


def test_calling_off_what_is_not_under_way_changes_nothing() -> None:
    cluster = cluster_with(1, 2, 3)
    offset = cluster.image.offset
    cluster.move()
    assert cluster.image.offset == offset


def test_a_move_that_a_new_isr_completes_is_told_as_completed() -> None:
    cluster = cluster_with(1, 2, 3)
    cluster.move(4, 3, 5)
    ask_for_isr(cluster, 1, 2, 3, 4, 5)
    ask_for_isr(cluster, 3, 4, 5)
    told = [event.name for event in cluster.events if event.name.startswith("reassignment")]
    assert told == ["reassignment_started", "reassignment_completed"]


def test_a_move_that_was_called_off_is_told_when_it_is_undone() -> None:
    cluster = called_off(1, 2, 3, 4)
    ask_for_isr(cluster, 1, 2, 3)
    told = [event.name for event in cluster.events if event.name.startswith("reassignment")]
    assert told == ["reassignment_started", "reassignment_cancelled", "reassignment_undone"]
