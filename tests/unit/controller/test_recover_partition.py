"""The last resort for a partition without complete replicas (rules 33, 34)."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from quorate.chaos.models.controller import recovery_story
from quorate.chaos.models.controller.small_cluster import SmallCluster
from quorate.controller.brokers import fence_broker
from quorate.controller.recover import ReplicaEnd, recover_partition, replicas_to_ask
from quorate.core.ids import BrokerId, LeaderEpoch, Offset
from quorate.errors import InvalidRequest, RecoveryRefused, UnknownTopicOrPartition
from quorate.metadata.image import NO_LEADER, Recovery
from quorate.v1.admin_pb2 import PartitionName, RecoverPartitionRequest, RecoverPartitionResponse


@pytest.fixture
def cluster() -> SmallCluster:
    """Brokers 2 and 3 run; 1 was the last one in the ISR and is gone."""
    cluster = SmallCluster(3)
    cluster.create("t", [1, 2, 3])
    cluster.set_partition(isr=[1])
    cluster.commit(fence_broker(cluster.image, BrokerId(1)))
    assert cluster.partition().leader == NO_LEADER
    cluster.events.clear()
    return cluster


def recover(
    cluster: SmallCluster,
    ends: Mapping[int, tuple[int, int]],
    *,
    leader: int | None = None,
    accept_missing: bool = True,
) -> RecoverPartitionResponse:
    return send(cluster, of_now(cluster, leader=leader, accept_missing=accept_missing), ends)


def of_now(
    cluster: SmallCluster, *, leader: int | None = None, accept_missing: bool = True
) -> RecoverPartitionRequest:
    """Of somebody who has just looked at the partition."""
    before = cluster.partition()
    return RecoverPartitionRequest(
        partition=PartitionName(topic="t", topic_id=before.topic_id, partition=0),
        leader=leader,
        accept_missing_replicas=accept_missing,
        leader_epoch=before.leader_epoch,
    )


def send(
    cluster: SmallCluster, request: RecoverPartitionRequest, ends: Mapping[int, tuple[int, int]]
) -> RecoverPartitionResponse:
    log_ends = {
        BrokerId(broker_id): ReplicaEnd(LeaderEpoch(epoch), Offset(end))
        for broker_id, (epoch, end) in ends.items()
    }
    return cluster.commit(recover_partition(cluster.image, request, log_ends=log_ends))


def test_the_last_epoch_decides_before_the_length(cluster: SmallCluster) -> None:
    response = recover(cluster, {2: (4, 100), 3: (5, 10)})
    after = cluster.partition()
    assert response.leader == after.leader == 3
    assert (after.isr, after.elr) == ((3,), ())
    assert after.recovery is Recovery.RECOVERING
    assert after.unclean_leader_epochs == (after.leader_epoch,)
    assert [(each.broker_id, each.is_missing) for each in response.candidates] == [
        (1, True),
        (2, False),
        (3, False),
    ]


def test_an_empty_log_leads_where_all_that_others_hold_had_expired() -> None:
    recovery_story.expired_records_count()


@pytest.mark.parametrize(("empty_at", "leader"), [(0, 2), (9, 2), (10, 3), (11, 3)])
def test_an_empty_log_is_judged_by_where_it_ends(cluster: SmallCluster, empty_at: int, leader: int) -> None:
    assert recover(cluster, {2: (5, 10), 3: (-1, empty_at)}).leader == leader


def test_an_empty_log_comes_last_once_something_was_given_up(cluster: SmallCluster) -> None:
    """It may have got there before that, and what was acknowledged since begins further down."""
    recover(cluster, {3: (5, 10)})
    cluster.commit(fence_broker(cluster.image, BrokerId(3)))
    assert recover(cluster, {1: (-1, 50), 2: (5, 10)}).leader == 2


def test_possible_loss_is_an_event_with_all_that_was_known(cluster: SmallCluster) -> None:
    recover(cluster, {2: (4, 100), 3: (5, 10)})
    (event,) = cluster.events
    assert event.is_warning
    assert event.fields["possible_data_loss"] is True
    assert event.fields["missing"] == [1]
    assert event.fields["former_members"] == [1]
    assert event.fields["log_ends"] == {2: (4, 100), 3: (5, 10)}


def test_of_equals_the_first_replica_leads(cluster: SmallCluster) -> None:
    assert recover(cluster, {3: (5, 10), 2: (5, 10)}).leader == 2


def test_the_operator_may_choose(cluster: SmallCluster) -> None:
    assert recover(cluster, {2: (5, 10), 3: (4, 9)}, leader=3).leader == 3


def test_missing_replicas_have_to_be_accepted(cluster: SmallCluster) -> None:
    with pytest.raises(RecoveryRefused, match=r"\[1\] that could not be asked"):
        recover(cluster, {2: (5, 10), 3: (4, 9)}, accept_missing=False)


def test_a_complete_replica_that_answers_is_waited_for(cluster: SmallCluster) -> None:
    with pytest.raises(RecoveryRefused, match="without any loss"):
        recover(cluster, {1: (5, 12), 2: (5, 10), 3: (4, 9)}, leader=2)


def test_the_best_replica_is_not_passed_over_because_it_is_fenced(cluster: SmallCluster) -> None:
    cluster.change_broker(2, is_fenced=True)
    with pytest.raises(RecoveryRefused, match=r"broker 2 now; these can: \[3\]"):
        recover(cluster, {2: (5, 10), 3: (4, 9)})
    assert recover(cluster, {2: (5, 10), 3: (4, 9)}, leader=3).leader == 3


def test_somebody_has_to_have_answered(cluster: SmallCluster) -> None:
    with pytest.raises(RecoveryRefused, match="no replica that could be asked"):
        recover(cluster, {})


def test_a_copy_is_refused_in_the_next_incident(cluster: SmallCluster) -> None:
    """All but one are away again; what was acknowledged meanwhile is with them."""
    late = of_now(cluster)
    send(cluster, late, {2: (5, 10), 3: (5, 10)})
    cluster.set_partition(isr=[], elr=[], leader=NO_LEADER)
    offset = cluster.image.offset
    with pytest.raises(RecoveryRefused, match="in leader epoch 3, and the request is about epoch 1"):
        send(cluster, late, {3: (5, 10)})
    assert cluster.image.offset == offset
    assert send(cluster, of_now(cluster), {3: (5, 10)}).leader == 3


def test_a_copy_is_answered_while_the_leader_is_the_one_that_was_elected(cluster: SmallCluster) -> None:
    request = of_now(cluster)
    send(cluster, request, {2: (5, 10), 3: (5, 10)})
    after = cluster.partition()
    assert send(cluster, request, {}) == RecoverPartitionResponse(leader=2)
    assert cluster.partition() is after
    # Nobody has elected the one that this request wants.
    request.leader = 3
    with pytest.raises(RecoveryRefused, match="there was another election"):
        send(cluster, request, {2: (5, 10), 3: (5, 10)})


def test_a_clean_election_ends_the_incident_too(cluster: SmallCluster) -> None:
    late = of_now(cluster)
    cluster.set_partition(leader=1)
    with pytest.raises(RecoveryRefused, match="there was another election"):
        send(cluster, late, {2: (5, 10), 3: (5, 10)})


def test_a_copy_does_not_reach_the_next_topic_of_the_name(cluster: SmallCluster) -> None:
    late = of_now(cluster)
    cluster.delete()
    cluster.create("t", [1, 2, 3])
    cluster.set_partition(isr=[1], leader=NO_LEADER)
    assert cluster.partition().leader_epoch == late.leader_epoch
    with pytest.raises(UnknownTopicOrPartition):
        send(cluster, late, {2: (5, 10), 3: (5, 10)})


@pytest.mark.parametrize("missing", ["topic_id", "leader_epoch"])
def test_a_recovery_names_its_incident(cluster: SmallCluster, missing: str) -> None:
    request = of_now(cluster)
    if missing == "topic_id":
        request.partition.ClearField("topic_id")
    else:
        request.ClearField("leader_epoch")
    with pytest.raises(InvalidRequest, match="names the topic's id and the leader epoch"):
        send(cluster, request, {2: (5, 10), 3: (5, 10)})


def test_a_partition_that_is_led_is_left_alone() -> None:
    cluster = SmallCluster(2)
    cluster.create("t", [1, 2])
    with pytest.raises(RecoveryRefused, match="is led by broker 1"):
        recover(cluster, {1: (1, 1), 2: (1, 1)})
    with pytest.raises(RecoveryRefused):
        replicas_to_ask(cluster.image, cluster.partition())
