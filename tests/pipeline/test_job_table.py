"""The table job, killed where it hurts, shows the latest value of every key, and nothing deleted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq  # type: ignore[import-untyped]  # it ships no types
import pytest

from quorate.testing import LocalCluster
from tests.pipeline.job_helpers import LONG, fill_topic, topic_content
from tests.pipeline.job_process import run_job

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


@LONG
@pytest.mark.parametrize(
    ("store_format", "read", "places"),
    [
        pytest.param(
            "parquet", _parquet, [f"{_PARQUET}._point_to:2", f"{_PARQUET}._remove_versions:2"], id="parquet"
        ),
        pytest.param("delta", _delta, ["deltalake:DeltaTable.update_incremental:2"], id="delta"),
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
    topic = new_topic()
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
