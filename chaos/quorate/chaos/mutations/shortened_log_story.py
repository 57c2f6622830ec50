"""A log that ends before what was committed has lost something, whatever its checksums say (rules 30, 44).

All brokers die; the disk of one of them loses the end of a log meanwhile, or all of it, which the fault model
allows. The victim is the first to come back: if it led, the others would have to cut what was acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.cluster.final import check_replicas_agree, records_of
from quorate.chaos.cluster.machine import SimMachine
from quorate.chaos.cluster.view import replicas_of
from quorate.core.ids import Offset, PartitionId, TopicName, TopicPartition
from quorate.errors import ReplicaDiverged

__all__ = [
    "QUIET_S",
    "TOPIC",
    "a_shortened_log_does_not_lead",
    "check_everything_is_there",
    "cut_within_a_batch",
    "is_in_sync",
    "remove_the_log",
    "remove_the_segment",
    "write_records",
]

Harm: TypeAlias = Callable[[SimMachine, str], None]

TOPIC: Final = TopicPartition(TopicName("t"), PartitionId(0))
RECORDS: Final = 50
#: long enough for high watermarks to be on disk
QUIET_S: Final = 6.0


def cut_within_a_batch(machine: SimMachine, directory: str) -> None:
    path = f"{directory}/{0:020}.log"
    file = machine.disk.open(path)
    file.truncate(machine.disk.size(path) // 2)
    file.close()


def remove_the_segment(machine: SimMachine, directory: str) -> None:
    machine.disk.unlink(f"{directory}/{0:020}.log")


def remove_the_log(machine: SimMachine, directory: str) -> None:
    for name in machine.disk.list(directory):
        machine.disk.unlink(f"{directory}/{name}")
    machine.disk.remove_directory(directory)


async def write_records(cluster: SimCluster) -> None:
    async with cluster.producer() as producer:
        for number in range(RECORDS):
            await (await producer.send("t", b"record %d" % number, partition=0))


def is_in_sync(cluster: SimCluster) -> bool:
    replicas = replicas_of(cluster).get(TOPIC, [])
    ends = {replica.high_watermark for replica in replicas} | {each.log.log_end_offset for each in replicas}
    isrs = [replica.leadership.isr for replica in replicas if replica.leadership is not None]
    return len(replicas) == 3 and len(ends) == 1 and [len(isr) for isr in isrs] == [3]


async def check_everything_is_there(cluster: SimCluster) -> None:
    """Of what ``write_records`` has written, on all three."""
    await cluster.until(lambda: _is_restored(cluster), within_s=60)
    replicas = replicas_of(cluster)[TOPIC]
    check_replicas_agree(replicas)
    for replica in replicas:
        assert len(records_of(replica, Offset(RECORDS))) == RECORDS, "records are gone"


def _is_restored(cluster: SimCluster) -> bool:
    for replica in replicas_of(cluster).get(TOPIC, []):
        # It has refused to (rule 11), and would for ever.
        assert not isinstance(replica.failure, ReplicaDiverged), "a replica was to drop what is committed"
    return is_in_sync(cluster)


def _directory_of(machine: SimMachine) -> str:
    assert machine.broker is not None
    [replica] = machine.broker.replicas
    return replica.log.directory


async def a_shortened_log_does_not_lead(
    cluster: SimCluster, harm: Harm = cut_within_a_batch, *, is_clean: bool = False
) -> None:
    async with cluster.admin() as admin:
        await admin.create_topic("t", partitions=1)
    await write_records(cluster)
    await cluster.until(lambda: is_in_sync(cluster))
    await cluster.clock.sleep(QUIET_S)
    victim, *others = cluster.brokers
    directory = _directory_of(victim)
    for machine in others:
        machine.kill()
    if is_clean:
        await cluster.clock.sleep(QUIET_S)
        await victim.stop()
    else:
        victim.kill()
    harm(victim, directory)
    for machine in [victim, *others]:
        machine.start()
        await cluster.clock.sleep(QUIET_S)
    await check_everything_is_there(cluster)
