"""A Spark program in a process of its own: `driver.py MASTER WHAT BOOTSTRAP FROM TO CHECKPOINT`."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceStreamArrowWriter
from pyspark.sql.types import StructType

from quorate.pipeline.source.data_source import QuorateDataSource
from quorate.pipeline.source.sink import QuorateStreamWriter
from quorate.pipeline.source.write_options import write_options


class KillsItsDriver(QuorateStreamWriter):
    """Once: when everything of the batch is written and committed, and Spark does not know it yet."""

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803 - Spark's name
        super().commit(messages, batchId)
        marker = Path(os.environ["KILLED_MARKER"])
        if batchId == 1 and not marker.exists():
            marker.touch()
            os.killpg(int(os.environ["DRIVER_GROUP"]), signal.SIGKILL)


class KillingSource(QuorateDataSource):
    @classmethod
    def name(cls) -> str:
        return "quorate_killing"

    def streamWriter(  # noqa: N802 - Spark's name
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamArrowWriter:
        del overwrite
        return KillsItsDriver(write_options(self.options, is_streaming=True), schema)


def tell_of_tasks(spark: SparkSession) -> None:
    """Which attempt of which task begins.

    Spark warns of a lost task only if the driver had heard that it runs: not if the executor was killed in
    the moment in which it began.
    """
    jvm: Any = spark._jvm  # nothing public sets the level of one logger
    log4j = jvm.org.apache.logging.log4j
    log4j.core.config.Configurator.setLevel("org.apache.spark.scheduler.TaskSetManager", log4j.Level.INFO)


def main(master: str, what: str, bootstrap: str, source: str, target: str, checkpoint: str) -> None:
    os.environ["DRIVER_GROUP"] = str(os.getpgrp())  # before the JVM starts, which hands it on
    spark = (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.executor.memory", "512m")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("WARN")
    tell_of_tasks(spark)
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": source, "startingOffsets": "earliest"}
    columns = ("key", "value")
    if what == "copy":
        frame = spark.read.format("quorate").options(**options, minPartitions="12").load()
        frame.select(*columns).write.format("quorate").option("kafka.bootstrap.servers", bootstrap).option(
            "topic", target
        ).mode("append").save()
    elif what == "archive":
        frame = spark.read.format("quorate").options(**options, minPartitions="12").load()
        frame.write.mode("overwrite").parquet(target)
    else:
        spark.dataSource.register(KillingSource)
        stream = spark.readStream.format("quorate").options(**options, maxOffsetsPerTrigger="1000").load()
        query = (
            stream.select(*columns)
            .writeStream.format("quorate_killing")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("topic", target)
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
