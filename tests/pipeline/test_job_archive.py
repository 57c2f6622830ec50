"""The archive job, killed where it hurts, has every record of its topic once."""

from __future__ import annotations

import signal
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow.dataset as ds  # type: ignore[import-untyped]  # it ships no types
import pytest

from quorate.pipeline.jobs.archive.staged import stage
from quorate.testing import LocalCluster
from tests.pipeline.job_helpers import KEPT, LONG, Held, fill_topic, topic_content
from tests.pipeline.job_process import JobProcess, run_job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NewTopic = Callable[..., str]

_PARQUET: Final = "quorate.pipeline.jobs.archive.parquet_store:ParquetStore"
_DELTA: Final = "quorate.pipeline.jobs.archive.delta_store:DeltaStore"


def _options(topic: str, path: Path, *more: str) -> list[str]:
    few = ("--max-offsets-per-trigger", "400", "--progress-interval", "100", "--compact-files-min", "4")
    return ["--topics", topic, "--path", str(path), *few, *more]


def _held(table: Any) -> list[Held]:
    """Rows of an archive as a consumer would see them."""
    return sorted(
        Held(
            row["partition"],
            row["offset"],
            _milliseconds(row["timestamp"]),
            row["key"],
            row["value"],
            tuple((each["key"], each["value"]) for each in row["headers"] or ()),
        )
        for row in table.to_pylist()
    )


def _milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def _parquet(path: Path) -> Any:
    """As anybody reads a folder of Parquet files."""
    return ds.dataset(str(path), partitioning="hive").to_table()


def test_the_tasks_tell_how_many_rows_they_have_written(spark: SparkSession, tmp_path: Path) -> None:
    columns = "topic string, partition int, offset long, timestamp timestamp"
    at = datetime(2026, 1, 31, tzinfo=UTC)
    rows = [("orders", n % 2, n // 2, at + timedelta(hours=n)) for n in range(50)]
    staged = stage(spark.createDataFrame(rows, columns), str(tmp_path / "some"), prefix="p")
    assert (staged.rows_written, staged.rows, len(staged.directories)) == (50, 50, 3)
    nothing = stage(spark.createDataFrame([], columns), str(tmp_path / "none"), prefix="p")
    assert (nothing.rows_written, nothing.rows) == (0, 0)


def test_killed_between_commit_and_publishing_it_goes_on_and_archives_each_record_once(
    quorate_cluster: LocalCluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(**KEPT)
    fill_topic(quorate_cluster, topic, 1500)
    options = _options(topic, tmp_path, "--once")

    # The first is at the start; the third has the second batch committed, and none of its files published.
    run_job("archive", *options, bootstrap=quorate_cluster.bootstrap, kill_before=f"{_PARQUET}._finish:3")
    part = _held(_parquet(tmp_path))
    lines = run_job("archive", *options, bootstrap=quorate_cluster.bootstrap)

    truth = topic_content(quorate_cluster, topic)
    assert 0 < len(part) < len(truth)
    assert len(set(part)) == len(part)
    assert _held(_parquet(tmp_path)) == truth
    assert {each.name for each in tmp_path.glob("date=*")} == {"date=2025-12-31", "date=2026-01-01"}
    assert any("lag 0" in line for line in lines), lines


@LONG
@pytest.mark.parametrize(
    "place",
    [
        pytest.param(f"{_PARQUET}.commit:2", id="files-written-nothing-committed"),
        pytest.param(f"{_PARQUET}.compact:2", id="published-and-not-noted-by-spark"),
        pytest.param(f"{_PARQUET}._finish:8", id="compaction-committed-nothing-replaced"),
    ],
)
def test_killed_at_any_step_it_archives_each_record_once(
    quorate_cluster: LocalCluster, new_topic: NewTopic, tmp_path: Path, place: str
) -> None:
    topic = new_topic(**KEPT)
    fill_topic(quorate_cluster, topic, 3000)
    options = _options(topic, tmp_path, "--once")
    run_job("archive", *options, bootstrap=quorate_cluster.bootstrap, kill_before=place)
    run_job("archive", *options, bootstrap=quorate_cluster.bootstrap)

    assert _held(_parquet(tmp_path)) == topic_content(quorate_cluster, topic)


@LONG
def test_a_table_of_delta_has_each_record_once_also_when_the_checkpoint_is_lost(
    quorate_cluster: LocalCluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    from deltalake import DeltaTable

    topic = new_topic(**KEPT)
    fill_topic(quorate_cluster, topic, 1500)
    options = _options(topic, tmp_path / "table", "--once", "--format", "delta")

    def run(*more: str, kill_before: str | None = None) -> None:
        bootstrap = quorate_cluster.bootstrap
        run_job("archive", *options, *more, bootstrap=bootstrap, kill_before=kill_before)

    run(kill_before="deltalake:DeltaTable.create_write_transaction:2")
    # In the log of the table, and unknown to Spark.
    run(kill_before=f"{_DELTA}.compact:1")
    run("--checkpoint-dir", str(tmp_path / "another"))

    table = DeltaTable(tmp_path / "table")
    truth = topic_content(quorate_cluster, topic)
    assert _held(table.to_pyarrow_table()) == truth
    ends = {partition: table.transaction_version(f"quorate/{topic}/{partition}") for partition in range(3)}
    assert ends == {partition: sum(each.partition == partition for each in truth) for partition in range(3)}


@LONG
@pytest.mark.parametrize(
    ("number", "asks_the_group"), [(signal.SIGTERM, False), (signal.SIGINT, False), (signal.SIGTERM, True)]
)
def test_asked_to_stop_it_finishes_its_batch_and_goes_on_from_there(
    quorate_cluster: LocalCluster,
    new_topic: NewTopic,
    tmp_path: Path,
    number: signal.Signals,
    asks_the_group: bool,
) -> None:
    """Alone, or with all of its process group, as `timeout` asks it."""
    topic = new_topic(**KEPT)
    fill_topic(quorate_cluster, topic, 4000)
    options = _options(topic, tmp_path, "--trigger-interval", "0")
    with JobProcess("archive", *options, bootstrap=quorate_cluster.bootstrap) as job:
        job.wait_for(lambda line: "batch" in line)
        job.ask_to_stop(number, group=asks_the_group)
        assert job.wait() == 0, job.lines
    told = [line for line in job.lines if line.startswith("archive: ")]
    assert told[:2] == ["archive: starting Spark (local[2])", f"archive: following {topic}"]
    assert "stopped" in job.lines[-1]
    assert not [line for line in job.lines if "ERROR" in line or "Traceback" in line], job.lines

    run_job("archive", *options, "--once", bootstrap=quorate_cluster.bootstrap)
    assert _held(_parquet(tmp_path)) == topic_content(quorate_cluster, topic)
