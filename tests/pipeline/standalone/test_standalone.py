"""Spark as a cluster of processes: executors, brokers and drivers are killed, and no row is lost.

A kill is timed by what has happened (an executor has a task, the target has rows), not by the clock; and what
Spark says, or what the target held, shows that it came in the middle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.dataset as ds  # type: ignore[import-untyped]  # it ships no types
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # it ships no types
import pytest

from quorate.client import ConsumerRecord
from quorate.testing import LocalCluster
from tests.pipeline.job_process import JobProcess
from tests.pipeline.standalone.spark_cluster import SparkCluster, eventually

NewTopic = Callable[..., str]
RECORDS = 200_000


@pytest.fixture(scope="module")
def spark_cluster(
    tmp_path_factory: pytest.TempPathFactory, python_of_executors: str
) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path_factory.mktemp("spark"), python_of_executors) as cluster:
        yield cluster


def fill(cluster: LocalCluster, topic: str, records: int) -> list[bytes]:
    values = [b"%08d" % n * 12 for n in range(records)]
    sent = []
    with cluster.producer() as producer:
        for start in range(0, records, 10_000):
            part = values[start : start + 10_000]
            sent.append(producer.send_many(topic, part, keys=[value[:8] for value in part]))
        for each in sent:
            each.result()
    return values


def rows_in(cluster: LocalCluster, topic: str) -> int:
    with cluster.admin() as admin:
        return sum(each.offset or 0 for each in admin.list_offsets(topic).values())


def values_in(cluster: LocalCluster, topic: str) -> Counter[bytes]:
    total = rows_in(cluster, topic)
    found: list[ConsumerRecord] = []
    with cluster.consumer(topics=[topic]) as consumer:
        while len(found) < total:
            found += consumer.poll(10_000, timeout=30)
    return Counter(each.value or b"" for each in found)


def test_an_executor_killed_during_a_read_costs_no_row_and_repeats_none(
    quorate_cluster: LocalCluster, new_topic: NewTopic, spark_cluster: SparkCluster, tmp_path: Path
) -> None:
    topic = new_topic(6)
    values = fill(quorate_cluster, topic, RECORDS)
    driver = spark_cluster.driver("archive", quorate_cluster.bootstrap, topic, str(tmp_path / "out"), "")
    spark_cluster.kill_an_executor_at_work()
    driver.succeed()
    assert driver.repeated_tasks
    assert sorted(pq.read_table(tmp_path / "out").column("value").to_pylist()) == sorted(values)


def test_an_executor_killed_under_a_job_costs_its_archive_no_record_and_repeats_none(
    quorate_cluster: LocalCluster, new_topic: NewTopic, spark_cluster: SparkCluster, tmp_path: Path
) -> None:
    topic = new_topic(6)
    values = fill(quorate_cluster, topic, RECORDS)
    options = ["--topics", topic, "--path", str(tmp_path), "--once", "--max-offsets-per-trigger", "60000"]
    with JobProcess(
        *("archive", *options),
        bootstrap=quorate_cluster.bootstrap,
        master=spark_cluster.master,
        settings=("spark.driver.host=127.0.0.1", "spark.executor.memory=512m"),
    ) as job:
        spark_cluster.kill_an_executor_at_work()
        assert job.wait() == 0, job.lines
    found = ds.dataset(str(tmp_path), partitioning="hive").to_table(columns=["value"])
    assert Counter(found.column("value").to_pylist()) == Counter(values)


def test_a_broker_killed_during_a_read_and_a_write_costs_no_row(
    quorate_cluster: LocalCluster, new_topic: NewTopic, spark_cluster: SparkCluster
) -> None:
    source, target = new_topic(6), new_topic(6)
    values = fill(quorate_cluster, source, RECORDS)
    driver = spark_cluster.driver("copy", quorate_cluster.bootstrap, source, target, "")
    try:
        there = eventually(lambda: rows_in(quorate_cluster, target) or None)
        quorate_cluster.kill(quorate_cluster.leader_of(source))
        assert there < RECORDS
        driver.succeed()
    finally:
        quorate_cluster.heal()
    # No task failed for it, so each row is there once.
    assert not driver.repeated_tasks
    assert values_in(quorate_cluster, target) == Counter(values)


def test_an_executor_killed_during_a_write_repeats_rows_and_loses_none(
    quorate_cluster: LocalCluster, new_topic: NewTopic, spark_cluster: SparkCluster
) -> None:
    source, target = new_topic(6), new_topic(6)
    values = fill(quorate_cluster, source, RECORDS)
    driver = spark_cluster.driver("copy", quorate_cluster.bootstrap, source, target, "")
    eventually(lambda: rows_in(quorate_cluster, target) or None)
    spark_cluster.kill_an_executor_at_work()
    driver.succeed()
    assert driver.repeated_tasks
    assert values_in(quorate_cluster, target).keys() == set(values)


def test_a_driver_killed_between_the_sinks_commit_and_the_checkpoint_repeats_that_batch_alone(
    quorate_cluster: LocalCluster, new_topic: NewTopic, spark_cluster: SparkCluster, tmp_path: Path
) -> None:
    source, target = new_topic(2), new_topic(2)
    values = fill(quorate_cluster, source, 5_000)
    arguments = ("stream", quorate_cluster.bootstrap, source, target, str(tmp_path / "checkpoint"))
    marker = {"KILLED_MARKER": str(tmp_path / "killed")}
    assert spark_cluster.driver(*arguments, **marker).wait() == -9
    assert (tmp_path / "killed").exists()
    spark_cluster.driver(*arguments, **marker).succeed()
    found = values_in(quorate_cluster, target)
    assert found.keys() == set(values)
    assert Counter(found.values()) == {1: 4_000, 2: 1_000}
