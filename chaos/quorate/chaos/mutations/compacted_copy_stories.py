"""Replicas that copy a compacted log: what is missing there must not be missed (rule 48).

In each story one replica is away while others compact, or lead with less than was committed, or none knows
any more what it lacks. Afterwards all of them say the same of every key.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, Final

from quorate.broker.replica.partition import Partition
from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.cluster.final import each_record
from quorate.chaos.cluster.machine import SimMachine
from quorate.chaos.cluster.view import newest_image, replicas_of
from quorate.chaos.mutations.cluster_stories import recover_partition
from quorate.core.ids import BrokerId, PartitionId, TopicName, TopicPartition
from quorate.errors import QuorateError
from quorate.metadata.image import PartitionImage

__all__ = [
    "SETTINGS",
    "a_copy_asks_the_same_of_its_followers",
    "a_copy_is_dropped_where_its_leader_lacks_what_it_rests_on",
    "a_replica_that_was_away_hears_of_deletions",
    "nobody_knows_what_is_missing",
]

#: so that segments are closed, and compacted, in every second
SETTINGS: Final[Mapping[str, Any]] = {"log_retention_check_interval_ms": 1_000}
_TOPIC: Final = TopicPartition(TopicName("t"), PartitionId(0))
_CONFIGS: Final[Mapping[str, str | int | float]] = {
    "cleanup.policy": "compact",
    "segment.ms": 100,
    "delete.retention.ms": 500,
    "min.cleanable.dirty.ratio": 0.01,
}
_WITHIN_S: Final = 30.0
_ROUND_S: Final = 1.5
_ROUNDS_MAX: Final = 12
#: of a compaction checkpoint, in what it says
_ROTTEN_BIT: Final = 8 * 50


async def a_replica_that_was_away_hears_of_deletions(cluster: SimCluster) -> None:
    """A key is deleted while it is away, and the tombstone goes before it is back."""
    await _create(cluster, [1, 2, 3])
    await _put(cluster, a=b"1", b=b"1")
    away = cluster.broker(3)
    await _leave(cluster, away)
    await _put(cluster, a=None, b=b"2")
    await _until_deletion_is_forgotten(cluster)
    away.start()
    await _until_in_sync(cluster)
    _check_tables(cluster, ["b", "c"])


async def a_copy_asks_the_same_of_its_followers(cluster: SimCluster) -> None:
    """The next leader has never seen the tombstone: it was made from a log that had lost it already."""
    await _create(cluster, [1, 2, 3])
    await _put(cluster, a=b"1", b=b"1")
    away, copy = cluster.broker(3), cluster.broker(4)
    await _leave(cluster, away)
    await _put(cluster, a=None, b=b"2")
    await _until_deletion_is_forgotten(cluster)
    await _move(cluster, [4, 2, 3])
    copy.kill()
    copy.start()
    await _lead_with(cluster, copy)
    away.start()
    await _until_in_sync(cluster)
    _check_tables(cluster, ["b", "c"])


async def a_copy_is_dropped_where_its_leader_lacks_what_it_rests_on(cluster: SimCluster) -> None:
    """It lacks a record because of a newer one, and then an operator has somebody lead who has the older."""
    await _create(cluster, [1, 2, 3])
    await _put(cluster, a=b"1", b=b"1")
    away = cluster.broker(3)
    await _leave(cluster, away)
    await _put(cluster, a=b"2")
    await _until_superseded(cluster)
    await _move(cluster, [4, 1, 3])
    for machine in cluster.brokers:
        if machine.is_running:
            machine.kill()
    cluster.broker(1).wipe()
    away.start()
    await away.ready()
    async with cluster.admin() as admin:
        await recover_partition(cluster, admin, _TOPIC)
    for machine in cluster.brokers:
        if not machine.is_running:
            machine.start()
    await _until_in_sync(cluster)
    _check_tables(cluster, ["a", "b"])


async def nobody_knows_what_is_missing(cluster: SimCluster) -> None:
    """The file that says so has rotted everywhere. All records are there, so all goes on."""
    await _create(cluster, [1, 2, 3])
    await _put(cluster, a=b"1", b=b"1")
    await _put(cluster, a=b"2")
    await _until_superseded(cluster)
    await _until_in_sync(cluster)
    for replica in replicas_of(cluster)[_TOPIC]:
        machine = cluster.broker(replica._broker_id)
        machine.kill()
        machine.disk.flip_bit(f"{replica.log.directory}/compaction-checkpoint", _ROTTEN_BIT)
    for machine in cluster.brokers:
        machine.start()
    await _until_in_sync(cluster)
    await _put(cluster, c=b"2")
    await _until_in_sync(cluster)
    _check_tables(cluster, ["a", "b", "c"])
    [leader] = [each for each in replicas_of(cluster)[_TOPIC] if each.leadership is not None]
    assert not leader.log.compacted.is_unknown, "whoever copies from it will not know either"


# -- steps


async def _create(cluster: SimCluster, replicas: list[int]) -> None:
    async with cluster.admin() as admin:
        await admin.create_topic(_TOPIC.topic, assignments={0: replicas}, configs=_CONFIGS)


async def _put(cluster: SimCluster, **values: bytes | None) -> None:
    """None: a tombstone."""
    async with cluster.producer() as producer:
        for key, value in values.items():
            await (await producer.send(_TOPIC.topic, value, key=key, partition=0))


async def _leave(cluster: SimCluster, machine: SimMachine) -> None:
    await _until_in_sync(cluster)
    machine.kill()
    await cluster.until(lambda: machine.config.node_id not in _partition(cluster).isr, within_s=_WITHIN_S)


async def _until_deletion_is_forgotten(cluster: SimCluster) -> None:
    """At everybody who is there. Each write lets segments be closed, and compacted."""
    for _ in range(_ROUNDS_MAX):
        if all(each.log.compacted.tombstones_removed_below > 2 for each in replicas_of(cluster)[_TOPIC]):
            return
        await cluster.clock.sleep(_ROUND_S)
        await _put(cluster, c=b"1")
    raise AssertionError("no tombstone goes")


async def _until_superseded(cluster: SimCluster) -> None:
    for _ in range(_ROUNDS_MAX):
        if all(each.log.first_dirty_offset > 2 for each in replicas_of(cluster)[_TOPIC]):
            return
        await cluster.clock.sleep(_ROUND_S)
        await _put(cluster, c=b"1")
    raise AssertionError("nothing is compacted")


async def _move(cluster: SimCluster, replicas: list[int]) -> None:
    """Those of them that run are in sync then."""
    wanted = {each for each in replicas if cluster.broker(each).is_running}
    async with cluster.admin() as admin:
        await admin.reassign_partitions({_TOPIC: replicas})

    def is_there() -> bool:
        return wanted <= set(_partition(cluster).isr)

    await cluster.until(is_there, within_s=_WITHIN_S)


async def _lead_with(cluster: SimCluster, machine: SimMachine) -> None:
    """It is the preferred one."""
    number: BrokerId = machine.config.node_id
    await machine.ready()
    await cluster.until(lambda: number in _partition(cluster).isr, within_s=_WITHIN_S)
    async with cluster.admin() as admin:
        while _partition(cluster).leader != number:
            with contextlib.suppress(QuorateError):
                await admin.elect_preferred_leaders()
            await cluster.clock.sleep(0.1)


# -- what is the case


def _partition(cluster: SimCluster) -> PartitionImage:
    topic = newest_image(cluster).topic_named(_TOPIC.topic)
    assert topic is not None
    return topic.partitions[0]


async def _until_in_sync(cluster: SimCluster) -> None:
    def is_in_sync() -> bool:
        image, replicas = _partition(cluster), replicas_of(cluster).get(_TOPIC, [])
        held = [each for each in replicas if each.state is not None]
        ends = {offset for each in held for offset in (each.log.log_end_offset, each.high_watermark)}
        return len(held) == 3 and len(ends) == 1 and set(image.isr) == set(image.replicas)

    await cluster.until(is_in_sync, within_s=_WITHIN_S)


def _check_tables(cluster: SimCluster, keys: list[str]) -> None:
    for replica in replicas_of(cluster)[_TOPIC]:
        found = sorted(key.decode() for key in _keys_of(replica))
        assert found == keys, f"broker {replica._broker_id} has {found}, not {keys}"


def _keys_of(replica: Partition) -> set[bytes]:
    """Those that are not deleted: what a reader from the beginning ends with."""
    held: set[bytes] = set()
    for record in each_record(replica, replica.high_watermark):
        assert record.key is not None
        if record.value is None:
            held.discard(record.key)
        else:
            held.add(record.key)
    return held
