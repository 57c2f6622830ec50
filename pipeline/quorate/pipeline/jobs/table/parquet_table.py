"""A table of plain Parquet files, in versions, of which one is current.

``PATH/current`` is a symbolic link to the version that counts: a directory with the files of all buckets and
with ``_state.json``, which says how far each partition is in it. A batch makes the next version: the buckets
whose keys it changes are written anew, the others are hard links to the same files. When all of it is
durable, the link is replaced in one step. So readers find one version or the next, whole; the version
before the current one stays for those who are in the middle of it.

A kill before the link is replaced leaves a version that nothing refers to, which the next start removes; the
batch is done again. A kill after it: Spark asks for the batch again, and its records are known by their
offsets.
"""

from __future__ import annotations

import glob
import json
import os
import shutil
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Final

from quorate.errors import InvalidRequest
from quorate.pipeline.jobs.archive.topic_ids import check_topic_ids
from quorate.pipeline.jobs.batch import Batch
from quorate.pipeline.jobs.files import replace_file, sync_directory, sync_tree
from quorate.pipeline.jobs.seen_rows import check_seen

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["ParquetLatest"]

_VERSION: Final = 1
_STATE: Final = "_state.json"
_SCHEMA: Final = "key binary, value binary, partition int, offset bigint, timestamp timestamp"
_VERSIONS_KEPT: Final = 2
_FIRST_VERSION: Final = f"{1:012d}"


@dataclass(frozen=True, slots=True)
class _State:
    buckets: int
    topic_ids: dict[str, str] = field(default_factory=dict)
    #: by partition; exclusive
    ends: dict[str, int] = field(default_factory=dict)
    #: the last one, its query and number: for people who look
    batch: tuple[str, int] | None = None


class ParquetLatest:
    def __init__(self, path: str, *, buckets: int) -> None:
        self._path = path
        self._versions = f"{path}/versions"
        self._link = f"{path}/current"
        self._number = 0
        self._state = _State(buckets)

    def open(self, topic_ids: dict[str, str]) -> None:
        os.makedirs(self._versions, exist_ok=True)
        if os.path.islink(self._link):
            self._number = int(os.path.basename(os.readlink(self._link)))
            self._state = _read_state(f"{self._link}/{_STATE}", self._state.buckets)
        else:
            self._check_new()
        known = check_topic_ids(self._path, self._state.topic_ids, topic_ids, may_grow=False)
        self._state = replace(self._state, topic_ids=known)
        self._remove_versions(newest=self._number)

    @property
    def is_empty(self) -> bool:
        return self._number == 0

    def _check_new(self) -> None:
        """Without a link only the first version may be there, of a job that was killed before it made one."""
        if any(name > _FIRST_VERSION for name in os.listdir(self._versions) if name.isdecimal()):
            raise InvalidRequest(
                f"{self._versions} has versions of a table, and {self._link} is missing, which says which of "
                f"them counts: make that link again, or name another path and checkpoint",
                path=self._link,
            )

    def end_of(self, partition: int) -> int:
        return self._state.ends.get(str(partition), 0)

    def apply(self, latest: DataFrame, ends: Mapping[int, int], batch: Batch) -> None:
        work = f"{self._path}/_work-{uuid.uuid4().hex}"
        changed, written = self._write_changed(latest, work)
        check_seen(written=written, found=_rows_below(work))
        all_ends = self._state.ends | {str(partition): end for partition, end in ends.items()}
        state = replace(self._state, ends=all_ends, batch=(batch.query_id, batch.number))
        self._become(state, work, changed)

    def _write_changed(self, latest: DataFrame, work: str) -> tuple[set[int], int]:
        """Into ``work``: which buckets these are, and how many rows the tasks say that they have written."""
        from pyspark.sql import functions as f

        in_bucket = f.pmod(f.hash("partition", "key"), f.lit(self._state.buckets)).alias("bucket")
        bucketed = latest.select("key", "value", "partition", "offset", "timestamp", in_bucket).persist()
        try:
            changed = {row["bucket"] for row in bucketed.select("bucket").distinct().collect()}
            return changed, self._write_buckets(bucketed, changed, work)
        finally:
            bucketed.unpersist()

    def _write_buckets(self, bucketed: DataFrame, changed: set[int], work: str) -> int:
        from pyspark.sql import Observation
        from pyspark.sql import functions as f

        spark = bucketed.sparkSession
        paths = [f"{self._link}/{name}" for name in self._files() if _bucket_of(name) in changed]
        before = (
            spark.read.schema(f"{_SCHEMA}").parquet(*paths) if paths else spark.createDataFrame([], _SCHEMA)
        )
        in_bucket = f.pmod(f.hash("partition", "key"), f.lit(self._state.buckets)).alias("bucket")
        newest = f.max_by(f.struct("value", "offset", "timestamp"), "offset").alias("newest")
        merged = (
            before.select("*", in_bucket)
            .unionByName(bucketed)
            .groupBy("bucket", "partition", "key")
            .agg(newest)
            .select("key", "newest.value", "partition", "newest.offset", "newest.timestamp", "bucket")
            .where(f.col("value").isNotNull())
        )
        counted = Observation()
        # One file for each: buckets are the unit in which files are kept.
        whole = merged.repartition("bucket").observe(counted, f.count("*").alias("rows"))
        whole.write.partitionBy("bucket").parquet(work)
        # A plan that Spark finds to be empty may have nothing to observe.
        written: int = counted.get.get("rows", 0)
        return written

    def _become(self, state: _State, work: str, changed: set[int]) -> None:
        """The next version, from the buckets in ``work`` and those that have not changed."""
        number = self._number + 1
        target = f"{self._versions}/{number:012d}"
        made = f"{target}.making"
        os.makedirs(made)
        for name in self._files():
            if _bucket_of(name) not in changed:
                os.link(f"{self._link}/{name}", f"{made}/{name}")
        for directory in os.listdir(work):
            if directory.startswith("bucket="):
                bucket = int(directory.removeprefix("bucket="))
                for index, name in enumerate(sorted(os.listdir(f"{work}/{directory}"))):
                    if name.endswith(".parquet"):
                        unique = f"{number:012d}-{index}"
                        os.rename(
                            f"{work}/{directory}/{name}", f"{made}/bucket-{bucket:05d}-{unique}.parquet"
                        )
        _write_empty(f"{made}/schema.parquet")
        replace_file(f"{made}/{_STATE}", _encoded(state))
        sync_tree(made)
        os.rename(made, target)
        sync_directory(self._versions)
        self._point_to(number)
        self._state, self._number = state, number
        shutil.rmtree(work)
        self._remove_versions(newest=number)

    def _point_to(self, number: int) -> None:
        """This is what commits it."""
        link = f"{self._path}/_current-{uuid.uuid4().hex}"
        os.symlink(f"versions/{number:012d}", link)
        os.replace(link, self._link)
        sync_directory(self._path)

    def _remove_versions(self, *, newest: int) -> None:
        """Those before the last few, and whatever was being made."""
        kept = {f"{number:012d}" for number in range(newest - _VERSIONS_KEPT + 1, newest + 1)}
        for name in os.listdir(self._versions):
            if name not in kept:
                shutil.rmtree(f"{self._versions}/{name}")
        for name in os.listdir(self._path):
            if name.startswith("_work-"):
                shutil.rmtree(f"{self._path}/{name}")
            elif name.startswith("_current-"):
                os.remove(f"{self._path}/{name}")

    def _files(self) -> list[str]:
        """Of the current version."""
        if self._number == 0:
            return []
        return [name for name in os.listdir(self._link) if name.startswith("bucket-")]


def _rows_below(work: str) -> int:
    import pyarrow.parquet as pq  # type: ignore[import-untyped]  # it ships no types

    return sum(
        pq.read_metadata(file).num_rows for file in glob.glob(f"{glob.escape(work)}/bucket=*/*.parquet")
    )


def _bucket_of(name: str) -> int:
    return int(name.split("-")[1])


def _write_empty(path: str) -> None:
    """Columns without rows: a table from which everything was deleted is still one."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
    ]
    pq.write_table(pa.schema(columns).empty_table(), path)


def _encoded(state: _State) -> bytes:
    return json.dumps({"version": _VERSION, **asdict(state)}, indent=1, sort_keys=True).encode()


def _read_state(path: str, buckets: int) -> _State:
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
        if found.pop("version") != _VERSION:
            raise ValueError("another version has written it")
        batch = found.pop("batch")
        state = _State(**found, batch=None if batch is None else (batch[0], batch[1]))
    except (KeyError, OSError, TypeError, ValueError) as error:
        raise InvalidRequest(
            f"{path} cannot be read ({error!r}): restore it, or name another path", path=path
        ) from error
    if state.buckets != buckets:
        raise InvalidRequest(
            f"buckets: the table has {state.buckets}, fixed when it was made, not {buckets}", path=path
        )
    return state
