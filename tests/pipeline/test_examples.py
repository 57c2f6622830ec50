"""The programs in examples/pipeline do what they say; they take the Spark of the tests for theirs."""

from __future__ import annotations

import json
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow.dataset as ds  # type: ignore[import-untyped]  # it ships no types
import pytest

from quorate.errors import InvalidRequest
from quorate.pipeline.jobs.archive import job as archive_job
from quorate.pipeline.jobs.config import ArchiveConfig
from quorate.pipeline.jobs.job_lock import only_one_job
from quorate.testing import LocalCluster
from tests.pipeline.job_helpers import KEPT, LONG, fill_topic, topic_content, without_offsets
from tests.unit.pipeline.archive_stand_in import Listener

NewTopic = Callable[..., str]

_EXAMPLES: Final = Path(__file__).parents[2] / "examples" / "pipeline"
#: as `fill_topic` dates them: a minute of the one day, the rest on the next
_DATES: Final = ("2025-12-31", "2026-01-01")

pytestmark = LONG


def run(name: str, *arguments: object) -> None:
    runpy.run_path(str(_EXAMPLES / f"{name}.py"))["main"](*map(str, arguments))


@pytest.mark.usefixtures("spark")
def test_what_archive_wrote_replay_writes_back(
    quorate_cluster: LocalCluster, new_topic: NewTopic, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, again = new_topic(**KEPT), new_topic(**KEPT)
    fill_topic(quorate_cluster, topic, 900)
    run("archive", quorate_cluster.bootstrap, topic, tmp_path / "archive")
    assert "900 records archived" in capsys.readouterr().out
    for date in _DATES:
        run("replay", quorate_cluster.bootstrap, tmp_path / "archive", topic, date, again)
    records = topic_content(quorate_cluster, topic)
    assert without_offsets(topic_content(quorate_cluster, again)) == without_offsets(records)


@pytest.mark.usefixtures("spark")
def test_a_copy_of_archive_changes_columns_of_an_archive_and_is_guarded_as_the_job_is(
    quorate_cluster: LocalCluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(1, **KEPT)
    path = tmp_path / "archive"
    config = ArchiveConfig(
        bootstrap_servers=quorate_cluster.bootstrap,
        topics=(topic,),
        path=str(path),
        compact_files_min=2,
        is_once=True,
    )
    fill_topic(quorate_cluster, topic, 100)
    archive_job.run(config, Listener())
    fill_topic(quorate_cluster, topic, 100, first=100)
    run("archive", quorate_cluster.bootstrap, topic, path)
    fill_topic(quorate_cluster, topic, 100, first=200)
    job = Listener()
    archive_job.run(config, job)
    # All of one date: files with the column, and without it.
    assert job.lines[-1] == "compacted 3 small files"
    assert job.lines[1] == f"reading what {topic} holds"
    rows = ds.dataset(str(path), partitioning="hive").to_table().to_pylist()
    assert sorted(row["offset"] for row in rows) == list(range(300))
    by_offset = {row["offset"]: row["customer"] for row in rows}
    assert by_offset[99] is by_offset[200] is None
    assert by_offset[100] == f"k{100 * 31 % 40}"

    with only_one_job(config.checkpoint), pytest.raises(InvalidRequest, match="another job"):
        run("archive", quorate_cluster.bootstrap, topic, path)
    (path / "_id.json").write_text('{"id": "another"}')
    with pytest.raises(InvalidRequest, match="is a checkpoint of something else"):
        run("archive", quorate_cluster.bootstrap, topic, path)


@pytest.mark.usefixtures("spark")
def test_audit_finds_what_is_lost_and_what_is_there_twice(
    quorate_cluster: LocalCluster, new_topic: NewTopic, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = new_topic(1)
    with quorate_cluster.producer() as producer:
        for number in (1, 3, 2, 2):
            producer.send(topic, json.dumps({"id": f"order-{number}"}))
        # Somebody else's: there is no id in them.
        for value in ("no json", "{}", "{}"):
            producer.send(topic, value)
    ledger = tmp_path / "ledger.jsonl"
    ledger.write_text("".join(f'{{"id": "order-{n}", "number": {n}}}\n' for n in range(1, 5)))
    run("audit", quorate_cluster.bootstrap, topic, ledger)
    said = capsys.readouterr().out
    assert [line for line in said.splitlines() if ": " in line] == ["lost: 1", "twice: 1", "late: 2"]
    assert "order-4" in said


@pytest.mark.usefixtures("spark")
def test_aggregate_counts_every_order_of_a_minute(
    quorate_cluster: LocalCluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic, target = new_topic(**KEPT), new_topic(**KEPT)
    fill_topic(quorate_cluster, topic, 900)
    run("aggregate", quorate_cluster.bootstrap, topic, target, tmp_path / "checkpoint")
    last: dict[bytes | None, dict[str, Any]] = {
        each.key: json.loads(each.value or b"") for each in topic_content(quorate_cluster, target)
    }
    assert sum(each["orders"] for each in last.values()) == 900
    assert sum(float(each["amount"]) for each in last.values()) == sum(n % 10 + 0.25 for n in range(900))


@pytest.mark.usefixtures("spark")
def test_table_has_the_latest_value_of_every_key(
    quorate_cluster: LocalCluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    deltalake = pytest.importorskip("deltalake", reason="the extra delta is not installed")
    topic = new_topic(**KEPT)
    table, checkpoint = tmp_path / "table", tmp_path / "checkpoint"
    for first in (0, 300):
        fill_topic(quorate_cluster, topic, 300, first=first, tombstones=True)
        run("table", quorate_cluster.bootstrap, topic, table, checkpoint)
    latest: dict[str, str] = {}
    for each in sorted(topic_content(quorate_cluster, topic), key=lambda each: each.timestamp_ms):
        assert each.key is not None
        latest.pop(each.key.decode(), None)
        if each.value is not None:
            latest[each.key.decode()] = each.value.decode()
    rows = deltalake.DeltaTable(table).to_pyarrow_table().to_pylist()
    assert {row["key"]: row["value"] for row in rows} == latest
