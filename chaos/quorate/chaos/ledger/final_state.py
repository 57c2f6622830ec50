"""What a real cluster holds in the end: shown to a reader, in every replica's files, and in its metadata.

Run once every node is back and nobody writes any more. How much can be looked at depends on where the cluster
runs: files and metadata of one on other machines may be out of reach, and are then left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from quorate.chaos.checks.final_state import CopyOfLog, FinalPartition, FinalState
from quorate.chaos.checks.violation import Violation
from quorate.chaos.history.history import History
from quorate.chaos.ledger.replica_files import ReplicaFiles, read_replica, replica_directory
from quorate.chaos.ledger.waiting import until_whole
from quorate.client import AsyncAdmin, AsyncConsumer
from quorate.client.admin.types import PartitionDescription, TopicDescription
from quorate.core.clock import SystemClock
from quorate.core.ids import (
    BrokerId,
    LeaderEpoch,
    Offset,
    PartitionId,
    TopicId,
    TopicName,
    TopicPartition,
)
from quorate.core.os_disk import OsDisk
from quorate.metadata.follower import MetadataFollower
from quorate.metadata.image import MetadataImage
from quorate.node.local_cluster import LocalCluster
from quorate.rpc.grpcio_transport import GrpcioTransport

__all__ = ["Reach", "collect"]

#: without a record, or without an answer
_TIMEOUT_S: Final = 60.0
_MIN_ISR: Final = "min.insync.replicas"

Records = dict[Offset, bytes]
UncleanEpochs = Mapping[TopicPartition, tuple[LeaderEpoch, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """What of a cluster can be looked at from here."""

    bootstrap: str
    #: by broker: its name and its data directory; one that is missing cannot be looked into
    data_dirs: Mapping[BrokerId, tuple[str, str]] = field(default_factory=dict)
    #: addresses; none: the metadata cannot be followed
    controllers: Sequence[str] = ()

    @staticmethod
    def of(cluster: LocalCluster) -> Reach:
        return Reach(
            bootstrap=cluster.bootstrap,
            data_dirs={BrokerId(node.id): (node.name, cluster.data_dir(node.name)) for node in cluster.nodes},
            controllers=cluster.controller_addresses,
        )


async def collect(
    reach: Reach, history: History, topics: Sequence[str], *, deleting: Collection[str] = ()
) -> FinalState:
    """``deleting``: topics of which retention may have deleted records. The last reader is in the history."""
    partitions: dict[TopicPartition, FinalPartition] = {}
    async with AsyncAdmin(reach.bootstrap) as admin:
        for topic in topics:
            description = await until_whole(admin, topic)
            starts = await _offsets(admin, topic, "earliest")
            read, ends = await _read_all(reach.bootstrap, admin, starts, history)
            unclean = await _unclean_epochs(reach, TopicName(topic))
            for described in description.partitions:
                partition = TopicPartition(TopicName(topic), PartitionId(described.partition))
                replicas = _read_files(reach, description, described, starts[partition], ends[partition])
                partitions[partition] = FinalPartition(
                    high_watermark=ends[partition],
                    records=_records(replicas, read[partition]),
                    copies={name: files.copy for name, files in replicas.items()},
                    log_start_offset=starts[partition],
                    may_delete=topic in deleting,
                    min_isr=int(description.configs[_MIN_ISR].value),
                    unclean_leader_epochs=unclean.get(partition, ()),
                )
    return FinalState(partitions)


# -- what readers see


async def _offsets(
    admin: AsyncAdmin, asked: str | Iterable[TopicPartition], at: Literal["earliest", "latest"]
) -> dict[TopicPartition, Offset]:
    listed = await admin.list_offsets(asked, at)
    found: dict[TopicPartition, Offset] = {}
    for partition, each in listed.items():
        assert each.offset is not None, "every log has a beginning and an end"
        found[partition] = Offset(each.offset)
    return found


async def _read_all(
    bootstrap: str, admin: AsyncAdmin, starts: Mapping[TopicPartition, Offset], history: History
) -> tuple[dict[TopicPartition, Records], dict[TopicPartition, Offset]]:
    """Through a consumer, from the beginning; what it saw goes into the history, too. Also where it ends.

    Nobody writes, but what was written last may become committed meanwhile: it ends where it still ends once
    everything up to there was read.
    """
    records: dict[TopicPartition, Records] = {partition: {} for partition in starts}
    positions = dict(starts)
    assignment = history.assign(f"last reader, {history.last_serial}", starts)
    async with AsyncConsumer(bootstrap) as consumer:
        consumer.assign(list(starts))
        while positions != (ends := await _offsets(admin, starts, "latest")):
            polled = await consumer.poll(max_records=5_000, timeout=_TIMEOUT_S)
            if not polled:
                names = ", ".join(str(each) for each, end in ends.items() if positions[each] < end)
                raise Violation(f"no record within {_TIMEOUT_S:g} s, and more in {names}", check="unseen")
            history.polled(assignment, polled)
            for record in polled:
                partition = TopicPartition(TopicName(record.topic), PartitionId(record.partition))
                records[partition][Offset(record.offset)] = record.value or b""
                positions[partition] = Offset(record.offset + 1)
    history.caught_up(assignment)
    return records, ends


# -- what the files hold


def _read_files(
    reach: Reach,
    topic: TopicDescription,
    partition: PartitionDescription,
    log_start_offset: Offset,
    high_watermark: Offset,
) -> dict[str, ReplicaFiles]:
    """By the name of the broker."""
    found: dict[str, ReplicaFiles] = {}
    disk = OsDisk(read_only=True)
    try:
        for broker_id in sorted(map(BrokerId, partition.replicas)):
            if broker_id not in reach.data_dirs:
                continue
            name, data_dir = reach.data_dirs[broker_id]
            directory = replica_directory(
                disk, data_dir, TopicId(topic.topic_id), PartitionId(partition.partition)
            )
            found[name] = (
                _NOTHING_THERE
                if directory is None
                else read_replica(
                    disk, directory, log_start_offset=log_start_offset, high_watermark=high_watermark
                )
            )
    finally:
        disk.close()
    return found


_NOTHING_THERE: Final = ReplicaFiles(CopyOfLog({}, ("it holds no replica",)), {})


def _records(replicas: Mapping[str, ReplicaFiles], read: Records) -> Records:
    """Of the first replica that is whole; all must be the same, and a check sees to that."""
    return next((files.records for files in replicas.values() if not files.copy.faults), read)


# -- what the metadata says


async def _unclean_epochs(reach: Reach, name: TopicName) -> UncleanEpochs:
    if not reach.controllers:
        return {}
    async with AsyncAdmin(reach.bootstrap) as admin:
        offset = (await admin.describe_cluster()).metadata_offset
    topic = (await _committed_metadata(reach.controllers, offset)).topic_named(name)
    return {
        TopicPartition(name, partition.partition): partition.unclean_leader_epochs
        for partition in (() if topic is None else topic.partitions)
    }


async def _committed_metadata(controllers: Sequence[str], offset: int) -> MetadataImage:
    """As of ``offset`` or later."""
    follower = MetadataFollower(
        GrpcioTransport(),
        controllers,
        clock=SystemClock(),
        broker_id=BrokerId(0),
        on_image=lambda _image, _delta: None,
    )
    following = asyncio.create_task(follower.run())
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            return await follower.wait_for_offset(offset)
    finally:
        following.cancel()
        await asyncio.wait([following])
