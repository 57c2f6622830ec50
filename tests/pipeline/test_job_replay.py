"""The replay job, killed between a chunk and its note, writes each record once."""

from __future__ import annotations

import signal
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # it ships no types
import pytest

from quorate.pipeline.jobs.replay.remainder import Gap, compared, first_gap, missing
from quorate.testing import LocalCluster
from tests.pipeline.job_helpers import KEPT, LONG, Held, fill_topic, topic_content, without_offsets
from tests.pipeline.job_process import JobProcess, run_job, stop_within_a_batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NewTopic = Callable[..., str]

_HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_SCHEMA: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
        ("headers", _HEADERS),
    ]
)


def _archive(path: Path, topic: str, records: list[Held]) -> None:
    """As the archive job lays it out, without running it."""
    by_date: dict[str, list[Held]] = {}
    for each in records:
        by_date.setdefault(f"{_moment(each):%Y-%m-%d}", []).append(each)
    for date, found in by_date.items():
        directory = path / f"date={date}" / f"topic={topic}"
        directory.mkdir(parents=True)
        rows = [
            {
                "key": each.key,
                "value": each.value,
                "partition": each.partition,
                "offset": each.offset,
                "timestamp": _moment(each),
                "timestampType": 0,
                "headers": [{"key": key, "value": value} for key, value in each.headers] or None,
            }
            for each in found
        ]
        pq.write_table(pa.Table.from_pylist(rows, _SCHEMA), directory / "part-0.parquet")


def _moment(each: Held) -> datetime:
    return datetime.fromtimestamp(each.timestamp_ms / 1000, UTC)


_COLUMNS: Final = (
    "key binary, value binary, partition int, offset long, timestamp timestamp, "
    "headers array<struct<key:string,value:binary>>"
)


def test_of_a_chunk_that_was_written_in_part_the_rest_is_written(spark: SparkSession) -> None:
    at = datetime(2026, 1, 31, tzinfo=UTC)
    one, other = [("h", b"1")], [("h", b"2")]
    chunk = [
        (b"k", b"first", 0, 10, at, None),
        (b"k", b"same", 0, 11, at, None),
        (b"k", b"same", 0, 12, at, None),
        (b"k", None, 0, 13, at, one),
        (None, b"", 1, 7, at, []),
        (b"", None, 1, 8, at, None),
        (b"k", b"headed", 1, 9, at, other),
        (b"k", b"headed", 1, 10, at, one),
    ]
    # At other offsets, of course; and somebody else has written as well.
    there = [
        (b"k", b"first", 0, 90, at, None),
        (b"k", b"same", 0, 91, at, None),
        (b"x", b"y", 0, 92, at, None),
        (None, b"", 1, 93, at, None),
        (b"", None, 1, 94, at, None),
        # Only the headers differ.
        (b"k", b"headed", 1, 95, at, [("h", b"3")]),
    ]
    frame, written = (spark.createDataFrame(rows, _COLUMNS) for rows in (chunk, there))
    comparison = compared(frame, written, is_placed=True)

    rest = missing(comparison).orderBy("partition", "offset").collect()
    assert [(row["partition"], row["offset"]) for row in rest] == [(0, 12), (0, 13), (1, 9), (1, 10)]
    assert first_gap(comparison, is_placed=True) is None


_Row = tuple[bytes | None, bytes, int, int]


@pytest.mark.parametrize(
    ("chunk", "there", "is_placed", "gap"),
    [
        pytest.param(
            [(b"k", b"old", 0, 7), (b"k", b"new", 0, 8)],
            [(b"k", b"new", 0, 1)],
            True,
            Gap(partition=0, first_missing=7, last_found=8),
            id="compaction-took-the-older-value",
        ),
        pytest.param(
            [(b"a", b"1", 0, 7), (b"b", b"1", 0, 8), (b"a", b"2", 0, 9)],
            [(b"b", b"1", 2, 1)],
            False,
            None,
            id="by-key-each-key-has-its-own-end",
        ),
        pytest.param(
            [(b"a", b"1", 0, 7), (b"b", b"1", 0, 8), (b"a", b"2", 0, 9)],
            [(b"a", b"2", 2, 1), (b"b", b"1", 2, 1)],
            False,
            Gap(partition=0, first_missing=7, last_found=9),
            id="by-key-the-older-of-a-key-is-gone",
        ),
        pytest.param(
            [(None, b"1", 0, 7), (None, b"2", 0, 8)],
            [(None, b"2", 2, 1)],
            False,
            None,
            id="without-a-key-there-is-no-order",
        ),
        pytest.param(
            [(b"k", b"x", 0, 7), (b"k", b"same", 0, 8), (b"k", b"same", 1, 3)],
            [(b"k", b"same", 2, 1)],
            False,
            None,
            id="it-may-be-the-same-record-of-another-partition",
        ),
    ],
)
def test_what_is_missing_before_what_is_there_is_a_gap(
    spark: SparkSession, chunk: list[_Row], there: list[_Row], gap: Gap | None, *, is_placed: bool
) -> None:
    at = datetime(2026, 1, 31, tzinfo=UTC)
    frame, written = (
        spark.createDataFrame([(*row, at, None) for row in rows], _COLUMNS) for rows in (chunk, there)
    )
    assert first_gap(compared(frame, written, is_placed=is_placed), is_placed=is_placed) == gap


@LONG
def test_killed_with_a_chunk_written_and_not_noted_it_writes_each_record_once_in_order(
    quorate_cluster: LocalCluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    source, target = new_topic(**KEPT), new_topic(**KEPT)
    fill_topic(quorate_cluster, source, 900)
    records = topic_content(quorate_cluster, source)
    _archive(tmp_path / "archive", source, records)
    options = ["--path", str(tmp_path / "archive"), "--topic", source, "--to-topic", target]
    options += ["--checkpoint-dir", str(tmp_path / "checkpoint"), "--max-rows-per-chunk", "300"]

    killed = "quorate.pipeline.jobs.replay.notes:Notes.end:2"
    run_job("replay", *options, bootstrap=quorate_cluster.bootstrap, kill_before=killed)
    # Two chunks are there, and only the first is known to be.
    assert 300 < len(topic_content(quorate_cluster, target)) < 900
    lines = run_job("replay", *options, bootstrap=quorate_cluster.bootstrap)

    assert without_offsets(topic_content(quorate_cluster, target)) == without_offsets(records)
    assert any("lag 0" in line for line in lines), lines
    # It is done: nothing is left to write.
    run_job("replay", *options, bootstrap=quorate_cluster.bootstrap)
    assert len(topic_content(quorate_cluster, target)) == len(records)


@LONG
def test_killed_without_its_spark_it_is_not_started_beside_that(
    quorate_cluster: LocalCluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    source, target = new_topic(**KEPT), new_topic(**KEPT)
    fill_topic(quorate_cluster, source, 2000)
    records = topic_content(quorate_cluster, source)
    _archive(tmp_path / "archive", source, records)
    options = ["--path", str(tmp_path / "archive"), "--topic", source, "--to-topic", target]
    options += ["--checkpoint-dir", str(tmp_path / "checkpoint")]
    # A chunk takes two seconds, so it is killed within one.
    with JobProcess(
        *("replay", *options, "--max-rows-per-second", "200"), bootstrap=quorate_cluster.bootstrap
    ) as job:
        job.wait_for(lambda line: "batch" in line)
        with (
            job.killed_alone(),
            JobProcess("replay", *options, bootstrap=quorate_cluster.bootstrap) as next_job,
        ):
            assert next_job.wait() == 1, next_job.lines
        assert "which may still write: try again" in "\n".join(next_job.lines)
        # Until all that it has started is gone.
        assert job.wait() == -signal.SIGKILL
        run_job("replay", *options, bootstrap=quorate_cluster.bootstrap)

    assert without_offsets(topic_content(quorate_cluster, target)) == without_offsets(records)


@LONG
def test_asked_to_stop_it_ends_its_chunk_and_goes_on_from_there(
    quorate_cluster: LocalCluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    source, target = new_topic(**KEPT), new_topic(**KEPT)
    fill_topic(quorate_cluster, source, 4000)
    records = topic_content(quorate_cluster, source)
    _archive(tmp_path / "archive", source, records)
    options = ["--path", str(tmp_path / "archive"), "--topic", source, "--to-topic", target]
    options += ["--checkpoint-dir", str(tmp_path / "checkpoint"), "--max-rows-per-chunk", "200"]
    job = stop_within_a_batch("replay", *options, bootstrap=quorate_cluster.bootstrap)
    written = topic_content(quorate_cluster, target)
    assert f"replay: {len(written):,} rows, stopped" in job.lines[-1]
    assert len(written) < len(records)

    lines = run_job("replay", *options, bootstrap=quorate_cluster.bootstrap)
    assert not [line for line in lines if "looking for what the last run" in line], "its chunk was noted"
    assert without_offsets(topic_content(quorate_cluster, target)) == without_offsets(records)


def test_a_compacted_target_is_refused_as_the_cluster_tells_it(
    quorate_cluster: LocalCluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    target = new_topic(1, **{"cleanup.policy": "compact"})
    _archive(tmp_path / "archive", "t", [Held(0, 0, 1_767_225_540_000, b"k", b"v", ())])
    options = ["--path", str(tmp_path / "archive"), "--topic", "t", "--to-topic", target]
    options += ["--checkpoint-dir", str(tmp_path / "checkpoint")]
    with JobProcess("replay", *options, bootstrap=quorate_cluster.bootstrap) as job:
        assert job.wait() == 1, job.lines
    assert f"{target} has cleanup.policy=compact" in "\n".join(job.lines)


@LONG
def test_a_range_of_time_is_replayed_at_a_limited_rate(
    quorate_cluster: LocalCluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    source, target = new_topic(**KEPT), new_topic(partitions=1, **KEPT)
    fill_topic(quorate_cluster, source, 900)
    records = topic_content(quorate_cluster, source)
    _archive(tmp_path / "archive", source, records)
    options = ["--path", str(tmp_path / "archive"), "--topic", source, "--to-topic", target]
    options += ["--checkpoint-dir", str(tmp_path / "checkpoint"), "--partitions", "by-key"]
    options += ["--from-time", "2025-12-31T23:59:30Z", "--until-time", "2026-01-01T00:00:10Z"]
    options += ["--max-rows-per-second", "200"]
    lines = run_job("replay", *options, bootstrap=quorate_cluster.bootstrap)

    asked = [each for each in records if 1_767_225_570_000 <= each.timestamp_ms < 1_767_225_610_000]
    found = topic_content(quorate_cluster, target)
    assert sorted(each[1:] for each in without_offsets(found)) == sorted(
        each[1:] for each in without_offsets(asked)
    )
    for key in {each.key for each in asked}:
        in_order = [each.timestamp_ms for each in found if each.key == key]
        assert in_order == sorted(in_order)
    # Two seconds of the limit at once: no chunk has more.
    assert len([line for line in lines if "batch" in line]) >= len(asked) // 400


@LONG
def test_an_archive_with_wide_gaps_takes_as_many_chunks_as_its_rows_need(
    quorate_cluster: LocalCluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    target = new_topic(**KEPT)
    at_ms = 1_767_225_540_000
    records = [
        Held(partition, number * 1_000, at_ms + number, b"k", b"%d" % number, ())
        for partition in range(3)
        for number in range(100)
    ]
    _archive(tmp_path / "archive", "t", records)
    options = ["--path", str(tmp_path / "archive"), "--topic", "t", "--to-topic", target]
    options += ["--checkpoint-dir", str(tmp_path / "checkpoint"), "--max-rows-per-second", "75"]
    options += ["--progress-interval", "100ms"]
    lines = run_job("replay", *options, bootstrap=quorate_cluster.bootstrap)
    assert without_offsets(topic_content(quorate_cluster, target)) == without_offsets(records)
    # 150 rows of each chunk, which is what two seconds of the limit are.
    assert len([line for line in lines if "batch" in line]) == 2
