"""An archive as a frame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from quorate.errors import InvalidRequest
from quorate.pipeline.jobs.archive.delta_store import topic_ids_file_of
from quorate.pipeline.jobs.archive.listing import listed_whole
from quorate.pipeline.jobs.archive.parquet_store import state_file_of
from quorate.pipeline.jobs.config.base import StoreFormat
from quorate.pipeline.jobs.files import read_object
from quorate.pipeline.jobs.session import need_package

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["ARCHIVE_SCHEMA", "archived_topic_id", "newest_version", "read_archive"]

#: given, not found out: a topic called 2024 would become a number, and an archive of no files has no columns
ARCHIVE_SCHEMA: Final = (
    "key binary, value binary, partition int, offset bigint, timestamp timestamp, timestampType int, "
    "headers array<struct<key:string,value:binary>>, date date, topic string"
)


def read_archive(
    spark: SparkSession, path: str, store_format: StoreFormat, *, version: int | None = None
) -> DataFrame:
    """``version``: of a table of Delta; None: the newest."""
    reader = spark.read.schema(ARCHIVE_SCHEMA).option("basePath", path)
    if store_format is StoreFormat.PARQUET:
        # Spark lists the files here, not when it reads them.
        return listed_whole(path, state_file_of(path), lambda: reader.parquet(path))
    need_package("deltalake", "delta")
    from deltalake import DeltaTable

    files = DeltaTable(path, version=version).file_uris()
    return reader.parquet(*files) if files else spark.createDataFrame([], ARCHIVE_SCHEMA)


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
