"""A partition without complete replicas, and whom an operator's recovery lets lead (rule 33)."""

from __future__ import annotations

from collections.abc import Mapping

from quorate.chaos.models.controller.small_cluster import SmallCluster
from quorate.controller.brokers import fence_broker
from quorate.controller.recover import ReplicaEnd, recover_partition
from quorate.core.ids import NO_LEADER_EPOCH, BrokerId, LeaderEpoch, Offset
from quorate.v1.admin_pb2 import PartitionName, RecoverPartitionRequest

__all__ = ["expired_records_count", "the_last_epoch_counts_before_the_length"]


def the_last_epoch_counts_before_the_length() -> None:
    """What a deposed leader has appended makes its log long, and was never committed."""
    assert _recovered({2: (4, 100), 3: (5, 10)}) == 3, "a longer log is chosen over a newer one"


def expired_records_count() -> None:
    """All that was committed has expired at broker 2; broker 3 was away for long, and holds some of it."""
    assert _recovered({2: (NO_LEADER_EPOCH, 100), 3: (4, 10)}) == 2, "offsets are given out twice"


def _recovered(ends: Mapping[int, tuple[int, int]]) -> int:
    """Who leads, of those that end there: (leader epoch of the last batch, offset)."""
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
        BrokerId(broker_id): ReplicaEnd(LeaderEpoch(epoch), Offset(end))
        for broker_id, (epoch, end) in ends.items()
    }
    return cluster.commit(recover_partition(cluster.image, request, log_ends=log_ends)).leader
