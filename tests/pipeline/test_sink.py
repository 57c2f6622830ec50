"""DataFrames into topics, in a real Spark."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from quorate.client import ConsumerRecord
from quorate.testing import LocalCluster
from tests.documented import blocks_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NewTopic = Callable[..., str]


def write(frame: DataFrame, cluster: LocalCluster, **options: Any) -> None:
    writer = frame.write.format("quorate").option("kafka.bootstrap.servers", cluster.bootstrap)
    writer.options(**options).mode("append").save()


def records_of(cluster: LocalCluster, topic: str) -> list[ConsumerRecord]:
    with cluster.admin() as admin:
        total = sum(each.offset or 0 for each in admin.list_offsets(topic).values())
    found: list[ConsumerRecord] = []
    with cluster.consumer(topics=[topic]) as consumer:
        while len(found) < total:
            more = consumer.poll(timeout=30)
            assert more, f"{len(found)} of {total} records are there"
            found += more
    return sorted(found)


def test_columns_become_records(
    spark: SparkSession, quorate_cluster: LocalCluster, new_topic: NewTopic
) -> None:
    topic, other = new_topic(3), new_topic(1)
    written_at = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
    rows = [
        (b"k", "v1", topic, 2, [("a", b"1"), ("b", None)], written_at),
        (None, "v2", topic, 2, None, written_at),
        (b"k", None, other, 0, [], written_at),
    ]
    schema = (
        "key binary, value string, topic string, partition int, "
        "headers array<struct<key:string,value:binary>>, timestamp timestamp"
    )
    frame = spark.createDataFrame(rows, schema).coalesce(1)
    write(frame, quorate_cluster, includeTimestamp="true")
    first, second = records_of(quorate_cluster, topic)
    assert (first.partition, first.key, first.value) == (2, b"k", b"v1")
    assert first.headers == (("a", b"1"), ("b", None))
    assert first.timestamp == int(written_at.timestamp() * 1000)
    assert (second.key, second.value, second.headers) == (None, b"v2", ())
    (third,) = records_of(quorate_cluster, other)
    assert (third.key, third.value) == (b"k", None)


def test_records_that_cannot_be_used_go_where_the_page_says(
    spark: SparkSession, quorate_cluster: LocalCluster, new_topic: NewTopic
) -> None:
    good, dead = new_topic(1), new_topic(1)
    rows = [
        (b"k", b'{"amount": 1.50}', "orders", 2, 7),
        (b"k", b"no json", "orders", 2, 8),
        (None, None, "orders", 0, 3),
        (b"k", b'{"amount": "much"}', "orders", 0, 4),
    ]
    schema = "key binary, value binary, topic string, partition int, offset long"
    (block,) = blocks_of("docs/pipeline.md", "Dead letters")
    program = block.text.replace("127.0.0.1:9092", quorate_cluster.bootstrap)
    program = program.replace("orders-good", good).replace("orders-dead", dead)
    exec(program, {"orders": spark.createDataFrame(rows, schema)})  # the page's own

    (used,) = records_of(quorate_cluster, good)
    assert (used.value, used.headers) == (b'{"amount": 1.50}', (("origin", b"orders-2-7"),))
    origins = {each.value: each.headers for each in records_of(quorate_cluster, dead)}
    assert origins == {
        b"no json": (("origin", b"orders-2-8"),),
        None: (("origin", b"orders-0-3"),),
        b'{"amount": "much"}': (("origin", b"orders-0-4"),),
    }


def test_many_rows_arrive_once_each_in_the_order_of_their_key(
    spark: SparkSession, quorate_cluster: LocalCluster, new_topic: NewTopic
) -> None:
    topic = new_topic(3)
    frame = spark.range(20_000, numPartitions=2).selectExpr(
        "cast(id % 11 as string) as key", "cast(id as string) as value", "'nowhere' as topic"
    )
    write(frame, quorate_cluster, topic=topic)
    found = records_of(quorate_cluster, topic)
    assert sorted(int(each.value or b"") for each in found) == list(range(20_000))
    by_task: dict[tuple[bytes | None, bool], list[int]] = {}
    for each in found:
        number = int(each.value or b"")
        by_task.setdefault((each.key, number < 10_000), []).append(number)
    assert all(numbers == sorted(numbers) for numbers in by_task.values())


def test_a_stream_goes_from_topic_to_topic(
    spark: SparkSession, quorate_cluster: LocalCluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    source, target = new_topic(2), new_topic(2)
    for part in (["a", "b"], ["c"]):
        with quorate_cluster.producer() as producer:
            producer.send_many(source, part, keys=part).result()
        frame = (
            spark.readStream.format("quorate")
            .option("kafka.bootstrap.servers", quorate_cluster.bootstrap)
            .option("subscribe", source)
            .option("startingOffsets", "earliest")
            .load()
        )
        query = (
            frame.selectExpr("key", "upper(cast(value as string)) as value")
            .writeStream.format("quorate")
            .option("kafka.bootstrap.servers", quorate_cluster.bootstrap)
            .option("topic", target)
            .option("checkpointLocation", str(tmp_path))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    found = records_of(quorate_cluster, target)
    assert sorted((each.key, each.value) for each in found) == [(b"a", b"A"), (b"b", b"B"), (b"c", b"C")]


@pytest.mark.parametrize(
    ("columns", "options", "said"),
    [
        (["'k' as key"], {"topic": "t"}, "there is no column value"),
        (["id as value"], {"topic": "t"}, "column value is bigint; it has to be binary or string"),
        (["'v' as value"], {}, "neither the option topic nor a column topic"),
        (["'v' as value"], {"topic": "t", "compression": "zip"}, "option compression"),
    ],
)
def test_what_cannot_be_written_is_refused_before_anything_is(
    spark: SparkSession, quorate_cluster: LocalCluster, columns: list[str], options: dict[str, str], said: str
) -> None:
    with pytest.raises(Exception, match=said):
        write(spark.range(1).selectExpr(*columns), quorate_cluster, **options)
