"""An operator's recovery decides on what the replicas answered, and only if that still holds (rule 33)."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from quorate.chaos.models.controller.broker_requests import registration
from quorate.chaos.models.controller.small_cluster import SmallCluster
from quorate.chaos.sim.clock import Simulation, run_simulation
from quorate.controller.administration import Administration
from quorate.controller.brokers import register_broker
from quorate.controller.decision import Decision
from quorate.controller.recover import ReplicaEnd, recover_partition
from quorate.core.ids import BrokerId, LeaderEpoch, Offset
from quorate.errors import RecoveryRefused
from quorate.metadata.image import MetadataImage, PartitionImage
from quorate.v1 import admin_pb2


class _Active:
    """Commits at once."""

    def __init__(self, cluster: SmallCluster) -> None:
        self._cluster = cluster

    async def confirm(self) -> MetadataImage:
        return self._cluster.image

    async def change(self, decide: Callable[[MetadataImage, int], Decision[Any]]) -> Any:
        return self._cluster.commit(decide(self._cluster.image, self._cluster.next_offset))


class _LogEnds:
    def __init__(self, meanwhile: Callable[[], object]) -> None:
        self._meanwhile = meanwhile

    async def ask(
        self, _image: MetadataImage, _partition: PartitionImage, broker_ids: Sequence[BrokerId]
    ) -> dict[BrokerId, ReplicaEnd]:
        self._meanwhile()
        return {each: ReplicaEnd(LeaderEpoch(0), Offset(5)) for each in broker_ids}


def _of_now(cluster: SmallCluster) -> admin_pb2.RecoverPartitionRequest:
    before = cluster.partition()
    partition = admin_pb2.PartitionName(topic="t", topic_id=before.topic_id, partition=0)
    return admin_pb2.RecoverPartitionRequest(
        partition=partition, accept_missing_replicas=True, leader_epoch=before.leader_epoch
    )


def _recover(cluster: SmallCluster, meanwhile: Callable[[], object]) -> Any:
    request = _of_now(cluster)
    active: Any = _Active(cluster)
    log_ends: Any = _LogEnds(meanwhile)
    quorum: Any = _NoQuorum()

    async def scenario(simulation: Simulation) -> bytes:
        administration = Administration(
            active,
            quorum,
            log_ends,
            clock=simulation.clock,
            rng=random.Random(1),
            default_partition_count=1,
            is_heard=lambda _broker_id: True,
        )
        return await administration.call("RecoverPartition", request.SerializeToString())

    return admin_pb2.RecoverPartitionResponse.FromString(run_simulation(scenario, seed=1))


class _NoQuorum:
    def __getattr__(self, name: str) -> None:
        return None


def _lost() -> SmallCluster:
    """Its only replica came back without what it had."""
    cluster = SmallCluster(1)
    cluster.create("t", [1])
    _come_back(cluster, "second")
    return cluster


def _come_back(cluster: SmallCluster, incarnation: str) -> None:
    request = registration(cluster, 1)
    request.incarnation_id = incarnation
    cluster.commit(
        register_broker(cluster.image, request, next_offset=cluster.next_offset, has_live_session=False)
    )
    cluster.change_broker(1, is_fenced=False)


def test_a_partition_that_is_as_it_was_asked_about_is_recovered() -> None:
    cluster = _lost()
    assert _recover(cluster, lambda: None).leader == 1


def test_a_broker_that_registered_again_meanwhile_has_not_answered() -> None:
    cluster = _lost()
    with pytest.raises(RecoveryRefused, match="changed while they were asked"):
        _recover(cluster, lambda: _come_back(cluster, "third"))


def test_a_copy_that_was_carried_out_while_the_replicas_were_asked_is_answered() -> None:
    cluster = _lost()
    ends = {BrokerId(1): ReplicaEnd(LeaderEpoch(0), Offset(5))}

    def meanwhile() -> None:
        cluster.commit(recover_partition(cluster.image, _of_now(cluster), log_ends=ends))

    assert _recover(cluster, meanwhile).leader == 1
    assert len(cluster.partition().unclean_leader_epochs) == 1
