"""One program of Spark's on two clusters, with nothing changed but the name of the format.

    either_format.py JARS TOPIC START_MS TARGET OUT kafka=BOOTSTRAP quorate=BOOTSTRAP

writes OUT: for each format, and each way to read or write, the rows that came of it. The topic's timestamps
begin at START_MS.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

Rows = list[list[Any]]


class Job:
    def __init__(self, spark: SparkSession, name: str, bootstrap: str) -> None:
        self._spark = spark
        self._format = name
        self._bootstrap = bootstrap

    def batch(self, **options: object) -> DataFrame:
        return self._loaded(self._spark.read, options)

    def stream(self, **options: object) -> Rows:
        """Everything that is there, through a query in several batches."""
        frame = self._loaded(self._spark.readStream, {"startingOffsets": "earliest", **options})
        with tempfile.TemporaryDirectory() as directory:
            query = (
                frame.writeStream.format("parquet")
                .option("checkpointLocation", f"{directory}/checkpoint")
                .option("path", f"{directory}/rows")
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
            batches = {each["batchId"] for each in query.recentProgress if each["numInputRows"]}
            assert len(batches) > 1, f"all in {len(batches)} batch"
            return rows_of(self._spark.read.schema(frame.schema).parquet(f"{directory}/rows"))

    def write(self, frame: DataFrame, **options: str) -> None:
        writer = frame.write.format(self._format).option("kafka.bootstrap.servers", self._bootstrap)
        writer.options(**options).mode("append").save()

    def _loaded(self, reader: Any, options: Mapping[str, object]) -> DataFrame:
        reader = reader.format(self._format).option("kafka.bootstrap.servers", self._bootstrap)
        frame: DataFrame = reader.options(**{name: str(value) for name, value in options.items()}).load()
        return frame


def rows_of(frame: DataFrame, *without: str) -> Rows:
    """In an order that does not depend on tasks, as JSON has them."""
    readable = frame.withColumns(
        {"key": f.hex("key"), "value": f.hex("value"), "timestamp": f.unix_millis("timestamp")}
    ).drop(*without)
    if "headers" in frame.columns:
        pairs = f.transform("headers", lambda each: f.struct(each["key"], f.hex(each["value"])))
        readable = readable.withColumn("headers", f.to_json(pairs))
    return [list(row) for row in readable.orderBy("topic", "partition", "offset").collect()]


def results(job: Job, topic: str, start_ms: int, target: str) -> dict[str, Rows]:
    def offsets(**of_partitions: int) -> str:
        return json.dumps({topic: {name[1:]: offset for name, offset in of_partitions.items()}})

    whole = job.batch(subscribe=topic, includeHeaders="true")
    found = {
        "columns": [[field.name, field.dataType.simpleString()] for field in whole.schema],
        "whole": rows_of(whole),
        "by offsets": rows_of(
            job.batch(
                assign=json.dumps({topic: [0, 2]}),
                startingOffsets=offsets(_0=5, _2=-2),
                endingOffsets=offsets(_0=20, _2=-1),
            )
        ),
        "by time": rows_of(
            job.batch(subscribe=topic, startingTimestamp=start_ms + 500, endingTimestamp=start_ms + 800)
        ),
        "by pattern, in many tasks": rows_of(job.batch(subscribePattern=f"{topic}.*", minPartitions=9)),
        "stream": job.stream(subscribe=topic, maxOffsetsPerTrigger=400),
    }
    # Timestamps are those of writing, and offsets those of the order in which tasks came.
    job.write(whole.select("key", "value", "headers").where("key IS NOT NULL"), topic=target)
    written = job.batch(subscribe=target, includeHeaders="true")
    found["written"] = sorted(rows_of(written, "timestamp", "offset"), key=repr)
    return found


def main(jars: str, topic: str, start_ms: str, target: str, out: str, *sides: str) -> None:
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", jars)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    found = {}
    for side in sides:
        name, bootstrap = side.split("=")
        found[name] = results(Job(spark, name, bootstrap), topic, int(start_ms), target)
    Path(out).write_text(json.dumps(found), encoding="utf-8")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
