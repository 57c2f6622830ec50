"""What is measured in Spark: the same work on either format, and what it took."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from bench.pipeline.took import Took, took
from quorate.pipeline.source.data_source import QuorateDataSource

__all__ = [
    "Load",
    "Side",
    "check_same",
    "idle_frame",
    "open_spark",
    "patiently",
    "read_batch",
    "read_stream",
    "write_batch",
]

PARTITIONS: Final = 6
_TASKS: Final = 6
_TOO_BUSY: Final = "Python worker failed to connect back"
_STARTS_MAX: Final = 5

T = TypeVar("T")


class Load(NamedTuple):
    name: str
    records: int
    value_bytes: int


class Side(NamedTuple):
    """A format, and the cluster that it is used on."""

    format: str
    bootstrap: str


def open_spark(jars: list[Path], directory: Path) -> SparkSession:
    # Every worker is this Python, without the archive of pyspark's sources that Spark puts first on its path:
    # what is imported from there is compiled in every process anew. And it keeps what it compiles, as where
    # packages were installed in the ordinary way: the set-up compiles nothing ahead.
    python = directory / "python"
    path = shlex.quote(os.environ.get("PYTHONPATH", ""))
    python.write_text(
        f"#!/bin/sh\nunset PYTHONDONTWRITEBYTECODE\nexport PYTHONPATH={path}\n"
        f'exec {shlex.quote(sys.executable)} "$@"\n'
    )
    python.chmod(0o755)
    os.environ["PYSPARK_PYTHON"] = str(python)  # before the JVM starts
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings = {
        "spark.jars": ",".join(map(str, jars)),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Triggers with nothing to do are told as well.
        "spark.sql.streaming.noDataProgressEventInterval": "0",
        "spark.sql.streaming.numRecentProgressUpdates": "1000",
    }
    builder = SparkSession.builder.master("local[2]").appName("bench.pipeline")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("FATAL")
    # Spark looks for it by a process that has ten seconds; on a busy machine there is none after that.
    spark.dataSource.register(QuorateDataSource)
    return spark


def records_of(spark: SparkSession, load: Load) -> DataFrame:
    """The same ones in every run: a key, and a value that is not all the same."""
    text = f"rpad(cast(id * 2654435761 as string), {load.value_bytes}, cast(id as string))"
    frame = spark.range(load.records, numPartitions=_TASKS)
    return frame.selectExpr("cast(id as string) as key", f"{text} as value")


def write_batch(spark: SparkSession, side: Side, load: Load, topic: str) -> Took:
    writer = records_of(spark, load).write.format(side.format)
    writer = writer.option("kafka.bootstrap.servers", side.bootstrap).option("topic", topic).mode("append")
    return took(spark, writer.save)


def read_batch(spark: SparkSession, side: Side, topic: str) -> Took:
    # The sink that throws away, and so has every column made.
    return took(spark, lambda: _read(spark.read, side, topic).write.format("noop").mode("overwrite").save())


def read_stream(spark: SparkSession, side: Side, topic: str, checkpoint: Path) -> Took:
    writer = _read(spark.readStream, side, topic).writeStream.format("noop")
    writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    return took(spark, lambda: writer.start().awaitTermination())


def patiently(work: Callable[[], T]) -> T:
    """Spark gives a query's Python ten seconds to start, whatever else the machine does: then once more."""
    for starts_left in reversed(range(_STARTS_MAX)):
        try:
            return work()
        except StreamingQueryException as error:
            if _TOO_BUSY not in str(error) or not starts_left:
                raise
    raise AssertionError("the last one returns or raises")


def idle_frame(spark: SparkSession, side: Side, topic: str) -> DataFrame:
    """A stream to which nothing comes."""
    return _read(spark.readStream, side, topic, starting="latest")


def check_same(spark: SparkSession, sides: tuple[Side, Side], topic: str) -> int:
    """Both topics hold the same records; how many that are."""
    sums = [
        _read(spark.read, side, topic)
        .selectExpr("count(*)", "sum(crc32(key))", "sum(crc32(value))", "count(distinct partition)")
        .first()
        for side in sides
    ]
    assert sums[0] == sums[1], f"the topics differ: {sums}"
    assert sums[0] is not None
    return int(sums[0][0])


def _read(reader: Any, side: Side, topic: str, *, starting: str = "earliest") -> DataFrame:
    options = {"kafka.bootstrap.servers": side.bootstrap, "subscribe": topic, "startingOffsets": starting}
    frame: DataFrame = reader.format(side.format).options(**options).load()
    return frame
