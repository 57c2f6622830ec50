"""A damaged log is kept for as long as somebody may count on it (rule 44).

A member of the ISR finds out that its log is damaged, and cannot tell the controller. Meanwhile another
leader is elected, from which it could copy everything. If it dropped what it has now, and died before it had
copied anything, its next process would find a sound log that is empty, and be elected with it.
"""

from __future__ import annotations

from typing import Final

from quorate.broker.replica.partition import Partition
from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.cluster.final import batches_of
from quorate.chaos.cluster.machine import SimMachine
from quorate.chaos.cluster.view import active_controller, newest_image, partitions_of
from quorate.chaos.mutations.shortened_log_story import (
    QUIET_S,
    TOPIC,
    check_everything_is_there,
    is_in_sync,
    write_records,
)
from quorate.errors import LogDamaged

__all__ = [
    "a_damaged_log_is_kept_while_it_may_be_elected",
    "damage_log",
    "in_the_order_of_replicas",
    "replica_on",
]

#: somewhere in the first batch's records
_DAMAGED_BIT: Final = 8 * 80


async def a_damaged_log_is_kept_while_it_may_be_elected(cluster: SimCluster) -> None:
    async with cluster.admin() as admin:
        await admin.create_topic("t", partitions=1)
    await write_records(cluster)
    await cluster.until(lambda: is_in_sync(cluster))
    await cluster.clock.sleep(QUIET_S)
    first, second, victim = in_the_order_of_replicas(cluster)
    active = active_controller(cluster)
    assert active is not None
    cluster.network.partition([victim.name], [active.name, second.name])
    cluster.network.break_connections(victim.name, active.name)
    replica = replica_on(victim)
    damage_log(victim, replica)
    first.kill()
    epoch = replica.leader_epoch
    await cluster.until(lambda: replica.leader_epoch > epoch, within_s=60)
    await cluster.clock.sleep(QUIET_S)
    for machine in (victim, second):
        machine.kill()
    cluster.network.heal()
    for machine in (victim, second, first):
        machine.start()
        await cluster.clock.sleep(QUIET_S)
    await check_everything_is_there(cluster)


def in_the_order_of_replicas(cluster: SimCluster) -> list[SimMachine]:
    """The one that leads is the first."""
    [partition] = [found for name, found in partitions_of(newest_image(cluster)) if name == TOPIC]
    assert partition.leader == partition.replicas[0]
    return [cluster.broker(broker_id) for broker_id in partition.replicas]


def replica_on(machine: SimMachine) -> Partition:
    assert machine.broker is not None
    [replica] = machine.broker.replicas
    return replica


def damage_log(machine: SimMachine, replica: Partition) -> None:
    """And have it found out, as by a reader."""
    machine.disk.flip_bit(f"{replica.log.directory}/{0:020}.log", _DAMAGED_BIT)
    try:
        for _ in batches_of(replica, replica.high_watermark):
            pass
    except LogDamaged as error:
        replica.fail(error)
    assert replica.log.damage is not None
