"""An archive as a frame."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from quorate.errors import InvalidRequest
from quorate.pipeline.jobs.archive.delta_store import topic_ids_file_of
from quorate.pipeline.jobs.archive.extents import FileExtents, files_below, has_files_below
from quorate.pipeline.jobs.archive.listing import listed_whole
from quorate.pipeline.jobs.archive.parquet_store import state_file_of
from quorate.pipeline.jobs.config.base import StoreFormat
from quorate.pipeline.jobs.files import read_object
from quorate.pipeline.jobs.session import need_package

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "ARCHIVE_SCHEMA",
    "archived_topic_id",
    "check_is_archive",
    "file_extents",
    "newest_version",
    "read_archive",
    "read_files",
]

#: given, not found out: a topic called 2024 would become a number, and an archive of no files has no columns
ARCHIVE_SCHEMA: Final = (
    "key binary, value binary, partition int, offset bigint, timestamp timestamp, timestampType int, "
    "headers array<struct<key:string,value:binary>>, date date, topic string"
)


def check_is_archive(path: str, store_format: StoreFormat) -> None:
    """Rather told at once than by Spark. One that is empty yet, or that others have made, is one, too."""
    own = topic_ids_file_of(path) if store_format is StoreFormat.DELTA else state_file_of(path)
    if not os.path.isdir(path):
        why = "it is no directory" if os.path.exists(path) else "it does not exist"
    elif os.path.exists(own) or has_files_below(path):
        return
    else:
        why = "it holds no file of Parquet"
    raise InvalidRequest(f"there is no archive in {path}: {why}", path=path)


def read_archive(
    spark: SparkSession, path: str, store_format: StoreFormat, *, version: int | None = None
) -> DataFrame:
    """``version``: of a table of Delta; None: the newest."""
    if store_format is StoreFormat.PARQUET:
        reader = spark.read.schema(ARCHIVE_SCHEMA).option("basePath", path)
        # Spark lists the files here, not when it reads them.
        return listed_whole(path, state_file_of(path), lambda: reader.parquet(path))
    return read_files(spark, path, _files_of_version(path, version))


def read_files(spark: SparkSession, path: str, files: Sequence[str]) -> DataFrame:
    """Some of those of the archive at ``path``."""
    if not files:
        return spark.createDataFrame([], ARCHIVE_SCHEMA)
    return spark.read.schema(ARCHIVE_SCHEMA).option("basePath", path).parquet(*files)


def file_extents(path: str, store_format: StoreFormat, topic: str, *, version: int | None) -> FileExtents:
    """``version``: of a table of Delta."""
    if store_format is StoreFormat.PARQUET:
        return FileExtents(topic, lambda: listed_whole(path, state_file_of(path), lambda: files_below(path)))
    return FileExtents(topic, lambda: _files_of_version(path, version))


def _files_of_version(path: str, version: int | None) -> list[str]:
    need_package("deltalake", "delta")
    from deltalake import DeltaTable

    return DeltaTable(path, version=version).file_uris()


def archived_topic_id(path: str, store_format: StoreFormat, topic: str) -> str | None:
    """Whose records these are; None: the files were made by somebody else, who knows of no ids."""
    if store_format is StoreFormat.DELTA:
        ids = read_object(topic_ids_file_of(path)) or {}
    else:
        ids = (read_object(state_file_of(path)) or {}).get("topic_ids", {})
    found: str | None = ids.get(topic)
    return found


def newest_version(path: str, store_format: StoreFormat) -> int | None:
    """Whose files stay while others are written; None: Parquet has no versions."""
    if store_format is StoreFormat.PARQUET:
        return None
    need_package("deltalake", "delta")
    from deltalake import DeltaTable

    if not DeltaTable.is_deltatable(path):
        raise InvalidRequest(f"{path} is no table of Delta", path=path)
    return int(DeltaTable(path).version())
