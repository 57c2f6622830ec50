"""The aggregate job, killed in the middle: the last result of every window is the truth."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quorate.pipeline.jobs.aggregate import aggregated
from quorate.pipeline.jobs.config import AggregateConfig
from quorate.testing import LocalCluster
from tests.pipeline.job_helpers import KEPT, LONG, fill_topic, topic_content
from tests.pipeline.job_process import JobProcess, run_job, stop_within_a_batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NewTopic = Callable[..., str]
Windows = dict[tuple[str, str], tuple[int, Decimal]]

_WINDOW_MS = 10_000


def _truth(cluster: LocalCluster, topic: str) -> Windows:
    """By key and beginning: how many records, and the sum of their amounts."""
    found: Windows = defaultdict(lambda: (0, Decimal(0)))
    for each in topic_content(cluster, topic):
        assert each.key is not None
        assert each.value is not None
        start_ms = each.timestamp_ms // _WINDOW_MS * _WINDOW_MS
        start = f"{datetime.fromtimestamp(start_ms / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"
        count, total = found[each.key.decode(), start]
        amount = Decimal(str(json.loads(each.value)["amount"]))
        found[each.key.decode(), start] = (count + 1, total + amount)
    return dict(found)


def _last_words(cluster: LocalCluster, topic: str) -> Windows:
    """What a compacted topic would keep."""
    found: Windows = {}
    for each in topic_content(cluster, topic):
        assert each.key is not None
        assert each.value is not None
        key, result = json.loads(each.key), json.loads(each.value, parse_float=Decimal)
        assert (key["group"], key["start"]) == (result["group"], result["start"])
        found[key["group"], key["start"]] = (result["count"], Decimal(result["sums"]["$.amount"]))
    return found


def test_windows_are_of_event_time_and_sums_are_exact(spark: SparkSession) -> None:
    def record(key: bytes, value: str, second: int) -> tuple[bytes, bytes, datetime]:
        return key, value.encode(), datetime(2026, 1, 31, 12, 0, second, tzinfo=UTC)

    records = [
        record(b"a", '{"amount": 0.1, "at": "2026-01-31T10:00:00Z", "by": "x"}', 1),
        record(b"a", '{"amount": 0.2, "at": "2026-01-31T10:00:07Z", "by": "y"}', 2),
        record(b"a", '{"amount": "none", "at": "2026-01-31T10:00:12Z", "by": "x"}', 11),
        record(b"b", "no json", 3),
    ]
    frame = spark.createDataFrame(records, "key binary, value binary, timestamp timestamp")

    def results(**settings: Any) -> list[dict[str, Any]]:
        config = AggregateConfig(
            topics=("t",), to_topic=("u",), checkpoint_dir="/c", window="10 seconds", **settings
        )
        rows = aggregated(frame, config).collect()
        found = [json.loads(row["value"], parse_float=str) for row in rows]
        assert [json.loads(row["key"]) for row in rows] == [
            {n: f[n] for n in ("group", "start")} for f in found
        ]
        return sorted(found, key=lambda each: (each["group"] or "", each["start"]))

    by_key = results(sums=("$.amount",))
    assert [(each["group"], each["start"], each["end"], each["count"]) for each in by_key] == [
        ("a", "2026-01-31T12:00:00Z", "2026-01-31T12:00:10Z", 2),
        ("a", "2026-01-31T12:00:10Z", "2026-01-31T12:00:20Z", 1),
        ("b", "2026-01-31T12:00:00Z", "2026-01-31T12:00:10Z", 1),
    ]
    sums = [each["sums"]["$.amount"] for each in by_key]
    assert [None if each is None else Decimal(each) for each in sums] == [Decimal("0.3"), None, None]

    by_field = results(event_time="$.at", group_by="$.by", slide="5 seconds")
    assert [(each["group"], each["start"][11:19], each["count"]) for each in by_field] == [
        ("x", "09:59:55", 1),
        ("x", "10:00:00", 1),
        ("x", "10:00:05", 1),
        ("x", "10:00:10", 1),
        ("y", "10:00:00", 1),
        ("y", "10:00:05", 1),
    ]


def _results(spark: SparkSession, *records: tuple[bytes | None, bytes]) -> list[tuple[Any, Any]]:
    """Keys and values of one window with sums of `$.n`."""
    at = datetime(2026, 1, 31, 12, tzinfo=UTC)
    frame = spark.createDataFrame(
        [(*record, at) for record in records], "key binary, value binary, timestamp timestamp"
    )
    config = AggregateConfig(topics=("t",), to_topic=("u",), checkpoint_dir="/c", sums=("$.n",))
    rows = aggregated(frame, config).collect()
    return sorted(
        ((json.loads(row["key"]), json.loads(row["value"], parse_float=str)) for row in rows), key=str
    )


def test_keys_that_are_no_text_are_told_apart_in_hexadecimal(spark: SparkSession) -> None:
    found = _results(
        spark,
        (b"\xff\x01", b"{}"),
        (b"\xff\x01", b"{}"),
        (b"\xfe\x01", b"{}"),
        (None, b"{}"),
        (b"FE01", b"{}"),
    )
    start = "2026-01-31T12:00:00Z"
    assert [key for key, _ in found] == [
        {"group": "FE01", "start": start},
        {"group_hex": "FE01", "start": start},
        {"group_hex": "FF01", "start": start},
        {"start": start},
    ]
    assert [value["count"] for _, value in found] == [1, 1, 2, 1]
    assert [value.get("group_hex") for _, value in found] == [None, "FE01", "FF01", None]
    assert [value["group"] for _, value in found if "group" in value] == ["FE01", None]


def test_a_sum_that_is_too_large_is_null_and_ends_nothing(spark: SparkSession) -> None:
    big = b'{"n": 99999999999999999999999999999}'
    found = _results(spark, *[(b"k", big)] * 3, (b"other", b'{"n": 1}'))
    assert [value["sums"]["$.n"] for _, value in found] == [None, "1.000000000"]
    assert [value["count"] for _, value in found] == [3, 1]


@LONG
def test_killed_in_the_middle_the_last_result_of_every_window_is_right(
    quorate_cluster: LocalCluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    source, target = new_topic(**KEPT), new_topic(**KEPT)
    fill_topic(quorate_cluster, source, 2000)
    options = ["--topics", source, "--to-topic", target, "--checkpoint-dir", str(tmp_path), "--once"]
    options += ["--window", "10 seconds", "--watermark", "1 minute", "--sum", "$.amount"]
    options += ["--max-offsets-per-trigger", "400", "--progress-interval", "100"]
    with JobProcess("aggregate", *options, bootstrap=quorate_cluster.bootstrap) as job:
        job.wait_for(lambda line: "batch" in line)
    run_job("aggregate", *options, bootstrap=quorate_cluster.bootstrap)

    assert _last_words(quorate_cluster, target) == _truth(quorate_cluster, source)


@LONG
def test_asked_to_stop_it_finishes_its_batch_and_goes_on_from_there(
    quorate_cluster: LocalCluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    source, target = new_topic(**KEPT), new_topic(**KEPT)
    fill_topic(quorate_cluster, source, 4000)
    options = ["--topics", source, "--to-topic", target, "--checkpoint-dir", str(tmp_path)]
    options += ["--window", "10 seconds", "--watermark", "1 minute", "--sum", "$.amount"]
    options += ["--max-offsets-per-trigger", "200", "--progress-interval", "100", "--trigger-interval", "0"]
    stop_within_a_batch("aggregate", *options, bootstrap=quorate_cluster.bootstrap)
    assert _last_words(quorate_cluster, target) != _truth(quorate_cluster, source), "it was not done yet"

    run_job("aggregate", *options, "--once", bootstrap=quorate_cluster.bootstrap)
    assert _last_words(quorate_cluster, target) == _truth(quorate_cluster, source)
