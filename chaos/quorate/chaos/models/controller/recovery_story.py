"""A partition without complete replicas, and whom an operator's recovery lets lead (rule 33)."""

from __future__ import annotations

from quorate.chaos.models.controller.small_cluster import SmallCluster
from quorate.controller.brokers import fence_broker
from quorate.controller.recover import ReplicaEnd, recover_partition
from quorate.core.ids import BrokerId, LeaderEpoch, Offset
from quorate.v1.admin_pb2 import PartitionName, RecoverPartitionRequest

__all__ = ["the_last_epoch_counts_before_the_length"]


def the_last_epoch_counts_before_the_length() -> None:
    """What a deposed leader has appended makes its log long, and was never committed."""
    cluster = SmallCluster(3)
    cluster.create("t", [1, 2, 3])
    cluster.set_partition(isr=[1])
    cluster.commit(fence_broker(cluster.image, BrokerId(1)))
    before = cluster.partition()
    request = RecoverPartitionRequest(
        partition=PartitionName(topic="t", topic_id=before.topic_id, partition=0),
        accept_missing_replicas=True,
        leader_epoch=before.leader_epoch,
    )
    log_ends = {
        BrokerId(2): ReplicaEnd(LeaderEpoch(4), Offset(100)),
        BrokerId(3): ReplicaEnd(LeaderEpoch(5), Offset(10)),
    }
    response = cluster.commit(recover_partition(cluster.image, request, log_ends=log_ends))
    assert response.leader == 3, "a longer log is chosen over a newer one"
