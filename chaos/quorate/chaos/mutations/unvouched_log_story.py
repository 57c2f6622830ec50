"""What was never committed is never shown, however long its replica was away (rules 8, 12 and 18).

A leader is cut off with records that nobody acknowledges. The next one goes on without them, and deletes all
that the two logs share, and with it what it knew of the epoch in which they parted. Then the old one comes
back, and its log reaches to where the new leader's begins, or beyond. Its disk is slow, so that all that it
shows can be seen.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from quorate.broker.replica.partition import Partition
from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.cluster.final import check_replicas_agree
from quorate.chaos.cluster.view import newest_image, partitions_of, replicas_of
from quorate.chaos.models.follower.replicas import client_batch
from quorate.chaos.mutations.damaged_log_story import in_the_order_of_replicas, replica_on
from quorate.chaos.mutations.shortened_log_story import TOPIC, is_in_sync
from quorate.core.ids import NO_LEADER_EPOCH, Offset
from quorate.errors import QuorateError

__all__ = ["LOOKS_OFTEN", "a_log_that_ends_at_the_leaders_start_is_dropped", "a_longer_log_is_dropped"]

#: of brokers, for whoever plays these stories
LOOKS_OFTEN: Final = {"log_retention_check_interval_ms": 1000}
#: each record begins a segment, and the leader keeps hardly one
_CONFIGS: Final = {"segment.bytes": 16384, "retention.bytes": -1}
_VALUE: Final = b"v" * 16000
_NEVER_COMMITTED: Final = b"never committed" + _VALUE
_SHARED: Final = 3
_ALONE: Final = 4
_SLOW_SYNC_S: Final = 0.2
_LOOKS: Final = 1000


async def a_longer_log_is_dropped(cluster: SimCluster) -> None:
    await _come_back(cluster, leader_start=_SHARED + _ALONE - 1)


async def a_log_that_ends_at_the_leaders_start_is_dropped(cluster: SimCluster) -> None:
    await _come_back(cluster, leader_start=_SHARED + _ALONE)


async def _come_back(cluster: SimCluster, *, leader_start: int) -> None:
    async with cluster.admin() as admin:
        await admin.create_topic("t", partitions=1, configs=_CONFIGS)
    await cluster.until(lambda: is_in_sync(cluster))
    old, *others = in_the_order_of_replicas(cluster)
    returning = replica_on(old)
    _append(returning, _SHARED, _VALUE)
    await cluster.until(lambda: is_in_sync(cluster))
    cluster.network.partition(
        [old.name], [each.name for each in cluster.machines.values() if each is not old]
    )
    _append(returning, _ALONE, _NEVER_COMMITTED)
    await cluster.until(lambda: _leader(cluster) in {each.config.node_id for each in others}, within_s=60)
    successor = cluster.broker(_leader(cluster))
    leader = replica_on(successor)
    async with cluster.admin(bootstrap=[successor.address]) as admin:
        await admin.alter_config("t", {"retention.bytes": 1})
    while leader.log.log_start_offset < leader_start:
        _append(leader, 1, _VALUE)
        end = leader.log.log_end_offset
        await cluster.until(partial(_begins_at, leader, Offset(min(leader_start, end - 1))), within_s=60)
    assert leader.log.log_start_offset == leader_start, f"it begins at {leader.log.log_start_offset}"
    assert leader.log.leader_epoch_at(Offset(_SHARED)) == NO_LEADER_EPOCH, "it knows where they parted"
    assert returning.log.log_end_offset == _SHARED + _ALONE, f"it ends at {returning.log.log_end_offset}"
    old.disk.sync_delay_s = _SLOW_SYNC_S
    cluster.network.heal()
    for _ in range(_LOOKS):
        _check_what_is_shown(returning)
        await cluster.clock.sleep(0.01)
    await cluster.until(lambda: is_in_sync(cluster), within_s=60)
    check_replicas_agree(replicas_of(cluster)[TOPIC])


def _append(replica: Partition, count: int, value: bytes) -> None:
    """Not by a client of ours: it may know another leader."""
    for _ in range(count):
        replica.require_leadership(None).append(client_batch(value), acks_all=True)


def _leader(cluster: SimCluster) -> int:
    [partition] = [found for name, found in partitions_of(newest_image(cluster)) if name == TOPIC]
    return partition.leader


def _begins_at(replica: Partition, offset: Offset) -> bool:
    return replica.log.log_start_offset >= offset


def _check_what_is_shown(replica: Partition) -> None:
    """To whoever asks a follower."""
    try:
        reader = replica.require_reader(None, allow_follower=True)
        offset = reader.log_start_offset
        while offset < reader.high_watermark:
            read = reader.read(offset, bytes_max=1)
            assert b"never committed" not in bytes(read.batches), f"offset {offset} was never committed"
            offset = read.next_offset
    except QuorateError:
        pass  # It shows nothing.
