"""What a process has told a leader counts for that process, also when it arrives after its death (rule 25).

A follower copies everything, and dies while it says so. Its broker is back with an empty disk before that
arrives. A leader that took it for the word of the process that is registered by now would have the empty copy
admitted; and when all others die, it would lead.
"""

from __future__ import annotations

from typing import Final

from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.cluster.machine import SimMachine
from quorate.chaos.cluster.view import newest_image, partitions_of
from quorate.chaos.mutations.damaged_log_story import in_the_order_of_replicas, replica_on
from quorate.chaos.mutations.shortened_log_story import (
    QUIET_S,
    check_everything_is_there,
    is_in_sync,
    write_records,
)
from quorate.chaos.sim.network import LinkFaults

__all__ = ["a_late_fetch_does_not_count"]

#: what it says to the leader takes so long: more than a start
_LATE_S: Final = 3.0


async def a_late_fetch_does_not_count(cluster: SimCluster) -> None:
    async with cluster.admin() as admin:
        await admin.create_topic("t", partitions=1)
    await write_records(cluster)
    await cluster.until(lambda: is_in_sync(cluster))
    leader, other, victim = in_the_order_of_replicas(cluster)
    network = cluster.network
    victim.kill()
    victim.wipe()
    network.set_faults(victim.name, leader.name, LinkFaults(delay_s=(_LATE_S, _LATE_S)))
    victim.start()
    end = replica_on(leader).log.log_end_offset
    await cluster.until(lambda: _log_end(victim) == end)
    network.delivered_share = 1.0
    victim.kill()
    victim.wipe()
    # What the empty copy says comes later still.
    network.set_faults(victim.name, leader.name, LinkFaults(delay_s=(2 * _LATE_S, 2 * _LATE_S)))
    victim.start()
    await cluster.until(lambda: victim.is_ready, within_s=_LATE_S / 2)
    await cluster.clock.sleep(_LATE_S)
    [(_, partition)] = partitions_of(newest_image(cluster))
    assert partition.leader == leader.config.node_id, "another leader is told other things"
    for machine in (leader, other):
        machine.kill()
    await cluster.clock.sleep(QUIET_S)
    network.set_faults(victim.name, leader.name, None)
    for machine in (leader, other):
        machine.start()
        await cluster.clock.sleep(QUIET_S)
    await check_everything_is_there(cluster)


def _log_end(machine: SimMachine) -> int | None:
    replicas = [] if machine.broker is None else list(machine.broker.replicas)
    return replicas[0].log.log_end_offset if replicas else None
