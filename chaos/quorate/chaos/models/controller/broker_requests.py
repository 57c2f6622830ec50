"""Requests that brokers send, for tests of what the controller answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from quorate.chaos.models.controller.small_cluster import SmallCluster
from quorate.controller.alter_partition import alter_partition
from quorate.core.ids import BrokerId
from quorate.metadata.image import PartitionImage
from quorate.v1.controller_pb2 import (
    AlterPartitionRequest,
    BrokerSessionRequest,
    DamagedReplica,
    IsrMember,
    PartitionAlteration,
    PartitionAlterationResult,
    PreviousRun,
    RegisterBrokerRequest,
    ReplicaName,
)
from quorate.v1.metadata_pb2 import RecoveryState

__all__ = ["alteration", "ask_for_isr", "beat", "damage", "epoch_of", "registration", "replica"]


def epoch_of(cluster: SmallCluster, broker_id: int) -> int:
    return cluster.image.brokers[BrokerId(broker_id)].broker_epoch


def replica(partition: PartitionImage) -> ReplicaName:
    return ReplicaName(topic_id=partition.topic_id, partition=partition.partition)


def damage(partition: PartitionImage, *, leader_epoch: int | None = None) -> DamagedReplica:
    """``leader_epoch``: None: the one in which it is."""
    return DamagedReplica(
        topic_id=partition.topic_id,
        partition=partition.partition,
        leader_epoch=partition.leader_epoch if leader_epoch is None else leader_epoch,
    )


def registration(
    cluster: SmallCluster,
    broker_id: int,
    *,
    incarnation_id: str = "next",
    directory_id: str | None = None,
    previous_epoch: int | None = None,
    expected_epoch: int | None = None,
    is_clean: bool = False,
    is_same_boot: bool = False,
    is_intact: bool = True,
    unnoted: Iterable[str] = (),
    cache_witness: int | None = None,
    device_witness: int | None = None,
    damaged: Iterable[ReplicaName] = (),
    cluster_id: str = "",
    feature_levels: tuple[int, int] = (1, 1),
) -> RegisterBrokerRequest:
    """``previous_epoch``: None: the last one that the controller knows; 0: the directory has no history.

    ``expected_epoch``: None: the last one that the controller knows; 0: none.
    """
    known = cluster.image.brokers.get(BrokerId(broker_id))
    registered_epoch = 0 if known is None else known.broker_epoch
    if previous_epoch is None:
        previous_epoch = registered_epoch
    request = RegisterBrokerRequest(
        broker_id=broker_id,
        incarnation_id=incarnation_id,
        directory_id=directory_id or f"directory-{broker_id}",
        address=f"host-{broker_id}:9092",
        feature_level_min=feature_levels[0],
        feature_level_max=feature_levels[1],
        damaged=damaged,
        cluster_id=cluster_id,
        expected_broker_epoch=registered_epoch if expected_epoch is None else expected_epoch,
    )
    if previous_epoch:
        request.previous_run.CopyFrom(
            PreviousRun(
                broker_epoch=previous_epoch,
                is_clean=is_clean,
                is_same_boot=is_same_boot,
                is_intact=is_intact,
                unnoted_incarnation_ids=unnoted,
                cache_witness=cache_witness,
                device_witness=device_witness,
            )
        )
    return request


def beat(
    cluster: SmallCluster,
    broker_id: int,
    *,
    broker_epoch: int | None = None,
    metadata_offset: int = 1 << 40,
    wants_unfence: bool = False,
    wants_shutdown: bool = False,
    damaged: Iterable[DamagedReplica] = (),
    cache_witness: int | None = None,
    device_witness: int | None = None,
) -> BrokerSessionRequest:
    return BrokerSessionRequest(
        broker_id=broker_id,
        broker_epoch=epoch_of(cluster, broker_id) if broker_epoch is None else broker_epoch,
        metadata_offset=metadata_offset,
        wants_unfence=wants_unfence,
        wants_shutdown=wants_shutdown,
        damaged=damaged,
        sequence=7,
        cache_witness=cache_witness,
        device_witness=device_witness,
    )


def alteration(
    cluster: SmallCluster,
    partition: PartitionImage,
    isr: Iterable[int],
    *,
    leader_epoch: int | None = None,
    partition_epoch: int | None = None,
    member_epochs: Mapping[int, int] | None = None,
    recovery_state: RecoveryState = RecoveryState.RECOVERY_STATE_UNSPECIFIED,
    is_synced: bool = False,
) -> PartitionAlteration:
    epochs = member_epochs or {}
    return PartitionAlteration(
        topic_id=partition.topic_id,
        partition=partition.partition,
        leader_epoch=partition.leader_epoch if leader_epoch is None else leader_epoch,
        partition_epoch=partition.partition_epoch if partition_epoch is None else partition_epoch,
        isr=[
            IsrMember(
                broker_id=member,
                broker_epoch=epochs[member] if member in epochs else epoch_of(cluster, member),
            )
            for member in isr
        ],
        recovery_state=recovery_state,
        is_synced=is_synced,
    )


def ask_for_isr(
    cluster: SmallCluster, broker_id: int, *alterations: PartitionAlteration, broker_epoch: int | None = None
) -> list[PartitionAlterationResult]:
    """As this broker; what is granted is committed."""
    request = AlterPartitionRequest(
        broker_id=broker_id,
        broker_epoch=epoch_of(cluster, broker_id) if broker_epoch is None else broker_epoch,
        partitions=alterations,
    )
    return list(cluster.commit(alter_partition(cluster.image, request)).partitions)
