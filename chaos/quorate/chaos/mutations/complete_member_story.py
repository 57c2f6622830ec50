"""Whoever is in sync keeps its log when its new leader has deleted all of its last epoch (rules 8, 12, 49).

A leader has its followers delete everything; one of them has, and one has not heard of it. The leader dies,
and the quick one leads: it knows nothing of the epoch in which the slow one ends. That one is in sync all the
same, so it holds all that was committed. If it began anew, it would forget the producers with the batches;
and when it leads next, a retry would be written twice.

Or the other way round: the one who leads meanwhile, and writes nothing, has the others delete everything and
hands back before it has. It ends in an epoch that has no record at anybody.
"""

from __future__ import annotations

from typing import Final

from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.cluster.view import newest_image, partitions_of
from quorate.chaos.models.log.log_harness import batch
from quorate.chaos.mutations.damaged_log_story import in_the_order_of_replicas, replica_on
from quorate.chaos.mutations.shortened_log_story import QUIET_S, TOPIC, is_in_sync
from quorate.chaos.sim.network import LinkFaults
from quorate.core.ids import NO_LEADER_EPOCH, Offset
from quorate.metadata.image import PartitionImage

__all__ = [
    "LOOKS_RARELY",
    "a_member_that_has_everything_keeps_its_producers",
    "a_member_that_wrote_nothing_as_leader_keeps_its_producers",
]

#: so that whoever has told others to delete can hand back before it deletes itself
LOOKS_RARELY: Final = {"log_retention_check_interval_ms": 20_000}
_BATCH: Final = batch(b"of an idempotent producer", producer=(4711, 0, 0))
_SLOW: Final = LinkFaults(delay_s=(60.0, 60.0))


async def a_member_that_has_everything_keeps_its_producers(cluster: SimCluster) -> None:
    async with cluster.admin() as admin:
        await admin.create_topic("t", partitions=1, configs={"retention.bytes": -1})
        await cluster.until(lambda: is_in_sync(cluster))
        first, quick, slow = in_the_order_of_replicas(cluster)
        replica_on(first).require_leadership(None).append(_BATCH, acks_all=True)
        await cluster.until(lambda: is_in_sync(cluster))
        await cluster.clock.sleep(QUIET_S)
        cluster.network.set_faults(first.name, slow.name, _SLOW)
        await admin.alter_config("t", {"retention.bytes": 0})
    deleting = replica_on(quick).log
    await cluster.until(lambda: deleting.leader_epoch_at(Offset(0)) == NO_LEADER_EPOCH, within_s=60)
    assert replica_on(slow).log.log_start_offset == 0, "it has heard of it"
    assert slow.config.node_id in _partition(cluster).isr
    first.kill()
    await cluster.until(lambda: _leads(cluster, quick.config.node_id), within_s=60)
    await cluster.until(lambda: replica_on(slow).log.log_start_offset == 1, within_s=60)
    assert slow.config.node_id in _partition(cluster).isr
    cluster.network.set_faults(first.name, slow.name, None)
    quick.kill()
    await cluster.until(lambda: _leads(cluster, slow.config.node_id), within_s=60)
    first.start()
    await cluster.until(lambda: len(_partition(cluster).isr) == 2, within_s=60)
    retry = replica_on(slow).require_leadership(None).append(_BATCH, acks_all=True)
    assert retry.is_duplicate, "a retry is written twice"


async def a_member_that_wrote_nothing_as_leader_keeps_its_producers(cluster: SimCluster) -> None:
    """Its own retention looks again long after it has told the others."""
    async with cluster.admin() as admin:
        await admin.create_topic("t", partitions=1, configs={"retention.bytes": -1})
        await cluster.until(lambda: is_in_sync(cluster))
        first, *others = in_the_order_of_replicas(cluster)
        replica_on(first).require_leadership(None).append(_BATCH, acks_all=True)
        await cluster.until(lambda: is_in_sync(cluster))
        await cluster.clock.sleep(QUIET_S)
        await admin.drain_broker(first.config.node_id)
        await cluster.until(lambda: any(_leads(cluster, each.config.node_id) for each in others), within_s=60)
        idle = cluster.broker(_partition(cluster).leader)
        await admin.alter_config("t", {"retention.bytes": 0})
        await cluster.until(lambda: replica_on(first).log.log_start_offset == 1, within_s=60)
        assert replica_on(idle).log.log_start_offset == 0, "it has deleted before it hands back"
        await admin.drain_broker(first.config.node_id, cancel=True)
        await admin.elect_preferred_leaders([("t", 0)])
        await cluster.until(lambda: _leads(cluster, first.config.node_id), within_s=60)
        await cluster.until(lambda: replica_on(idle).log.log_start_offset == 1, within_s=60)
        assert idle.config.node_id in _partition(cluster).isr
        for each in (first, *others):
            if each is not idle:
                await admin.drain_broker(each.config.node_id)
        await cluster.until(lambda: _leads(cluster, idle.config.node_id), within_s=60)
    retry = replica_on(idle).require_leadership(None).append(_BATCH, acks_all=True)
    assert retry.is_duplicate, "a retry is written twice"


def _partition(cluster: SimCluster) -> PartitionImage:
    [partition] = [found for name, found in partitions_of(newest_image(cluster)) if name == TOPIC]
    return partition


def _leads(cluster: SimCluster, broker_id: int) -> bool:
    is_chosen = _partition(cluster).leader == broker_id
    return is_chosen and replica_on(cluster.broker(broker_id)).leadership is not None
