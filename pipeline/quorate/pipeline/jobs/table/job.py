"""``quorate pipeline run table``.

What a key is: a key in a partition. Whoever writes by key always writes a key to the same one, as long as the
topic does not grow: see ``growth``. A key that was written to two has two rows, as it has two records after
compaction.

What is in the table is known by offsets, never by the number of a batch: see ``Archiving``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quorate.errors import InvalidRecord
from quorate.pipeline.jobs.archive.topic_ids import ids_of_topics
from quorate.pipeline.jobs.batch import Batch
from quorate.pipeline.jobs.checkpoints import claim_for_place
from quorate.pipeline.jobs.config.base import StoreFormat
from quorate.pipeline.jobs.config.table import NullKeys, TableConfig
from quorate.pipeline.jobs.job_lock import only_one_job
from quorate.pipeline.jobs.reading import read_stream, what_is_read
from quorate.pipeline.jobs.running import Job, Outcome, run_stream
from quorate.pipeline.jobs.session import open_session
from quorate.pipeline.jobs.table.delta_table import DeltaLatest
from quorate.pipeline.jobs.table.growth import KnownPartitions
from quorate.pipeline.jobs.table.parquet_table import ParquetLatest
from quorate.pipeline.jobs.table.store import TableStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

__all__ = ["latest_by_key", "run"]


def run(config: TableConfig, job: Job) -> Outcome:
    """Until everything is done (``once``) or the job is asked to stop."""
    topic_ids = ids_of_topics(config.bootstrap_servers, config.topic)
    with only_one_job(config.path), only_one_job(config.checkpoint):
        store: TableStore = (
            DeltaLatest(config.path)
            if config.store_format is StoreFormat.DELTA
            else ParquetLatest(config.path, buckets=config.buckets)
        )
        store.open(topic_ids)
        claim_for_place("table", config, is_empty=store.is_empty)
        (topic,) = config.topic
        partitions = KnownPartitions(config.path, topic, config.grown_topic)
        partitions.open(_partition_count(config.bootstrap_servers, topic), is_empty=store.is_empty)
        spark = open_session("table", config, tell=job.tell)
        frame = read_stream(spark, config, config.topic)
        job.tell(what_is_read(config, config.topic))
        keeping = _Keeping(store, partitions, config.null_keys, job)
        return run_stream(job, frame, config, checkpoint=config.checkpoint, on_batch=keeping.on_batch)


def _partition_count(bootstrap: str, topic: str) -> int:
    from quorate.client import Admin

    with Admin(bootstrap) as admin:
        return len(admin.describe_topic(topic).partitions)


class _Keeping:
    def __init__(self, store: TableStore, partitions: KnownPartitions, null_keys: NullKeys, job: Job) -> None:
        self._store = store
        self._partitions = partitions
        self._null_keys = null_keys
        self._job = job

    def on_batch(self, frame: DataFrame, batch: Batch) -> None:
        # It is looked at twice, and read once.
        frame.persist()
        try:
            self._merge(frame, batch)
        finally:
            frame.unpersist()

    def _merge(self, frame: DataFrame, batch: Batch) -> None:
        from pyspark.sql import functions as f

        reached = frame.groupBy("partition").agg(
            f.max("offset").alias("last"),
            f.count_if(f.col("key").isNull()).alias("null_keys"),
            f.min(f.when(f.col("key").isNull(), f.col("offset"))).alias("first_null_key"),
        )
        found = reached.collect()
        # It may have grown since the start.
        self._partitions.look_at(1 + max((row["partition"] for row in found), default=-1))
        for row in found:
            self._look_at_null_keys(row)
        known = {row["partition"]: self._store.end_of(row["partition"]) for row in found}
        ends = {row["partition"]: row["last"] + 1 for row in found if row["last"] >= known[row["partition"]]}
        if not ends:
            return
        is_new = f.expr("false")
        for partition in ends:
            is_new |= (f.col("partition") == partition) & (f.col("offset") >= known[partition])
        self._store.apply(latest_by_key(frame.where(is_new & f.col("key").isNotNull())), ends, batch)

    def _look_at_null_keys(self, row: Row) -> None:
        if not row["null_keys"]:
            return
        if self._null_keys is NullKeys.FAIL:
            raise InvalidRecord(
                f"partition {row['partition']}: the record at offset {row['first_null_key']} has no key, "
                f"and a "
                "table is by key; null.keys=skip leaves such records out",
                partition=row["partition"],
                offset=row["first_null_key"],
            )
        self._job.tell(
            f"partition {row['partition']}: {row['null_keys']:,} records without a key are left out"
        )


def latest_by_key(frame: DataFrame) -> DataFrame:
    """One row for each partition and key: the one with the highest offset."""
    from pyspark.sql import functions as f

    newest = f.max_by(f.struct("value", "offset", "timestamp"), "offset").alias("newest")
    return frame.groupBy("partition", "key").agg(newest).select("partition", "key", "newest.*")
