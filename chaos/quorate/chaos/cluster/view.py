"""What is the case in a simulated cluster, as its running nodes know it."""

from __future__ import annotations

from collections.abc import Iterator

from quorate.broker.replica.leadership import Leadership
from quorate.broker.replica.partition import Partition
from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.cluster.machine import SimMachine
from quorate.core.ids import TopicPartition
from quorate.metadata.image import EMPTY_IMAGE, NO_LEADER, MetadataImage, PartitionImage

__all__ = [
    "active_controller",
    "failed_in_silence",
    "is_whole",
    "leaders",
    "newest_image",
    "partitions_of",
    "replicas_of",
    "what_is_missing",
]


def newest_image(cluster: SimCluster) -> MetadataImage:
    """Committed metadata, of the running controller that has heard most."""
    newest = EMPTY_IMAGE
    for machine in cluster.controllers:
        controller = machine.controller
        if controller is not None and controller.image.offset >= newest.offset:
            newest = controller.image
    return newest


def partitions_of(image: MetadataImage) -> Iterator[tuple[TopicPartition, PartitionImage]]:
    for name in sorted(image.topic_ids):
        for partition in image.topics[image.topic_ids[name]].partitions:
            yield TopicPartition(name, partition.partition), partition


def replicas_of(cluster: SimCluster) -> dict[TopicPartition, list[Partition]]:
    """Every replica of every broker that runs."""
    found: dict[TopicPartition, list[Partition]] = {}
    for machine in cluster.brokers:
        if machine.broker is not None:
            for replica in machine.broker.replicas:
                found.setdefault(replica.topic_partition, []).append(replica)
    return found


def leaders(cluster: SimCluster) -> list[SimMachine]:
    """Machines that lead at least one partition, as the metadata has it."""
    numbers = {partition.leader for _, partition in partitions_of(newest_image(cluster))}
    return [each for each in cluster.brokers if each.config.node_id in numbers]


def active_controller(cluster: SimCluster) -> SimMachine | None:
    """Whoever takes itself for it, in the highest term."""
    found, highest = None, -1
    for machine in cluster.controllers:
        controller = machine.controller
        if controller is not None and controller.is_active and controller.term > highest:
            found, highest = machine, controller.term
    return found


def is_whole(cluster: SimCluster) -> bool:
    """Every partition has a leader that knows so; every replica is well, and in its ISR; none is moving."""
    return what_is_missing(cluster) is None


def what_is_missing(cluster: SimCluster) -> str | None:
    """Of a whole cluster, in words; the first thing found."""
    image = newest_image(cluster)
    # Controllers that have just started know of nothing yet, and of nothing that is not whole.
    if len(image.brokers) < len(cluster.brokers):
        return f"{len(image.brokers)} of {len(cluster.brokers)} brokers are registered"
    for broker_id, broker in sorted(image.brokers.items()):
        if broker.is_fenced:
            return f"broker {broker_id} is fenced"
    for name, machine in cluster.machines.items():
        if not machine.is_ready or machine.is_paused:
            return f"{name} does not run"
    leading = {
        (replica.topic_partition, replica.topic_id): replica.leadership
        for replicas in replicas_of(cluster).values()
        for replica in replicas
        if replica.leadership is not None
    }
    for topic_partition, partition in partitions_of(image):
        missing = _missing_of(partition, leading.get((topic_partition, partition.topic_id)))
        if missing is not None:
            return f"{topic_partition} {missing}"
    return failed_in_silence(cluster)


def failed_in_silence(cluster: SimCluster) -> str | None:
    """A replica that its broker calls failed, and that the metadata has elected or would elect; in words."""
    image = newest_image(cluster)
    for machine in cluster.brokers:
        if machine.broker is None:
            continue
        for replica in machine.broker.replicas:
            partition = image.partition(replica.topic_id, replica.key.partition)
            if replica.failure is None or partition is None:
                continue
            if machine.config.node_id in (*partition.isr, *partition.elr):
                return (
                    f"{replica.topic_partition} has failed at {machine.name} ({replica.failure.message}), "
                    f"and nobody was told: {partition}"
                )
    return None


def _missing_of(partition: PartitionImage, leadership: Leadership | None) -> str | None:
    if partition.leader == NO_LEADER:
        return "has no leader"
    if partition.adding_replicas or partition.removing_replicas:
        return "is being moved"
    if leadership is None or leadership.epoch != partition.leader_epoch:
        return f"is not led by {partition.leader}, which was elected"
    if set(partition.isr) != set(partition.replicas):
        return f"has {list(partition.isr)} in sync, of {list(partition.replicas)}"
    if set(leadership.isr) != set(partition.replicas):
        return f"has a leader that has not heard that {list(partition.isr)} are in sync"
    return None
