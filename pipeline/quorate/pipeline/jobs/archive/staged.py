"""A batch as files that nobody sees yet.

Spark writes them into a directory of their own, task by task. What they hold is then read back from the files
themselves, not taken from the plan: the offsets that are committed are those that are really there. The tasks
say how many rows they wrote: where the driver finds others, it does not see what they see.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["PARTITION_COLUMNS", "Ends", "Span", "Staged", "StagedFile", "look_at", "only_new", "stage"]

#: how the directories of an archive are named, outermost first
PARTITION_COLUMNS: Final = ("date", "topic")

#: of each partition the offset up to which it is archived, exclusive
Ends = Mapping[tuple[str, int], int]


class Span(NamedTuple):
    """Of one partition, in one batch."""

    first: int
    #: exclusive
    end: int


@dataclass(frozen=True, slots=True)
class StagedFile:
    #: where it is now
    path: str
    #: where it belongs, from the root of the archive
    name: str
    rows: int
    bytes: int
    spans: Mapping[tuple[str, int], Span]

    @property
    def values(self) -> Mapping[str, str]:
        """Of the columns that its directories stand for."""
        directories = os.path.dirname(self.name).split("/")
        return dict(each.split("=", 1) for each in directories)


@dataclass(frozen=True, slots=True)
class Staged:
    files: Sequence[StagedFile]
    #: as the tasks say that wrote them
    rows_written: int

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def spans(self) -> Mapping[tuple[str, int], Span]:
        found: dict[tuple[str, int], Span] = {}
        for file in self.files:
            for partition, span in file.spans.items():
                known = found.get(partition, span)
                found[partition] = Span(min(known.first, span.first), max(known.end, span.end))
        return found

    @property
    def directories(self) -> set[str]:
        return {os.path.dirname(file.name) for file in self.files}

    def is_known(self, ends: Ends) -> bool:
        """Whether all of it is archived already."""
        return all(span.end <= ends.get(partition, 0) for partition, span in self.spans.items())

    def repeats(self, ends: Ends) -> bool:
        """Whether some of it is archived already."""
        return any(span.first < ends.get(partition, 0) for partition, span in self.spans.items())


def stage(frame: DataFrame, directory: str, *, prefix: str) -> Staged:
    """Write the records of a topic, as they were read, into files below ``directory``, which is made."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    counted = Observation()
    dated = frame.observe(counted, f.count("*").alias("rows")).withColumn("date", f.to_date("timestamp"))
    dated.write.mode("error").partitionBy(*PARTITION_COLUMNS).parquet(directory)
    return Staged(
        [look_at(directory, name, prefix) for name in sorted(_parquet_files(directory))],
        # A plan that Spark finds to be empty may have nothing to observe.
        rows_written=counted.get.get("rows", 0),
    )


def only_new(frame: DataFrame, ends: Ends) -> DataFrame:
    """Without what is archived already."""
    from pyspark.sql import functions as f

    is_old = f.expr("false")
    for (topic, partition), end in ends.items():
        is_old |= (f.col("topic") == topic) & (f.col("partition") == partition) & (f.col("offset") < end)
    return frame.where(~is_old)


def _parquet_files(directory: str) -> Iterator[str]:
    for parent, directories, names in os.walk(directory):
        # An attempt of a task that was given up may still leave something in `_temporary`.
        directories[:] = [each for each in directories if not each.startswith("_")]
        for name in names:
            if name.endswith(".parquet"):
                yield os.path.relpath(f"{parent}/{name}", directory)


def look_at(directory: str, name: str, prefix: str) -> StagedFile:
    """What a file holds, and what it will be called. ``name``: from ``directory``."""
    import pyarrow.parquet as pq  # type: ignore[import-untyped]  # it ships no types

    path = f"{directory}/{name}"
    parent, file_name = os.path.split(name)
    topic = dict(each.split("=", 1) for each in parent.split("/"))["topic"]
    # The file alone: as part of a tree it would show the columns of its directories as well.
    with pq.ParquetFile(path) as file:
        found = file.read(["partition", "offset"])
    ranges = found.group_by("partition").aggregate([("offset", "min"), ("offset", "max")]).to_pylist()
    return StagedFile(
        path=path,
        name=f"{parent}/{prefix}-{file_name}",
        rows=found.num_rows,
        bytes=os.path.getsize(path),
        spans={
            (topic, each["partition"]): Span(each["offset_min"], each["offset_max"] + 1) for each in ranges
        },
    )
