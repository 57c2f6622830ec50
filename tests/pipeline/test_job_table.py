"""The table job, killed where it hurts, shows the latest value of every key, and nothing deleted."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow.parquet as pq  # type: ignore[import-untyped]  # it ships no types
import pytest

from quorate.pipeline.jobs.batch import Batch
from quorate.pipeline.jobs.table.delta_table import DeltaLatest
from quorate.pipeline.jobs.table.parquet_table import ParquetLatest
from quorate.testing import LocalCluster
from tests.pipeline.job_helpers import KEPT, LONG, fill_topic, topic_content
from tests.pipeline.job_process import JobProcess, run_job, stop_within_a_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NewTopic = Callable[..., str]
Rows = dict[tuple[int, bytes], tuple[bytes, int]]

_PARQUET: Final = "quorate.pipeline.jobs.table.parquet_table:ParquetLatest"


def _truth(cluster: LocalCluster, topic: str) -> Rows:
    """By partition and key: the value and its offset."""
    latest: Rows = {}
    for each in topic_content(cluster, topic):
        assert each.key is not None
        if each.value is None:
            latest.pop((each.partition, each.key), None)
        else:
            latest[each.partition, each.key] = (each.value, each.offset)
    return latest


def _rows(table: Any) -> Rows:
    rows = table.to_pylist()
    found = {(row["partition"], row["key"]): (row["value"], row["offset"]) for row in rows}
    assert len(found) == len(rows), "a key has one row"
    return found


def _parquet(path: Path) -> Rows:
    return _rows(pq.read_table(path / "current"))


def _delta(path: Path) -> Rows:
    from deltalake import DeltaTable

    return _rows(DeltaTable(path).to_pyarrow_table())


class _Killed(BaseException):
    """As `kill -9`: nobody tidies up after it."""


def test_a_version_is_current_whole_or_not_at_all(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = "key binary, value binary, partition int, offset long, timestamp timestamp"

    def rows(*found: tuple[bytes, bytes | None, int]) -> DataFrame:
        at = datetime(2026, 1, 31, tzinfo=UTC)
        return spark.createDataFrame([(key, value, 0, offset, at) for key, value, offset in found], schema)

    def opened() -> ParquetLatest:
        store = ParquetLatest(str(tmp_path), buckets=4)
        store.open({"t": "A" * 22})
        return store

    def killed(*_: object, **__: object) -> None:
        raise _Killed

    first, second = Batch("q", 0), Batch("q", 1)
    store = opened()
    store.apply(rows((b"a", b"1", 0), (b"b", b"1", 1), (b"c", b"1", 2)), {0: 3}, first)
    before = {(0, b"a"): (b"1", 0), (0, b"b"): (b"1", 1), (0, b"c"): (b"1", 2)}
    assert _parquet(tmp_path) == before

    change = rows((b"a", b"2", 3), (b"b", None, 4))
    with monkeypatch.context() as patched:
        patched.setattr(ParquetLatest, "_point_to", killed)
        with pytest.raises(_Killed):
            store.apply(change, {0: 5}, second)
    assert _parquet(tmp_path) == before
    store = opened()
    assert store.end_of(0) == 3
    with monkeypatch.context() as patched:
        patched.setattr(ParquetLatest, "_remove_versions", killed)
        with pytest.raises(_Killed):
            store.apply(change, {0: 5}, second)
    assert _parquet(tmp_path) == {(0, b"a"): (b"2", 3), (0, b"c"): (b"1", 2)}
    store = opened()
    assert store.end_of(0) == 5

    store.apply(rows((b"a", None, 5), (b"c", None, 6)), {0: 7}, Batch("q", 2))
    assert _parquet(tmp_path) == {}
    assert {each.name for each in (tmp_path / "versions").iterdir()} == {"000000000002", "000000000003"}


def test_a_merge_is_one_entry_of_the_tables_log_with_how_far_it_goes(
    spark: SparkSession, tmp_path: Path
) -> None:
    deltalake = pytest.importorskip("deltalake", reason="the extra delta is not installed")
    schema = "key binary, value binary, partition int, offset long, timestamp timestamp"
    at = datetime(2026, 1, 31, tzinfo=UTC)

    def opened() -> DeltaLatest:
        store = DeltaLatest(str(tmp_path))
        store.open({"t": "A" * 22})
        return store

    first = [(b"a", b"1", 0, 0, at), (b"b", b"1", 0, 1, at), (b"a", b"1", 1, 0, at), (b"z", None, 1, 1, at)]
    opened().apply(spark.createDataFrame(first, schema), {0: 2, 1: 2}, Batch("q", 0))
    assert _delta(tmp_path) == {(0, b"a"): (b"1", 0), (0, b"b"): (b"1", 1), (1, b"a"): (b"1", 0)}

    # Another process: what it has to know stands in the table.
    store = opened()
    assert (store.end_of(0), store.end_of(1), store.end_of(2)) == (2, 2, 0)
    second = [(b"a", b"2", 0, 2, at), (b"b", None, 0, 3, at), (b"c", b"1", 0, 4, at)]
    store.apply(spark.createDataFrame(second, schema), {0: 5}, Batch("q", 1))

    assert _delta(tmp_path) == {(0, b"a"): (b"2", 2), (0, b"c"): (b"1", 4), (1, b"a"): (b"1", 0)}
    assert (store.end_of(0), store.end_of(1)) == (5, 2)
    # Made, and two batches.
    assert deltalake.DeltaTable(tmp_path).version() == 2


@LONG
def test_a_topic_that_has_grown_is_refused_and_its_table_stays_as_it_is(
    quorate_cluster: LocalCluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(partitions=1)
    options = ["--topic", topic, "--path", str(tmp_path), "--once"]
    with quorate_cluster.producer() as producer:
        producer.send(topic, b"old", key=b"k").result()
    run_job("table", *options, bootstrap=quorate_cluster.bootstrap)
    with quorate_cluster.admin() as admin:
        admin.create_partitions(topic, 5)
    with quorate_cluster.producer() as producer:
        # To the partition that its key belongs to from now on, or to any other one.
        producer.send(topic, None, key=b"k", partition=4).result()

    with JobProcess("table", *options, bootstrap=quorate_cluster.bootstrap) as job:
        assert job.wait() == 1, job.lines
    assert f"{topic} had 1 partitions" in "\n".join(job.lines)
    assert _parquet(tmp_path) == {(0, b"k"): (b"old", 0)}
    # As whoever asks for it is told: the row of where the key was stays.
    run_job("table", *options, "--grown-topic", "take", bootstrap=quorate_cluster.bootstrap)
    assert _parquet(tmp_path) == {(0, b"k"): (b"old", 0)}


@LONG
@pytest.mark.parametrize(
    ("store_format", "read", "places"),
    [
        pytest.param(
            "parquet", _parquet, [f"{_PARQUET}._point_to:2", f"{_PARQUET}._remove_versions:2"], id="parquet"
        ),
        pytest.param(
            "delta",
            _delta,
            ["deltalake:DeltaTable.merge:2", "deltalake:DeltaTable.update_incremental:2"],
            id="delta",
        ),
    ],
)
def test_killed_before_and_after_its_commit_it_shows_the_latest_of_every_key(
    quorate_cluster: LocalCluster,
    new_topic: NewTopic,
    tmp_path: Path,
    store_format: str,
    read: Callable[[Path], Rows],
    places: list[str],
) -> None:
    topic = new_topic(**KEPT)
    fill_topic(quorate_cluster, topic, 1500, tombstones=True)
    options = ["--topic", topic, "--path", str(tmp_path), "--format", store_format, "--once"]
    options += ["--max-offsets-per-trigger", "300"]
    for place in places:
        run_job("table", *options, bootstrap=quorate_cluster.bootstrap, kill_before=place)
    run_job("table", *options, bootstrap=quorate_cluster.bootstrap)
    assert read(tmp_path) == _truth(quorate_cluster, topic)

    # More comes later: what changes is changed, nothing else.
    fill_topic(quorate_cluster, topic, 100, first=1500, tombstones=True)
    run_job("table", *options, bootstrap=quorate_cluster.bootstrap)
    assert read(tmp_path) == _truth(quorate_cluster, topic)


@LONG
def test_asked_to_stop_it_finishes_its_batch_and_goes_on_from_there(
    quorate_cluster: LocalCluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(**KEPT)
    fill_topic(quorate_cluster, topic, 4000, tombstones=True)
    options = ["--topic", topic, "--path", str(tmp_path), "--max-offsets-per-trigger", "200"]
    options += ["--progress-interval", "100", "--trigger-interval", "0"]
    stop_within_a_batch("table", *options, bootstrap=quorate_cluster.bootstrap)
    assert _parquet(tmp_path) != _truth(quorate_cluster, topic), "it was not done yet"

    run_job("table", *options, "--once", bootstrap=quorate_cluster.bootstrap)
    assert _parquet(tmp_path) == _truth(quorate_cluster, topic)
