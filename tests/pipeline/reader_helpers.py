"""A streaming reader with the test in Spark's part."""

from __future__ import annotations

import pickle
from typing import Any

from pyspark.sql.types import LongType, StructField, StructType

from quorate.pipeline.source.read_options import read_options
from quorate.pipeline.source.stream_reader import QuorateStreamReader
from quorate.testing import LocalCluster

OFFSETS = StructType([StructField("offset", LongType())])


def stream(
    cluster: LocalCluster, topic: str, *, how: str = "subscribe", **options: Any
) -> QuorateStreamReader:
    """`how`: the option that names the topic, or the topics."""
    given = {
        "kafka.bootstrap.servers": cluster.bootstrap,
        how: topic,
        "startingOffsets": "earliest",
        **{name: str(value) for name, value in options.items()},
    }
    return QuorateStreamReader(read_options(given, is_streaming=True), OFFSETS)


def send(cluster: LocalCluster, topic: str, count: int, *, partition: int = 0, **options: Any) -> None:
    """Returns when they are acknowledged."""
    with cluster.producer(**options) as producer:
        producer.send_many(topic, [b"x" * 100] * count, partition=partition).result()


def latest(reader: QuorateStreamReader, start: dict[str, Any]) -> dict[str, Any]:
    return reader.latestOffset(start, reader.getDefaultReadLimit())


def offsets_in(reader: QuorateStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    # As it goes to executors.
    task: QuorateStreamReader = pickle.loads(pickle.dumps(reader))
    return [
        offset
        for partition in reader.partitions(start, end)
        for batch in task.read(partition)
        for offset in batch.column(0).to_pylist()
    ]
