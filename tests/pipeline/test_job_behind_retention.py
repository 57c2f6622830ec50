"""A job whose topic has forgotten what it was to read says so in a line, or goes on if it is told to."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq  # type: ignore[import-untyped]  # it ships no types

from quorate.testing import LocalCluster
from tests.pipeline.job_helpers import LONG
from tests.pipeline.job_process import JobProcess, run_job
from tests.pipeline.reader_helpers import send

NewTopic = Callable[..., str]

#: many times the second between two looks at what is old
_SOON_S: Final = 60.0
_READ: Final = 5


@LONG
def test_a_job_that_fell_behind_retention_is_refused_or_goes_on_and_says_what_it_lacks(
    quorate_cluster: LocalCluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(1, **{"segment.bytes": "16384", "retention.bytes": "16384"})
    archive = tmp_path / "archive"
    # Far fewer than are gone: it is not to go through them batch by batch.
    options = ["--topics", topic, "--path", str(archive), "--once", "--max-offsets-per-trigger", "100"]

    def run(*more: str) -> list[str]:
        return run_job("archive", *options, *more, bootstrap=quorate_cluster.bootstrap)

    send(quorate_cluster, topic, _READ)
    run()
    _forget_what_was_not_read(quorate_cluster, topic)

    with JobProcess("archive", *options, bootstrap=quorate_cluster.bootstrap) as job:
        assert job.wait() == 1, job.lines
    (said,) = [line for line in job.lines if line.startswith("error: ")]
    assert re.search(
        rf"JOB_FAILED: the job failed: DataLost: {topic}-0 at offset {_READ}: records from {_READ} to \d+ "
        rf"were deleted before they were read.*With failOnDataLoss=false \(fail\.on\.data\.loss=false,",
        said,
    ), said
    assert _offsets_in(archive) == list(range(_READ))

    lines = run("--fail-on-data-loss", "false")
    offsets = _offsets_in(archive)
    lost = offsets[_READ] - _READ
    end = offsets[-1] + 1
    assert offsets == [*range(_READ), *range(_READ + lost, end)]
    assert _lost_as_told(lines, topic) == lost
    assert sum(" batch " in line for line in lines) <= 1 + (end - lost) // 100, lines

    # What is gone is told once, and nobody misses it afterwards.
    assert not _lost_as_told(run(), topic)
    send(quorate_cluster, topic, 3)
    run()
    assert _offsets_in(archive) == [*offsets, end, end + 1, end + 2]


def _forget_what_was_not_read(cluster: LocalCluster, topic: str) -> None:
    send(cluster, topic, 2_000, batch_bytes=4096)
    deadline = time.monotonic() + _SOON_S
    with cluster.admin() as admin:
        while True:
            (begins,) = admin.list_offsets(topic, "earliest").values()
            if begins.offset is not None and begins.offset > _READ + 1_000:
                return
            assert time.monotonic() < deadline, f"{topic} begins at {begins.offset}"
            time.sleep(0.2)


def _offsets_in(archive: Path) -> list[int]:
    files = archive.glob("date=*/**/*.parquet")
    return sorted(offset for each in files for offset in pq.read_table(each)["offset"].to_pylist())


def _lost_as_told(lines: Sequence[str], topic: str) -> int:
    told = [line for line in lines if "data_lost" in line]
    assert all(f"{topic}-0" in line for line in told), told
    counts = [re.search(r"offsets\W+(\d+)", line) for line in told]
    return sum(int(count[1]) for count in counts if count is not None)
