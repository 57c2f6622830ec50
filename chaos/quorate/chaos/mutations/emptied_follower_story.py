"""What a follower had in an earlier leader epoch is forgotten in the next one of the same leader (rule 7).

A follower finds its log damaged, and tells the controller. It leaves the ISR, a new leader epoch begins under
the same leader, and the log is dropped, to be copied anew: by the same process, with the same broker epoch.
Nothing but the leader epoch tells the empty log from the full one. The copy cannot begin, because the link to
the leader is down. A leader that still counted what the full log held would have the empty one admitted; and
when all others die, it would lead.
"""

from __future__ import annotations

from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.mutations.damaged_log_story import damage_log, in_the_order_of_replicas, replica_on
from quorate.chaos.mutations.shortened_log_story import (
    QUIET_S,
    check_everything_is_there,
    is_in_sync,
    write_records,
)

__all__ = ["an_emptied_follower_does_not_count"]


async def an_emptied_follower_does_not_count(cluster: SimCluster) -> None:
    async with cluster.admin() as admin:
        await admin.create_topic("t", partitions=1)
    await write_records(cluster)
    await cluster.until(lambda: is_in_sync(cluster))
    await cluster.clock.sleep(QUIET_S)
    leader, other, victim = in_the_order_of_replicas(cluster)
    epoch = replica_on(leader).leader_epoch
    cluster.network.partition([victim.name], [leader.name])
    cluster.network.break_connections(victim.name, leader.name)
    damage_log(victim, replica_on(victim))
    await cluster.until(lambda: replica_on(victim).log.log_end_offset == 0)
    assert replica_on(leader).leadership is not None, "another leader knows nothing of the full log"
    assert replica_on(leader).leader_epoch > epoch
    await cluster.clock.sleep(QUIET_S)
    for machine in (leader, other):
        machine.kill()
    await cluster.clock.sleep(QUIET_S)
    cluster.network.heal()
    for machine in (leader, other):
        machine.start()
        await cluster.clock.sleep(QUIET_S)
    await check_everything_is_there(cluster)
