"""Topics as tables, in a real Spark."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from quorate.testing import LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NewTopic = Callable[..., str]


def read(spark: SparkSession, cluster: LocalCluster, **options: Any) -> DataFrame:
    reader = spark.read.format("quorate").option("kafka.bootstrap.servers", cluster.bootstrap)
    return reader.options(**options).load()


def fill(
    cluster: LocalCluster, topic: str, *, partitions: int = 3, each: int = 100
) -> list[tuple[int, bytes]]:
    """Records whose timestamps are their offsets, from 1000 on; returns partition and value of each."""
    written = []
    with cluster.producer() as producer:
        for partition in range(partitions):
            for n in range(each):
                value = b"%d/%d" % (partition, n)
                producer.send(topic, value, key=b"k%d" % n, partition=partition, timestamp_ms=1000 + n)
                written.append((partition, value))
    return written


def test_a_topic_is_read_whole_and_each_record_once(
    spark: SparkSession, quorate_cluster: LocalCluster, new_topic: NewTopic
) -> None:
    topic = new_topic()
    written = fill(quorate_cluster, topic)
    rows = read(spark, quorate_cluster, subscribe=topic).collect()
    assert sorted((row.partition, bytes(row.value)) for row in rows) == sorted(written)
    one = next(row for row in rows if row.partition == 1 and row.offset == 7)
    assert (bytes(one.key), bytes(one.value), one.topic, one.timestampType) == (b"k7", b"1/7", topic, 0)
    assert one.timestamp.timestamp() == 1.007


def test_bounds_by_offset_and_by_time(
    spark: SparkSession, quorate_cluster: LocalCluster, new_topic: NewTopic
) -> None:
    topic = new_topic()
    fill(quorate_cluster, topic)

    def offsets(**options: Any) -> list[tuple[int, int, int]]:
        found = read(spark, quorate_cluster, subscribe=topic, **options).groupBy("partition")
        grouped = found.agg({"offset": "min", "timestamp": "count"}).collect()
        return sorted((row["partition"], row["min(offset)"], row["count(timestamp)"]) for row in grouped)

    start = json.dumps({topic: {"0": 90, "1": -2, "2": -1}})
    end = json.dumps({topic: {"0": 95, "1": 3, "2": -1}})
    assert offsets(startingOffsets=start, endingOffsets=end) == [(0, 90, 5), (1, 0, 3)]
    assert offsets(startingTimestamp=1050, endingTimestamp=1052) == [(n, 50, 2) for n in range(3)]
    by_time = json.dumps({topic: {"0": 1098, "1": 1099, "2": 5000}})
    late = offsets(startingOffsetsByTimestamp=by_time, startingOffsetsByTimestampStrategy="latest")
    assert late == [(0, 98, 2), (1, 99, 1)]
    with pytest.raises(Exception, match="startingOffsetsByTimestampStrategy=latest"):
        offsets(startingTimestamp=9999)


def test_partitions_are_split_into_as_many_tasks_as_asked_for(
    spark: SparkSession, quorate_cluster: LocalCluster, new_topic: NewTopic
) -> None:
    topic = new_topic()
    fill(quorate_cluster, topic)
    frame = read(spark, quorate_cluster, subscribePattern=f"{topic[:-1]}[{topic[-1]}]", minPartitions=7)
    assert frame.rdd.getNumPartitions() == 7
    assert frame.select("partition", "offset").distinct().count() == 300


def test_no_task_reads_more_offsets_than_max_records_per_partition(
    spark: SparkSession, quorate_cluster: LocalCluster, new_topic: NewTopic
) -> None:
    from pyspark.sql import functions as f

    topic = new_topic()
    fill(quorate_cluster, topic)
    frame = read(spark, quorate_cluster, subscribe=topic, maxRecordsPerPartition=40)
    tasks = frame.groupBy(f.spark_partition_id().alias("task")).count().collect()
    assert len(tasks) == 9, "maxRecordsPerPartition=40 cuts 100 offsets into three pieces"
    assert max(each["count"] for each in tasks) <= 40, "maxRecordsPerPartition=40"
    assert frame.select("partition", "offset").distinct().count() == 300


def test_a_schema_of_ones_own_leaves_columns_out_and_changes_their_order(
    spark: SparkSession, quorate_cluster: LocalCluster, new_topic: NewTopic
) -> None:
    topic = new_topic()
    written = fill(quorate_cluster, topic)
    reader = spark.read.format("quorate").schema("value binary, offset bigint, partition int")
    reader = reader.option("kafka.bootstrap.servers", quorate_cluster.bootstrap).option("subscribe", topic)
    frame = reader.load()
    assert frame.columns == ["value", "offset", "partition"]
    rows = [tuple(row) for row in frame.collect()]
    assert sorted((partition, bytes(value)) for value, _, partition in rows) == sorted(written)
    assert all(bytes(value) == b"%d/%d" % (partition, offset) for value, offset, partition in rows)
    with pytest.raises(Exception, match="schema: column offset is bigint, not string"):
        spark.read.format("quorate").schema("offset string").options(
            **{"kafka.bootstrap.servers": quorate_cluster.bootstrap, "subscribe": topic}
        ).load().count()


def test_headers_come_when_they_are_asked_for(
    spark: SparkSession, quorate_cluster: LocalCluster, new_topic: NewTopic
) -> None:
    topic = new_topic(1)
    with quorate_cluster.producer() as producer:
        producer.send(topic, "v", headers=[("a", b"1"), ("a", None)])
        producer.send(topic, "w")
    rows = read(spark, quorate_cluster, assign=json.dumps({topic: [0]}), includeHeaders="true").collect()
    assert [(each.key, each.value) for each in rows[0].headers] == [("a", b"1"), ("a", None)]
    assert rows[1].headers is None
    assert "headers" not in read(spark, quorate_cluster, subscribe=topic).columns


def test_mistakes_are_told_by_name(spark: SparkSession, quorate_cluster: LocalCluster) -> None:
    with pytest.raises(Exception, match=r"(?s)option startingofset.*Did you mean startingOffsets"):
        read(spark, quorate_cluster, subscribe="t", startingOfset="earliest").count()
    with pytest.raises(Exception, match="there is no topic nobody-made-it"):
        read(spark, quorate_cluster, subscribe="nobody-made-it").count()
