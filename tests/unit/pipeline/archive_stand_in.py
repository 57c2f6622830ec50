"""The archive job without Spark: batches are lists of records, and files are written by pyarrow."""

from __future__ import annotations

import os
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # it ships no types
import pytest

from quorate.pipeline.jobs.archive import job as archive_job
from quorate.pipeline.jobs.archive.staged import Ends, Staged, look_at
from quorate.pipeline.jobs.progress import Progress
from quorate.pipeline.jobs.stopping import StopRequest

__all__ = ["Listener", "Record", "batch_of", "stand_in_for_spark", "visible"]

_START = datetime(2026, 1, 31, 23, 59, 50, tzinfo=UTC)


class Record(NamedTuple):
    topic: str
    partition: int
    offset: int

    @property
    def timestamp(self) -> datetime:
        """Ten records and it is the next day."""
        return _START + timedelta(seconds=self.offset)


class Listener:
    """Whoever runs a job, and keeps what it says."""

    def __init__(self) -> None:
        self.stop = StopRequest()
        self.lines: list[str] = []
        self.progress: list[Progress] = []

    def tell(self, line: str) -> None:
        self.lines.append(line)

    def show(self, progress: Progress) -> None:
        self.progress.append(progress)


def batch_of(first: int, end: int, *, topic: str = "orders", partitions: int = 2) -> list[Record]:
    """The same offsets of every partition."""
    return [
        Record(topic, partition, offset) for offset in range(first, end) for partition in range(partitions)
    ]


def stand_in_for_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_job, "stage", _stage)
    monkeypatch.setattr(archive_job, "only_new", _only_new)


def _stage(records: list[Record], directory: str, *, prefix: str) -> Staged:
    by_directory: dict[str, list[Record]] = {}
    for record in records:
        by_directory.setdefault(f"date={record.timestamp:%Y-%m-%d}/topic={record.topic}", []).append(record)
    os.makedirs(directory)
    for name, found in by_directory.items():
        os.makedirs(f"{directory}/{name}")
        rows: list[dict[str, Any]] = [
            {
                "key": b"k",
                "value": b"%d" % record.offset,
                "partition": record.partition,
                "offset": record.offset,
                "timestamp": record.timestamp,
            }
            for record in found
        ]
        pq.write_table(pa.Table.from_pylist(rows), f"{directory}/{name}/part-0.parquet")
    files = [look_at(directory, f"{name}/part-0.parquet", prefix) for name in sorted(by_directory)]
    return Staged(files, rows_written=len(records))


def _only_new(records: list[Record], ends: Ends) -> list[Record]:
    return [each for each in records if each.offset >= ends.get((each.topic, each.partition), 0)]


def visible(path: Path) -> Counter[Record]:
    """What a reader finds that knows nothing of how it was written."""
    found: Counter[Record] = Counter()
    for file in path.glob("date=*/topic=*/*.parquet"):
        topic = file.parent.name.removeprefix("topic=")
        for row in pq.ParquetFile(file).read(["partition", "offset"]).to_pylist():
            found[Record(topic, row["partition"], row["offset"])] += 1
    return found
