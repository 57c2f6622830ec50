"""The aggregate job, killed in the middle: the last result of every window is the truth."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

from quorate.testing import LocalCluster
from tests.pipeline.job_helpers import KEPT, LONG, fill_topic, topic_content
from tests.pipeline.job_process import JobProcess, run_job

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
