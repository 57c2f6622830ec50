"""The metadata image with 100,000 partitions: applying records, snapshots, memory.

Nothing here waits for anything, so where the processor time is what matters it is stated: other programs on
the machine disturb it less. Snapshot and reload are held to their bar by the clock on the wall.

python -m bench.metadata_image
"""

from __future__ import annotations

import asyncio
import random
import time
import tracemalloc
from collections.abc import Awaitable
from itertools import pairwise
from typing import Final, TypeVar

from bench.figure import Figure, show
from quorate.core.ids import BrokerId, LeaderEpoch, PartitionId, TopicId, TopicName
from quorate.metadata.delta import apply_batch
from quorate.metadata.image import EMPTY_IMAGE, MetadataImage, PartitionImage
from quorate.metadata.records import decode_batch, encode_batch, partition_record, topic_record
from quorate.metadata.snapshot import decode_snapshot, encode_snapshot
from quorate.v1.metadata_pb2 import BrokerList, MetadataRecord, PartitionChangeRecord

__all__ = ["run", "timed"]

T = TypeVar("T")

PARTITIONS: Final = 100_000
BROKERS: Final = 10
#: topics that the partitions are spread over: many small ones, few large ones
SHAPES: Final = (1_000, 10)
CREATED: Final = 1_000
CHANGED: Final = 10_000


def _topic_records(number: int, partitions: int, rng: random.Random) -> list[MetadataRecord]:
    topic_id = TopicId(f"{number:022d}")
    records = [topic_record(topic_id, TopicName(f"topic-{number}"))]
    for partition in range(partitions):
        replicas = tuple(map(BrokerId, rng.sample(range(1, BROKERS + 1), 3)))
        image = PartitionImage(
            topic_id=topic_id,
            partition=PartitionId(partition),
            replicas=replicas,
            isr=tuple(sorted(replicas)),
            elr=(),
            last_known_elr=(),
            leader=replicas[0],
            leader_epoch=LeaderEpoch(0),
            partition_epoch=0,
        )
        records.append(partition_record(image))
    return records


def _build(topics: int) -> MetadataImage:
    rng = random.Random(1)
    image = EMPTY_IMAGE
    for number in range(topics):
        records = _topic_records(number, PARTITIONS // topics, rng)
        image = apply_batch(image, records, image.offset + 1)
    return image


def _change(partition: PartitionImage) -> MetadataRecord:
    """As when its leader was fenced."""
    left = partition.isr[1:]
    return MetadataRecord(
        partition_change=PartitionChangeRecord(
            topic_id=partition.topic_id,
            partition=partition.partition,
            partition_epoch=partition.partition_epoch + 1,
            isr=BrokerList(broker_ids=left),
            leader=left[0],
            leader_epoch=partition.leader_epoch + 1,
        )
    )


def _seconds_to_apply(image: MetadataImage, records: list[MetadataRecord]) -> float:
    """Of processor time, from bytes, as a node gets them."""
    encoded = encode_batch(records)
    began = time.process_time()
    apply_batch(image, decode_batch(encoded).records, image.offset + 1)
    return time.process_time() - began


async def timed(work: Awaitable[T]) -> tuple[T, float, float]:
    """The result, seconds, and the longest time for which the event loop did not turn."""
    turns = [time.perf_counter()]

    async def turn() -> None:
        while True:
            turns.append(time.perf_counter())
            await asyncio.sleep(0)

    turning = asyncio.ensure_future(turn())
    began = time.perf_counter()
    result = await work
    seconds = time.perf_counter() - began
    turning.cancel()
    return result, seconds, max(after - before for before, after in pairwise(turns))


def _bytes_per_partition() -> float:
    tracemalloc.start()
    image = _build(SHAPES[0])
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert image.topics
    return size / PARTITIONS


async def _figures(topics: int) -> list[Figure]:
    image = _build(topics)
    how = f"{topics:,} topics of {PARTITIONS // topics:,} partitions"
    partitions = [
        partition for topic in image.topics.values() for partition in topic.partitions[: CHANGED // topics]
    ]
    creation = _seconds_to_apply(image, _topic_records(topics, CREATED, random.Random(2)))
    change = _seconds_to_apply(image, [_change(partition) for partition in partitions])
    one_change = _seconds_to_apply(image, [_change(partitions[0])])
    began = time.process_time()
    encoded, writing, longest_write = await timed(encode_snapshot(image))
    loaded, reading, longest_read = await timed(decode_snapshot(encoded))
    processor = time.process_time() - began
    assert loaded == image
    return [
        Figure.at_most(f"apply {CREATED:,} new partitions", creation, "s", 0.2, how),
        Figure.at_most(f"apply {CHANGED:,} partition changes", change, "s", 0.5, how),
        Figure.at_most("apply one partition change", one_change * 1e3, "ms", None, how),
        Figure.at_most("snapshot and reload", writing + reading, "s", 10.0, how),
        Figure.at_most("snapshot and reload, processor time", processor, "s", None, how),
        Figure.at_most("snapshot", len(encoded) / (1 << 20), "MB", None, how),
        Figure.at_most("longest pause while writing", longest_write * 1e3, "ms", None, how),
        Figure.at_most("longest pause while reading", longest_read * 1e3, "ms", None, f"{how}; with gc"),
    ]


async def run() -> list[Figure]:
    figures = [figure for topics in SHAPES for figure in await _figures(topics)]
    detail = f"{PARTITIONS:,} partitions of 3 replicas on {BROKERS} brokers, tracemalloc"
    return [*figures, Figure.at_most("memory per partition", _bytes_per_partition(), "B", None, detail)]


if __name__ == "__main__":
    show("The metadata image", asyncio.run(run()))
