"""What a row costs the Python of an executor, without Spark: `python -m bench.pipeline.cost`.

In processor time, which others on the machine disturb least. Rows of a key and 100 bytes go through sink
and reader into one node and back. The JVM's side of a task, and the broker's, are not in it;
`python -m bench.pipeline` has all of it, beside Spark's Kafka source.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from bench.figure import Figure, show
from quorate.pipeline.source.data_source import QuorateDataSource
from quorate.testing import AsyncLocalCluster

_ROWS_OF_BATCH: Final = 10_000  # as Spark hands them over
_WRITTEN: Final = StructType([StructField("key", StringType()), StructField("value", StringType())])
_READ: Final = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
)


async def run(rows: int) -> list[Figure]:
    async with AsyncLocalCluster(1) as cluster:
        async with cluster.admin() as admin:
            await admin.create_topic("rows", partitions=2, replication_factor=1)
        return await asyncio.to_thread(_measure, cluster.bootstrap, rows)


def _measure(bootstrap: str, rows: int) -> list[Figure]:
    def source(**options: Any) -> QuorateDataSource:
        return QuorateDataSource(CaseInsensitiveDict({"kafka.bootstrap.servers": bootstrap, **options}))

    batches = list(_batches(rows))
    began = time.process_time()
    source(topic="rows").writer(_WRITTEN, overwrite=False).write(iter(batches))
    write_us = (time.process_time() - began) / rows * 1e6
    reader = source(subscribe="rows").reader(_READ)
    costs = []
    for _ in range(2):  # the first one opens the connection
        began = time.process_time()
        found = sum(len(batch) for task in reader.partitions() for batch in reader.read(task))
        costs.append((time.process_time() - began) / rows * 1e6)
        assert found == rows
    detail = f"{rows:,} rows of 100 B with a key"
    return [
        Figure.at_most("reading a row", costs[-1], "us", None, detail),
        Figure.at_most("writing a row", write_us, "us", None, detail),
    ]


def _batches(rows: int) -> Iterator[pa.RecordBatch]:
    for first in range(0, rows, _ROWS_OF_BATCH):
        numbers = range(first, min(first + _ROWS_OF_BATCH, rows))
        keys = pa.array([str(number) for number in numbers])
        values = pa.array([(str(number) * 100)[:100] for number in numbers])
        yield pa.RecordBatch.from_arrays([keys, values], names=["key", "value"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="bench.pipeline.cost", description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    show("What a row costs an executor's Python", asyncio.run(run(parser.parse_args().rows)))
