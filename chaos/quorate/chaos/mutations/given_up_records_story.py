"""What an operator has given up is shown by nobody who knows of it (rules 11 and 18).

A replica that lacks the newest records is made to lead, since the others are gone. One of those comes back,
hears of the new leader epoch, and cannot reach its leader. It knows its records to be committed, and they
were.
"""

from __future__ import annotations

from contextlib import suppress

from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.cluster.view import newest_image, partitions_of
from quorate.chaos.mutations.cluster_stories import recover_partition
from quorate.chaos.mutations.damaged_log_story import in_the_order_of_replicas, replica_on
from quorate.chaos.mutations.shortened_log_story import (
    QUIET_S,
    RECORDS,
    check_everything_is_there,
    is_in_sync,
    write_records,
)
from quorate.errors import NotLeaderOrFollower
from quorate.metadata.image import PartitionImage

__all__ = ["what_was_given_up_is_not_shown"]


async def what_was_given_up_is_not_shown(cluster: SimCluster) -> None:
    async with cluster.admin() as admin:
        await admin.create_topic("t", partitions=1)
    await cluster.until(lambda: is_in_sync(cluster))
    cut_off, other, stale = in_the_order_of_replicas(cluster)
    await write_records(cluster)
    await cluster.clock.sleep(QUIET_S)
    stale.kill()
    await cluster.until(lambda: len(_partition(cluster).isr) == 2)
    await write_records(cluster)
    await cluster.clock.sleep(QUIET_S)
    for machine in (cut_off, other):
        machine.kill()
    stale.start()
    await stale.ready()
    async with cluster.admin(bootstrap=[stale.address]) as admin:
        await recover_partition(cluster, admin, ("t", 0))
    await cluster.until(lambda: _partition(cluster).leader == stale.config.node_id)
    cluster.network.partition([cut_off.name], [stale.name])
    cut_off.start()
    await cut_off.ready()
    replica = replica_on(cut_off)
    await cluster.until(lambda: replica.leader_epoch == _partition(cluster).leader_epoch)
    assert replica.high_watermark > RECORDS, "it does not know what was committed"
    with suppress(NotLeaderOrFollower):
        shown = replica.require_reader(None, allow_follower=True).high_watermark
        assert shown <= RECORDS, "records are shown that were given up"
    cluster.network.heal()
    other.start()
    await check_everything_is_there(cluster)


def _partition(cluster: SimCluster) -> PartitionImage:
    [(_, partition)] = partitions_of(newest_image(cluster))
    return partition
