"""Partitions that are about to be made: their replicas, by hand or by placement, and their first state."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence

from quorate.controller.placement import BrokerLoads, can_take_replicas, place_replicas
from quorate.core.config import Durability
from quorate.core.ids import BrokerId, LeaderEpoch, PartitionId
from quorate.core.limits import REPLICATION_FACTOR_MAX
from quorate.errors import InvalidReplicaAssignment, InvalidTopic, NotEnoughReplicas
from quorate.metadata.image import MetadataImage, PartitionImage, TopicImage
from quorate.metadata.topic_settings import durability_of
from quorate.v1 import admin_pb2

__all__ = ["check_replicas", "first_state", "placed_by_controller", "placed_by_hand"]


def placed_by_controller(
    image: MetadataImage,
    *,
    partition_count: int,
    replication_factor: int,
    existing: Collection[PartitionImage],
    rng: random.Random,
) -> list[tuple[BrokerId, ...]]:
    """Replicas of each new partition. ``existing``: the partitions that the topic has already."""
    if not 1 <= replication_factor <= REPLICATION_FACTOR_MAX:
        raise InvalidTopic(
            f"{replication_factor} copies of each partition, 1 to {REPLICATION_FACTOR_MAX} are possible",
            replication_factor=replication_factor,
        )
    brokers = [broker for broker in image.brokers.values() if can_take_replicas(broker)]
    if len(brokers) < replication_factor:
        raise _not_enough_brokers(image, wanted=replication_factor, available=len(brokers))
    return place_replicas(
        brokers,
        partition_count=partition_count,
        replication_factor=replication_factor,
        topic=BrokerLoads.of(existing),
        total=BrokerLoads.of_image(image),
        rng=rng,
    )


def _not_enough_brokers(image: MetadataImage, *, wanted: int, available: int) -> NotEnoughReplicas:
    registered = len(image.brokers)
    fenced = sum(not broker.is_active for broker in image.brokers.values())
    draining = registered - fenced - available
    return NotEnoughReplicas(
        f"{wanted} copies of each partition need as many brokers, and {available} can take new replicas: "
        f"{registered} are registered, {fenced} of them are fenced or stopping, {draining} are draining",
        replication_factor=wanted,
        brokers=available,
        registered_brokers=registered,
    )


def placed_by_hand(
    image: MetadataImage,
    assignments: Sequence[admin_pb2.ReplicaAssignment],
    *,
    first: int,
    replication_factor: int | None,
) -> list[tuple[BrokerId, ...]]:
    """Replicas of the partitions from number ``first`` on. A factor of None: whichever they all have."""
    by_number = {each.partition: tuple(map(BrokerId, each.replicas)) for each in assignments}
    wanted_numbers = range(first, first + len(assignments))
    if sorted(by_number) != list(wanted_numbers):
        raise InvalidReplicaAssignment(
            f"the assignments have to name partitions {first} to {first + len(assignments) - 1}, each once"
        )
    if replication_factor is None:
        replication_factor = len(by_number[first])
    for number, replicas in sorted(by_number.items()):
        check_replicas(image, f"partition {number}", replicas, joining=replicas)
        if len(replicas) != replication_factor:
            raise InvalidReplicaAssignment(
                f"partition {number} has {len(replicas)} replicas, {replication_factor} are expected",
                partition=number,
            )
        if not any(image.brokers[broker_id].is_active for broker_id in replicas):
            raise NotEnoughReplicas(
                f"partition {number}: none of the brokers {', '.join(map(str, replicas))} is running",
                partition=number,
                brokers=0,
            )
    return [by_number[number] for number in wanted_numbers]


def check_replicas(
    image: MetadataImage, partition: str, replicas: Sequence[BrokerId], *, joining: Collection[BrokerId]
) -> None:
    """Refuse a list that no partition can have. ``joining``: those that hold nothing of it yet."""
    if not 1 <= len(replicas) <= REPLICATION_FACTOR_MAX:
        raise InvalidReplicaAssignment(
            f"{partition} has {len(replicas)} replicas, 1 to {REPLICATION_FACTOR_MAX} are possible"
        )
    if len(set(replicas)) != len(replicas):
        raise InvalidReplicaAssignment(
            f"{partition}: a broker occurs twice among the replicas {', '.join(map(str, replicas))}"
        )
    for broker_id in replicas:
        broker = image.brokers.get(broker_id)
        if broker is None:
            raise InvalidReplicaAssignment(
                f"{partition}: no broker {broker_id} is registered", broker_id=broker_id
            )
        if broker.is_draining and broker_id in joining:
            raise InvalidReplicaAssignment(
                f"{partition}: broker {broker_id} is draining and takes no new replicas",
                broker_id=broker_id,
            )


def first_state(
    image: MetadataImage, topic: TopicImage, number: int, replicas: tuple[BrokerId, ...]
) -> PartitionImage:
    """As a partition begins: it is empty, so every replica that runs is in sync, and nothing is unsynced."""
    isr = [broker_id for broker_id in replicas if image.brokers[broker_id].is_active]
    return PartitionImage(
        topic_id=topic.topic_id,
        partition=PartitionId(number),
        replicas=replicas,
        isr=tuple(sorted(isr)),
        elr=(),
        last_known_elr=(),
        leader=isr[0],
        leader_epoch=LeaderEpoch(0),
        partition_epoch=0,
        is_synced=durability_of(image, topic) is Durability.FSYNC,
    )
