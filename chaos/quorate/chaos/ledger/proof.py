"""The proof: everything acknowledged is at its offset, for readers and in every replica's files.

Run once every node is back. The cluster has to become whole first, which is part of the proof: all replicas
are in the ISR, so all of them must hold everything below the high watermark (rule 1).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from quorate.chaos.cluster.checks import Violation, check_history
from quorate.chaos.cluster.history import History
from quorate.chaos.ledger.replica_files import batches_in_files, records_in_batches, replica_directory
from quorate.client import AsyncAdmin, AsyncConsumer
from quorate.client.admin.types import TopicDescription
from quorate.core.clock import SystemClock
from quorate.core.ids import BrokerId, Offset, PartitionId, TopicId, TopicName, TopicPartition
from quorate.core.os_disk import OsDisk
from quorate.errors import QuorateError
from quorate.metadata.follower import MetadataFollower
from quorate.metadata.image import MetadataImage
from quorate.node.local_cluster import LocalCluster
from quorate.rpc.grpcio_transport import GrpcioTransport

__all__ = ["Proof", "check_copies", "committed_metadata", "prove", "topic_until", "until_whole"]

_TIMEOUT_S: Final = 60.0
_POLL_S: Final = 0.05

Records = dict[Offset, bytes]


@dataclass(frozen=True, slots=True)
class Proof:
    acknowledged: int
    refused: int
    unknown: int
    #: below the high watermarks, in all partitions
    committed: int
    #: how many copies of partitions were read from files
    replicas: int


async def prove(cluster: LocalCluster, history: History, *topics: str) -> Proof:
    """``Violation`` if a promise was broken. Nobody writes any more, and every node runs."""
    committed: dict[TopicPartition, Records] = {}
    replicas = 0
    async with AsyncAdmin(cluster.bootstrap) as admin:
        for topic in topics:
            description = await until_whole(admin, topic)
            ends = await _high_watermarks(admin, topic)
            read = await _read_all(cluster.bootstrap, ends, history)
            in_files = _read_files(cluster, description, ends)
            for partition, end in ends.items():
                copies = in_files[partition]
                replicas += len(copies)
                check_copies(partition, copies, read[partition], end)
            committed |= read
    check_history(history, committed)
    _check_no_unclean_election(await committed_metadata(cluster), topics)
    return Proof(
        acknowledged=sum(sent.is_acknowledged for sent in history.sent),
        refused=sum(sent.is_refused for sent in history.sent),
        unknown=sum(sent.error is not None and sent.error.outcome_unknown for sent in history.sent),
        committed=sum(len(records) for records in committed.values()),
        replicas=replicas,
    )


# -- the cluster becomes whole


async def topic_until(
    admin: AsyncAdmin, topic: str, is_so: Callable[[TopicDescription], bool]
) -> TopicDescription:
    """The topic once it is so, as a node that answers tells it."""
    description: TopicDescription | QuorateError | None = None
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            while True:
                try:
                    description = await admin.describe_topic(topic)
                except QuorateError as error:
                    if not error.retriable:
                        raise
                    description = error
                else:
                    if is_so(description):
                        return description
                await asyncio.sleep(_POLL_S)
    except TimeoutError:
        raise Violation(f"{topic} did not become so within {_TIMEOUT_S:g} s: {description}") from None


async def until_whole(admin: AsyncAdmin, topic: str) -> TopicDescription:
    """Until every partition has a leader that was heard, and all of its replicas in the ISR."""

    def is_whole(description: TopicDescription) -> bool:
        return all(
            partition.leader is not None
            and set(partition.isr) == set(partition.replicas)
            and partition.high_watermark is not None
            and not partition.removing_replicas
            for partition in description.partitions
        )

    return await topic_until(admin, topic, is_whole)


# -- what readers see


async def _high_watermarks(admin: AsyncAdmin, topic: str) -> dict[TopicPartition, Offset]:
    latest = await admin.list_offsets(topic, "latest")
    ends: dict[TopicPartition, Offset] = {}
    for partition, listed in latest.items():
        assert listed.offset is not None
        ends[partition] = Offset(listed.offset)
    return ends


async def _read_all(
    bootstrap: str, ends: Mapping[TopicPartition, Offset], history: History
) -> dict[TopicPartition, Records]:
    """Through a consumer, from the beginning; what it saw goes into the history, too."""
    records: dict[TopicPartition, Records] = {partition: {} for partition in ends}
    reader = f"reader of {len(history.read)}"
    due: int = sum(ends.values())
    async with AsyncConsumer(bootstrap) as consumer, asyncio.timeout(_TIMEOUT_S):
        consumer.assign(list(ends))
        while due > 0:
            for record in await consumer.poll(max_records=5_000):
                partition = TopicPartition(TopicName(record.topic), PartitionId(record.partition))
                offset = Offset(record.offset)
                if offset >= ends[partition]:
                    raise Violation(f"{partition}: offset {offset} was read, nothing was written behind it")
                due -= 1
                records[partition][offset] = record.value or b""
                history.read.append((reader, partition, offset, record.value or b""))
    return records


# -- what the files hold


def _read_files(
    cluster: LocalCluster, description: TopicDescription, ends: Mapping[TopicPartition, Offset]
) -> dict[TopicPartition, dict[str, bytes]]:
    """By partition, and by the name of the broker: all batches below the high watermark."""
    names = {node.id: node.name for node in cluster.nodes}
    found: dict[TopicPartition, dict[str, bytes]] = {}
    disk = OsDisk(read_only=True)
    try:
        for partition in description.partitions:
            number = PartitionId(partition.partition)
            key = TopicPartition(TopicName(description.name), number)
            for broker_id in partition.replicas:
                data_dir = cluster.data_dir(names[broker_id])
                directory = replica_directory(disk, data_dir, TopicId(description.topic_id), number)
                copies = found.setdefault(key, {})
                copies[names[broker_id]] = batches_in_files(disk, directory, ends[key])
    finally:
        disk.close()
    return found


def check_copies(
    partition: TopicPartition, copies: Mapping[str, bytes], read: Records, end_offset: Offset
) -> None:
    (first, batches), *others = copies.items()
    for name, other in others:
        if other != batches:
            raise Violation(f"{partition}: the files of {first} and {name} differ below {end_offset}")
    if records_in_batches(batches) != read:
        raise Violation(f"{partition}: readers were shown something else than the files hold")


# -- what the metadata says


async def committed_metadata(cluster: LocalCluster) -> MetadataImage:
    """As of now or later."""
    offset = (await cluster.wait_for_controller()).metadata_offset
    follower = MetadataFollower(
        GrpcioTransport(),
        [node.address for node in cluster.nodes if node.is_running and "controller" in node.roles],
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


def _check_no_unclean_election(image: MetadataImage, topics: tuple[str, ...]) -> None:
    for topic in topics:
        for partition in image.topics[image.topic_ids[TopicName(topic)]].partitions:
            if partition.unclean_leader_epochs:
                raise Violation(
                    f"{topic}-{partition.partition}: a leader may have lacked records, in the leader epochs "
                    f"{list(partition.unclean_leader_epochs)}"
                )
