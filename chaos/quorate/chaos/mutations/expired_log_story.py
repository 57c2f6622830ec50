"""A log whose records have all expired is no prefix of a leader's that was forced (rules 8, 12 and 33).

Everything expires, so that a replica is empty, at an offset far from 0. It dies, and so does the other one
that was in sync. A stale replica is made to lead, and ends long before that offset. What is written then goes
past it, acknowledged by two. When the empty one comes back, only its leader knows that the offset at which it
ends belongs to another past. If it went on there, it would be in sync and lack what was acknowledged.
"""

from __future__ import annotations

from typing import Final

from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.cluster.final import records_of
from quorate.chaos.cluster.view import newest_image, partitions_of
from quorate.chaos.models.follower.replicas import client_batch
from quorate.chaos.mutations.cluster_stories import recover_partition
from quorate.chaos.mutations.damaged_log_story import in_the_order_of_replicas, replica_on
from quorate.chaos.mutations.shortened_log_story import QUIET_S, TOPIC, is_in_sync
from quorate.core.ids import Offset
from quorate.metadata.image import PartitionImage

__all__ = ["what_was_written_since_is_not_passed_over"]

_SHARED: Final = 10
_EXPIRED: Final = 40
_SINCE: Final = 90


async def what_was_written_since_is_not_passed_over(
    cluster: SimCluster, *, is_forced_by_setting: bool = False, is_one_batch: bool = False
) -> None:
    """``is_one_batch``: and the offset at which the empty one ends lies within it."""
    configs = {"retention.bytes": -1, "unclean.leader.election.enable": is_forced_by_setting}
    async with cluster.admin() as admin:
        await admin.create_topic("t", partitions=1, configs=configs)
    await cluster.until(lambda: is_in_sync(cluster))
    emptied, other, stale = in_the_order_of_replicas(cluster)
    await _write(cluster, b"shared", _SHARED)
    await cluster.until(lambda: is_in_sync(cluster))
    await cluster.clock.sleep(QUIET_S)
    stale.kill()
    await cluster.until(lambda: len(_partition(cluster).isr) == 2)
    await _write(cluster, b"expires", _EXPIRED)
    log = replica_on(emptied).log
    async with cluster.admin(bootstrap=[emptied.address]) as admin:
        await admin.alter_config("t", {"retention.bytes": 0})
        await cluster.until(lambda: log.log_start_offset == log.log_end_offset, within_s=60)
        await admin.alter_config("t", {"retention.bytes": -1})
    await cluster.clock.sleep(QUIET_S)
    for machine in (emptied, other):
        machine.kill()
    stale.start()
    await stale.ready()
    if not is_forced_by_setting:
        async with cluster.admin(bootstrap=[stale.address]) as admin:
            await recover_partition(cluster, admin, ("t", 0))
    await cluster.until(lambda: _partition(cluster).leader == stale.config.node_id, within_s=60)
    other.start()
    await other.ready()
    await cluster.until(lambda: len(_partition(cluster).isr) == 2, within_s=60)
    if is_one_batch:
        batch = client_batch(*[b"in one batch"] * _SINCE)
        replica_on(stale).require_leadership(None).append(batch, acks_all=True)
        acknowledged: dict[Offset, bytes] = {}
    else:
        acknowledged = await _write(cluster, b"since then", _SINCE)
    await cluster.clock.sleep(QUIET_S)
    emptied.start()
    await emptied.ready()
    await cluster.until(lambda: is_in_sync(cluster), within_s=60)
    replica = replica_on(emptied)
    held = records_of(replica, replica.high_watermark)
    assert acknowledged.items() <= held.items(), "a replica in sync lacks what was acknowledged"


async def _write(cluster: SimCluster, prefix: bytes, count: int) -> dict[Offset, bytes]:
    """By offset, as it was acknowledged."""
    acknowledged = {}
    async with cluster.producer() as producer:
        for number in range(count):
            value = b"%s %d" % (prefix, number)
            metadata = await (await producer.send("t", value, partition=0))
            assert metadata.offset is not None
            acknowledged[metadata.offset] = value
    return acknowledged


def _partition(cluster: SimCluster) -> PartitionImage:
    [partition] = [found for name, found in partitions_of(newest_image(cluster)) if name == TOPIC]
    return partition
