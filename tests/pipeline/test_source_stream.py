"""Topics as streams, in a real Spark."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from quorate.pipeline.jobs.progress import lag_between
from quorate.testing import LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

NewTopic = Callable[..., str]


class Archive:
    """A query that appends what it reads to Parquet, and can be run again and again."""

    def __init__(self, spark: SparkSession, cluster: LocalCluster, directory: Path, **options: Any) -> None:
        self._spark = spark
        self._cluster = cluster
        self._data = str(directory / "data")
        self._checkpoint = str(directory / "checkpoint")
        self._options = {"startingOffsets": "earliest", **options}

    def start(self, **trigger: Any) -> StreamingQuery:
        stream = self._spark.readStream.format("quorate").options(**self._options)
        frame = stream.option("kafka.bootstrap.servers", self._cluster.bootstrap).load()
        writer = frame.selectExpr("partition", "offset", "cast(value as string) as value").writeStream
        return (
            writer.format("parquet")
            .option("path", self._data)
            .option("checkpointLocation", self._checkpoint)
            .trigger(**trigger)
            .start()
        )

    def run(self) -> StreamingQuery:
        query = self.start(availableNow=True)
        query.awaitTermination()
        return query

    def rows(self) -> list[tuple[int, int, str]]:
        return sorted(tuple(row) for row in self._spark.read.parquet(self._data).collect())


def send(cluster: LocalCluster, topic: str, values: list[str], *, partition: int = 0) -> None:
    with cluster.producer() as producer:
        producer.send_many(topic, values, partition=partition).result()


def test_a_query_that_is_started_again_goes_on_where_it_was(
    spark: SparkSession, quorate_cluster: LocalCluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(2)
    archive = Archive(spark, quorate_cluster, tmp_path, subscribe=topic)
    send(quorate_cluster, topic, ["a", "b"])
    archive.run()
    send(quorate_cluster, topic, ["c"])
    send(quorate_cluster, topic, ["d"], partition=1)
    archive.run()
    archive.run()
    assert archive.rows() == [(0, 0, "a"), (0, 1, "b"), (0, 2, "c"), (1, 0, "d")]


def test_a_query_that_begins_at_the_end_reads_what_came_since_it_was_first_started(
    spark: SparkSession, quorate_cluster: LocalCluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(1)
    archive = Archive(spark, quorate_cluster, tmp_path, subscribe=topic, startingOffsets="latest")
    send(quorate_cluster, topic, ["before"])
    archive.run()
    send(quorate_cluster, topic, ["a", "b"])
    archive.run()
    assert archive.rows() == [(0, 1, "a"), (0, 2, "b")]


def test_batches_are_as_large_as_they_may_be_and_progress_tells_rows_and_lag(
    spark: SparkSession, quorate_cluster: LocalCluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(1)
    send(quorate_cluster, topic, [str(n) for n in range(25)])
    began_at = time.monotonic()
    query = Archive(spark, quorate_cluster, tmp_path, subscribe=topic, maxOffsetsPerTrigger=10).run()
    whole_run_s = time.monotonic() - began_at
    batches = [each for each in query.recentProgress if each.numInputRows]
    assert [each.numInputRows for each in batches] == [10, 10, 5]
    first = batches[0].sources[0]
    assert json.loads(first.endOffset)[topic]["offsets"] == {"0": 10}
    assert json.loads(first.latestOffset)[topic]["offsets"] == {"0": 25}
    for each in batches:
        # Spark reads the clock anew for the rate, so it is not exactly that of any time which it tells: it is
        # of one between the batch's own and the whole run's, rounded to a tenth.
        batch_s = each.durationMs["addBatch"] / 1000
        slowest, fastest = each.numInputRows / whole_run_s, each.numInputRows / batch_s
        assert slowest - 0.1 <= each.processedRowsPerSecond <= fastest + 0.1
        assert each.sources[0].numInputRows == each.numInputRows
    lags = [lag_between(each.sources[0].endOffset, each.sources[0].latestOffset) for each in batches]
    assert lags == [15, 5, 0]
    # From the beginning of one batch to that of the next; of the first there is no such time.
    for before, each in pairwise(batches):
        apart = datetime.fromisoformat(each.timestamp) - datetime.fromisoformat(before.timestamp)
        rate = each.numInputRows / apart.total_seconds()
        assert each.inputRowsPerSecond == pytest.approx(rate, rel=0.01, abs=0.1)


def test_a_query_waits_for_as_many_records_as_it_was_asked_to(
    spark: SparkSession, quorate_cluster: LocalCluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(1)
    options = {"minOffsetsPerTrigger": 3, "maxOffsetsPerTrigger": 4, "maxTriggerDelay": "1h"}
    archive = Archive(spark, quorate_cluster, tmp_path, subscribe=topic, **options)
    send(quorate_cluster, topic, ["a", "b"])
    query = archive.start(processingTime="0 seconds")
    try:
        query.processAllAvailable()
        assert query.lastProgress is None or query.lastProgress.numInputRows == 0
        send(quorate_cluster, topic, ["c", "d", "e"])
        query.processAllAvailable()
        # The fifth is alone again.
        assert archive.rows() == [(0, n, "abcd"[n]) for n in range(4)]
    finally:
        query.stop()


def test_new_partitions_are_read_from_their_beginning(
    spark: SparkSession, quorate_cluster: LocalCluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(1)
    archive = Archive(spark, quorate_cluster, tmp_path, subscribe=topic)
    send(quorate_cluster, topic, ["a"])
    archive.run()
    with quorate_cluster.admin() as admin:
        admin.create_partitions(topic, 2)
    send(quorate_cluster, topic, ["b"], partition=1)
    archive.run()
    assert archive.rows() == [(0, 0, "a"), (1, 0, "b")]


def test_a_topic_that_was_made_anew_is_refused_and_not_read_from_old_offsets(
    spark: SparkSession, quorate_cluster: LocalCluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(1)
    archive = Archive(spark, quorate_cluster, tmp_path, subscribe=topic)
    send(quorate_cluster, topic, ["a"])
    archive.run()
    with quorate_cluster.admin() as admin:
        admin.delete_topic(topic)
        admin.create_topic(topic, partitions=1, replication_factor=3)
    send(quorate_cluster, topic, ["b", "c"])
    with pytest.raises(Exception, match=f"topic {topic} was deleted and made anew"):
        archive.run()
    assert archive.rows() == [(0, 0, "a")]


def test_a_running_query_reads_what_comes_and_survives_the_death_of_a_leader(
    spark: SparkSession, quorate_cluster: LocalCluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(1)
    archive = Archive(spark, quorate_cluster, tmp_path, subscribe=topic)
    query = archive.start(processingTime="0 seconds")
    try:
        send(quorate_cluster, topic, ["a"])
        query.processAllAvailable()
        quorate_cluster.kill(quorate_cluster.leader_of(topic))
        send(quorate_cluster, topic, ["b"])
        query.processAllAvailable()
    finally:
        query.stop()
        quorate_cluster.heal()
    assert archive.rows() == [(0, 0, "a"), (0, 1, "b")]
